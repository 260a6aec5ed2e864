#include "folders.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace warpsmith {
namespace {

uint64_t found_bytes;  // nftw hands its callback no context

int remove_one(const char* path, const struct stat*, int, struct FTW*) { return remove(path), 0; }

int add_one(const char*, const struct stat* found, int, struct FTW*) {
  return found_bytes += 512 * static_cast<uint64_t>(found->st_blocks), 0;
}

Given returned;  // what `return_one` needs

int return_one(const char* path, const struct stat* found, int type, struct FTW*) {
  if (found->st_uid != returned.child) return 0;
  (void)!lchown(path, returned.uid, returned.gid);
  if (type == FTW_D || type == FTW_DNR) (void)!chmod(path, (found->st_mode & 07777) | S_IRWXU);
  return 0;
}

uint64_t folder_bytes(const Spec& spec) {
  found_bytes = 0;
  for (const Bind& bind : spec.binds)
    if (bind.write) nftw(bind.path.c_str(), add_one, 16, FTW_PHYS | FTW_MOUNT);
  return found_bytes;
}

}  // namespace

bool Folders::give(const Spec& spec, const Owner& owner, std::string* error) {
  before_bytes_ = folder_bytes(spec);
  for (const Bind& bind : spec.binds) {
    struct stat before;
    if (!bind.write) continue;
    if (lstat(bind.path.c_str(), &before) != 0 ||
        (owner.change && lchown(bind.path.c_str(), owner.uid, owner.gid) != 0))
      return *error = bind.path + " cannot be given to the child: " + strerror(errno), false;
    given_.push_back({bind.path, owner.uid, before.st_uid, before.st_gid});
  }
  return true;
}

bool Folders::make_scratch(Spec* spec, const Owner& owner, std::string* error) {
  char path[] = "/tmp/warpsmith-confined-XXXXXX";
  if (!mkdtemp(path) || (owner.change && lchown(path, owner.uid, owner.gid) != 0))
    return *error = std::string("a scratch folder cannot be made in /tmp: ") + strerror(errno), false;
  scratch_ = path;
  spec->binds.push_back({path, true});
  for (std::string& variable : spec->environment) {
    if (variable == "TMPDIR=/tmp") variable = "TMPDIR=" + scratch_;
    if (variable == "HOME=/tmp") variable = "HOME=" + scratch_;
  }
  if (spec->folder == "/tmp") spec->folder = path;
  return true;
}

uint64_t Folders::written_bytes(const Spec& spec) const {
  const uint64_t now_bytes = folder_bytes(spec);
  return now_bytes > before_bytes_ ? now_bytes - before_bytes_ : 0;
}

void Folders::take_back() {
  // With what the child made in them: an ordinary user could not delete a folder of a subordinate id, or a closed one.
  for (const Given& one : given_) {
    returned = one;
    nftw(one.path.c_str(), return_one, 16, FTW_PHYS | FTW_MOUNT);
  }
  if (!scratch_.empty()) nftw(scratch_.c_str(), remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

}  // namespace warpsmith
