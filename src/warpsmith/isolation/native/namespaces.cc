#include "namespaces.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace warpsmith {
namespace {

struct Namespace {
  int flag;
  const char* name;
};

constexpr std::array<Namespace, 6> kNamespaces = {{{CLONE_NEWUSER, "user_ns"},
                                                   {CLONE_NEWNS, "mount_ns"},
                                                   {CLONE_NEWPID, "pid_ns"},
                                                   {CLONE_NEWNET, "net_ns"},
                                                   {CLONE_NEWIPC, "ipc_ns"},
                                                   {CLONE_NEWUTS, "uts_ns"}}};
using Errors = std::array<int, kNamespaces.size()>;

constexpr unsigned int kUnusedUid = 2'000'000'000;  // far above accounts and the ranges of /etc/subuid
constexpr unsigned int kNobody = 65534;

bool mapped(unsigned int uid) {
  FILE* map = fopen("/proc/self/uid_map", "re");
  if (!map) return false;
  unsigned int first, outside, count;
  bool found = false;
  while (!found && fscanf(map, "%u %u %u", &first, &outside, &count) == 3) found = uid >= first && uid - first < count;
  fclose(map);
  return found;
}

bool administers() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2] = {};
  return syscall(SYS_capget, &header, sets) == 0 && (sets[0].effective >> CAP_SYS_ADMIN & 1);
}

pid_t fork_with(int flags) { return static_cast<pid_t>(syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0)); }

// Asks for each namespace by itself in a process that then goes away.
Errors try_each(int wanted) {
  Errors errors{};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errors.fill(errno), errors;
  const pid_t pid = fork();
  if (pid == 0) {
    for (size_t i = 0; i < kNamespaces.size(); ++i)
      errors[i] = (wanted & kNamespaces[i].flag) && unshare(kNamespaces[i].flag) != 0 ? errno : 0;
    const bool told = write(ends[1], errors.data(), sizeof errors) == sizeof errors;
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  if (pid < 0 || read(ends[0], errors.data(), sizeof errors) != sizeof errors) errors.fill(EPERM);
  close(ends[0]);
  if (pid > 0) waitpid(pid, nullptr, 0);
  return errors;
}

bool write_map(pid_t pid, const char* name, const std::string& text) {
  const std::string path = "/proc/" + std::to_string(pid) + "/" + name;
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool whole = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return whole;
}

std::string identity(unsigned int id) { return std::to_string(id) + " " + std::to_string(id) + " 1\n"; }

}  // namespace

Owner choose_owner() {
  if (geteuid() != 0) return {getuid(), getgid(), false};
  const unsigned int unused = kUnusedUid + static_cast<unsigned int>(getpid());  // so no two children share one
  if (mapped(unused)) return {unused, unused, true};
  if (mapped(kNobody)) return {kNobody, kNobody, true};
  return {getuid(), getgid(), false};
}

Born fork_into_namespaces(Report* report) {
  int wanted = 0;
  for (const Namespace& one : kNamespaces) wanted |= one.flag;
  if (administers()) wanted &= ~CLONE_NEWUSER;  // a root sets up with its own rights; its child gets one at the end
  Born born = {fork_with(wanted), wanted};
  if (born.pid < 0) {
    const Errors errors = try_each(wanted);
    for (size_t i = 0; i < kNamespaces.size(); ++i) {
      if (errors[i] == 0) continue;
      born.flags &= ~kNamespaces[i].flag;
      report->missing(kNamespaces[i].name, std::string("unshare: ") + strerror(errors[i]));
    }
    if ((born.flags & CLONE_NEWPID) && !(born.flags & CLONE_NEWNS)) {
      born.flags &= ~CLONE_NEWPID;  // without its own /proc it would break programs and hide nothing
      report->missing("pid_ns", "needs a mount namespace for its own /proc");
    }
    born.pid = fork_with(born.flags);
  }
  for (const Namespace& one : kNamespaces)
    if ((born.flags & one.flag) && one.flag != CLONE_NEWPID && one.flag != CLONE_NEWNS) report->achieved(one.name);
  return born;
}

bool map_ids(pid_t pid, const Owner& owner) {
  const std::string zero = owner.change ? identity(0) : "";
  if (!owner.change) write_map(pid, "setgroups", "deny");  // the kernel's price for a map written without privilege
  return write_map(pid, "uid_map", zero + identity(owner.uid)) && write_map(pid, "gid_map", zero + identity(owner.gid));
}

}  // namespace warpsmith
