#include "idmap.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mount_calls.h"

namespace warpsmith {
namespace {

constexpr char kProc[] = "/new/proc/";  // our own, where our pids are numbered as we see them

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

}  // namespace warpsmith
