#include "idmap.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "mount_calls.h"

namespace warpsmith {
namespace {

constexpr uint64_t kCopied_bytes = 32 << 20;  // of one path
constexpr char kProc[] = "/new/proc/";        // our own, where our pids are numbered as we see them

bool write_map(pid_t pid, const char* name, unsigned int on_disk, unsigned int shown) {
  const std::string path = kProc + std::to_string(pid) + "/" + name;
  const std::string line = std::to_string(on_disk) + " " + std::to_string(shown) + " 1\n";
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool whole = write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  close(fd);
  return whole;
}

// A user namespace exists only while a process or a descriptor holds it, so a short-lived process makes one.
int map_namespace(const struct stat& disk, const Owner& owner) {
  const auto pid = static_cast<pid_t>(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
  if (pid == 0) {
    pause();
    _exit(0);
  }
  if (pid < 0) return -1;
  int fd = -1;
  if (write_map(pid, "uid_map", disk.st_uid, owner.uid) && write_map(pid, "gid_map", disk.st_gid, owner.gid))
    fd = open((kProc + std::to_string(pid) + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return fd;
}

namespace files = std::filesystem;

bool copy_one(const files::path& from, const files::path& to, const Owner& owner) {
  std::error_code error;
  const files::file_status status = files::symlink_status(from, error);
  if (files::is_symlink(status)) files::copy_symlink(from, to, error);
  else if (files::is_directory(status)) files::create_directory(to, error);
  else if (files::is_regular_file(status)) files::copy_file(from, to, files::copy_options::overwrite_existing, error);
  else return true;  // pipes and sockets are of no use to a reader of files
  if (error) return errno = error.value(), false;
  if (files::is_directory(status) && chmod(to.c_str(), 0755) != 0) return false;
  return lchown(to.c_str(), owner.uid, owner.gid) == 0;
}

// What lies under `from`, itself first, unless it is too much.
bool list_tree(const files::path& from, std::vector<files::path>* found) {
  std::error_code error;
  uint64_t bytes = 0;
  found->push_back(from);
  if (files::is_regular_file(from, error))
    return files::file_size(from, error) <= kCopied_bytes || (errno = EFBIG, false);
  for (const auto& entry : files::recursive_directory_iterator(from, error)) {
    if (entry.is_regular_file(error) && !entry.is_symlink(error)) bytes += entry.file_size(error);
    bytes += 4096;
    if (bytes > kCopied_bytes) return errno = EFBIG, false;
    found->push_back(entry.path());
  }
  return !error || (errno = error.value(), false);
}

}  // namespace

bool is_private(const std::string& path) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0) return false;
  const mode_t needed = S_ISDIR(found.st_mode) ? S_IROTH | S_IXOTH : S_IROTH;
  return (found.st_mode & needed) != needed;
}

bool bind_as(const std::string& from, const std::string& to, const Owner& owner) {
  struct stat disk;
  if (stat(from.c_str(), &disk) != 0) return false;
  const int tree = open_tree_clone(from.c_str());
  const int map = tree < 0 ? -1 : map_namespace(disk, owner);
  const bool bound = map >= 0 && set_attributes(tree, "", kEmptyPath, {kIdMap, 0, 0, static_cast<uint64_t>(map)}) &&
                     move_tree(tree, to.c_str());
  const int reason = errno;
  if (map >= 0) close(map);
  if (tree >= 0) close(tree);
  errno = reason;
  return bound;
}

bool is_copyable(const std::string& path) {
  std::vector<files::path> found;
  return list_tree(path, &found);
}

bool copy_as(const std::string& from, const std::string& to, const Owner& owner) {
  std::vector<files::path> found;
  if (!list_tree(from, &found)) return false;
  for (const files::path& path : found) {
    const files::path below = path.lexically_relative(from);
    if (!copy_one(path, below == "." ? files::path(to) : to / below, owner)) return false;
  }
  return true;
}

}  // namespace warpsmith
