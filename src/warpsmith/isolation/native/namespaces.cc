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

#include "idmap.h"

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

// Maps the user's own id and a subordinate one by newuidmap or newgidmap; returns why it was refused, or nothing.
std::string map_with(const std::string& program, pid_t pid, unsigned int own, unsigned int other) {
  const std::string process = std::to_string(pid), mine = std::to_string(own), theirs = std::to_string(other);
  const pid_t helper = fork();
  if (helper == 0) {
    execl(program.c_str(), program.c_str(), process.c_str(), mine.c_str(), mine.c_str(), "1", theirs.c_str(),
          theirs.c_str(), "1", static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  while (helper > 0 && waitpid(helper, &status, 0) < 0 && errno == EINTR) {
  }
  if (helper > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  return program + " refused to map " + theirs;
}

std::string identity(unsigned int id) { return std::to_string(id) + " " + std::to_string(id) + " 1\n"; }

}  // namespace

Owner own_user(const std::string& refusal) { return {getuid(), getgid(), false, false, refusal}; }

Owner choose_owner(const Spec& spec) {
  const auto pid = static_cast<unsigned int>(getpid());  // in the id, so that no two children share one
  if (geteuid() != 0) {
    const Subordinate& ids = spec.subordinate;
    if (ids.count == 0) return own_user(ids.refusal);
    for (const Bind& bind : spec.binds)
      if (!bind.write && is_private(bind.path) && !is_copyable(bind.path))
        return own_user(bind.path + " is readable by its owner only (chmod o+rX would open it)");
    return {ids.uid + pid % ids.count, ids.gid + pid % ids.count, true, true, ""};
  }
  const unsigned int unused = kUnusedUid + pid;
  if (mapped(unused)) return {unused, unused, true, false, ""};
  if (mapped(kNobody)) return {kNobody, kNobody, true, false, ""};
  return own_user("no other uid is mapped");
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

bool map_ids(pid_t pid, const Spec& spec, Owner* owner) {
  if (owner->subordinate) {
    const Subordinate& ids = spec.subordinate;
    std::string refusal = map_with(ids.newuidmap, pid, getuid(), owner->uid);
    if (refusal.empty()) refusal = map_with(ids.newgidmap, pid, getgid(), owner->gid);
    if (refusal.empty()) return true;
    *owner = own_user(refusal);
    // Either program may have written its map before the other failed; a map is written once only.
    write_map(pid, "setgroups", "deny");
    write_map(pid, "uid_map", identity(owner->uid));
    write_map(pid, "gid_map", identity(owner->gid));
    return true;
  }
  const std::string zero = owner->change ? identity(0) : "";
  if (!owner->change)
    write_map(pid, "setgroups", "deny");  // the kernel's condition for a map written without privilege
  return write_map(pid, "uid_map", zero + identity(owner->uid)) &&
         write_map(pid, "gid_map", zero + identity(owner->gid));
}

}  // namespace warpsmith
