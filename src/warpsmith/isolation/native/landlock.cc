#include "landlock.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace warpsmith {
namespace {

// Numbers of the kernel's interface: headers that are older than the running kernel lack the later ones.
constexpr long kCreate = 444, kAddRule = 445, kRestrict = 446;
constexpr unsigned int kVersionQuery = 1, kPathBeneath = 1;
constexpr uint64_t kExecute = 1 << 0, kWriteFile = 1 << 1, kReadFile = 1 << 2, kReadFolder = 1 << 3;
constexpr uint64_t kTruncate = 1 << 14, kDeviceControl = 1 << 15;
constexpr uint64_t kFileRights = kExecute | kWriteFile | kReadFile | kTruncate | kDeviceControl;
constexpr uint64_t kReading = kExecute | kReadFile | kReadFolder;

struct Ruleset {
  uint64_t files, network, scoped;
};

struct __attribute__((packed)) PathRule {
  uint64_t allowed;
  int32_t parent;
};

uint64_t file_rights(long version) {
  uint64_t rights = (1ULL << 13) - 1;      // version 1: up to making symbolic links
  if (version >= 2) rights |= 1ULL << 13;  // moving between folders
  if (version >= 3) rights |= kTruncate;
  if (version >= 5) rights |= kDeviceControl;
  return rights;
}

void allow(int rules, const std::string& path, uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return;  // a path that does not exist needs no rule
  struct stat found;
  if (fstat(fd, &found) == 0 && !S_ISDIR(found.st_mode)) rights &= kFileRights;
  const PathRule rule = {rights, fd};
  syscall(kAddRule, rules, kPathBeneath, &rule, 0);
  close(fd);
}

void allow_devices(int rules, const Spec& spec, uint64_t handled) {
  const uint64_t rights = (kReadFile | kWriteFile | kDeviceControl) & handled;
  for (const char* node : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
    allow(rules, node, rights);
  if (!spec.devices) return;
  glob_t found;
  for (const char* pattern : {"/dev/nvidia*", "/dev/nvidia-caps/*"}) {
    if (glob(pattern, 0, nullptr, &found) != 0) continue;
    for (size_t i = 0; i < found.gl_pathc; ++i) allow(rules, found.gl_pathv[i], rights | kReadFolder);
    globfree(&found);
  }
}

}  // namespace

int landlock_rules(const Spec& spec, bool new_root, Report* report) {
  const long version = syscall(kCreate, nullptr, 0, kVersionQuery);
  if (version < 1) return report->part("landlock", false, "landlock_create_ruleset"), -1;
  const uint64_t handled = file_rights(version);
  Ruleset rules = {handled, version >= 4 ? 3ULL : 0, version >= 6 ? 3ULL : 0};
  const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const int fd = static_cast<int>(syscall(kCreate, &rules, size, 0));
  if (fd < 0) return report->part("landlock", false, "landlock_create_ruleset"), -1;
  for (const Bind& bind : spec.binds) allow(fd, bind.path, bind.write ? handled : kReading);
  // Threads name themselves there, cuInit with fopen(..., "w"): that truncates.
  allow(fd, "/proc", (kReading | kWriteFile | kTruncate) & handled & ~kExecute);
  allow(fd, spec.devices ? "/sys" : "/sys/devices/system", kReadFile | kReadFolder);
  allow_devices(fd, spec, handled);
  if (new_root) {
    for (const char* own : {"/tmp", "/dev/shm"}) allow(fd, own, handled);
    for (const char* own : {"/etc/passwd", "/etc/group"}) allow(fd, own, kReadFile);
    allow(fd, "/", kReadFolder);
  }
  return fd;
}

void landlock_enforce(int rules, Report* report) {
  if (rules < 0) return;
  report->part("landlock", syscall(kRestrict, rules, 0) == 0, "landlock_restrict_self");
  close(rules);
}

}  // namespace warpsmith
