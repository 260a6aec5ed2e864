#include "become.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "landlock.h"
#include "seccomp.h"
#include "watch.h"

namespace warpsmith {
namespace {

constexpr uint64_t kTaskHeadroom = 16;  // so that the watch sees and names the overrun before fork fails
constexpr uint64_t kCpuHeadroom_s = 2;
constexpr long kCloseRange = 436;  // Linux 5.9, with its flag; older headers lack both
constexpr unsigned int kOnExec = 4;

bool limit(int resource, uint64_t most) {
  const rlimit bound = {most, most};
  return setrlimit(static_cast<__rlimit_resource>(resource), &bound) == 0;
}

// `others`: tasks of the same user, which the kernel counts together with the child's.
bool set_limits(const Spec& spec, uint64_t others) {
  const Limits& limits = spec.limits;
  bool all = limit(RLIMIT_CORE, 0) && limit(RLIMIT_MSGQUEUE, 0);
  if (limits.cpu_s) all &= limit(RLIMIT_CPU, limits.cpu_s + kCpuHeadroom_s);
  if (limits.open_files) all &= limit(RLIMIT_NOFILE, limits.open_files);
  if (limits.file_bytes) all &= limit(RLIMIT_FSIZE, limits.file_bytes);
  if (limits.processes) all &= limit(RLIMIT_NPROC, others + limits.processes + kTaskHeadroom);
  // Twice the limit: the watch names an overrun at the limit; this one stops a program that is faster than the watch.
  if (limits.memory_bytes && limits.address_space) all &= limit(RLIMIT_DATA, 2 * limits.memory_bytes);
  return all;
}

bool write_self(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool whole = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return whole;
}

void arrange_descriptors(const Spec& spec, const Place& place, int* channel) {
  std::vector<int> wanted = {place.input, place.output, place.errors};
  wanted.insert(wanted.end(), spec.files.begin(), spec.files.end());
  const int above = static_cast<int>(wanted.size()) + 64;  // above the numbers that they are moved to
  for (int& fd : wanted) fd = fcntl(fd, F_DUPFD_CLOEXEC, above);
  *channel = fcntl(place.channel, F_DUPFD_CLOEXEC, above);
  for (size_t i = 0; i < wanted.size(); ++i) dup2(wanted[i], static_cast<int>(i));
  const auto first = static_cast<unsigned int>(wanted.size());
  if (syscall(kCloseRange, first, ~0U, kOnExec) == 0) return;
  for (int fd = static_cast<int>(first); fd < 4096; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number = 1; number < 32; ++number) signal(number, SIG_DFL);
}

bool change_user(const Owner& owner) {
  return setgroups(0, nullptr) == 0 && setresgid(owner.gid, owner.gid, owner.gid) == 0 &&
         setresuid(owner.uid, owner.uid, owner.uid) == 0;
}

// The last step as root: capabilities that an exec could still gain would count inside this namespace only.
void enter_user_namespace(const Owner& owner, Report* report) {
  if (!report->part("user_ns", unshare(CLONE_NEWUSER) == 0, "unshare")) return;
  const std::string uid = std::to_string(owner.uid), gid = std::to_string(owner.gid);
  const bool mapped = write_self("/proc/self/uid_map", uid + " " + uid + " 1\n") &&
                      write_self("/proc/self/setgroups", "deny") &&
                      write_self("/proc/self/gid_map", gid + " " + gid + " 1\n");
  if (!mapped) _exit(125);  // without a mapped id the program would fail later, with a less clear error
}

bool drop_capabilities() {
  for (int capability = 0; capability < 64; ++capability) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

// Returns a listener that becomes readable when the child maps more memory than its limit, or -1.
int filter_calls(const Spec& spec, Report* report) {
  if (spec.seccomp == "none") return report->missing("seccomp", "the policy asked for none"), -1;
  seccomp::General options;
  options.memory_files = spec.devices;
  if (spec.limits.address_space) options.largest_bytes = spec.limits.memory_bytes;
  if (options.largest_bytes) {
    options.over = SECCOMP_RET_USER_NOTIF;
    seccomp::Filter told = seccomp::general_filter(options);
    const int listener = told.install(SECCOMP_RET_ALLOW, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    if (listener >= 0) return report->achieved("seccomp"), listener;
    options.over = SECCOMP_RET_KILL_PROCESS;
  }
  seccomp::Filter filter = seccomp::general_filter(options);
  report->part("seccomp", filter.install(SECCOMP_RET_ALLOW, 0) == 0, "seccomp");
  return -1;
}

void send(int channel, const std::string& text, int descriptor) {
  iovec part = {const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  if (sendmsg(channel, &message, MSG_NOSIGNAL) < 0) _exit(125);
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> found;
  for (const std::string& word : words) found.push_back(const_cast<char*>(word.c_str()));
  found.push_back(nullptr);
  return found;
}

[[noreturn]] void start(const Spec& spec, int channel) {
  const auto arguments = pointers(spec.arguments), environment = pointers(spec.environment);
  if (chdir(spec.folder.c_str()) != 0) {
    send(channel, "its folder " + spec.folder + " cannot be entered: " + strerror(errno), -1);
    _exit(125);
  }
  execve(arguments[0], arguments.data(), environment.data());
  send(channel, spec.arguments[0] + " cannot be executed: " + strerror(errno), -1);
  _exit(125);
}

}  // namespace

void become(const Spec& spec, const Owner& owner, const Place& place, Report report) {
  int channel = -1;
  setsid();
  reset_signals();
  umask(022);
  // Before the descriptors are arranged, since a descriptor of the child may get the number of the cgroup's.
  if (place.cgroup->refusal().empty()) report.part("cgroup", place.cgroup->enter(), "cgroup.procs");
  else report.missing("cgroup", place.cgroup->refusal());
  arrange_descriptors(spec, place, &channel);
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // otherwise /proc/self belongs to root, and the next lines could not write there
  write_self("/proc/self/oom_score_adj", "1000");
  const int rules = landlock_rules(spec, place.new_root, &report);
  const uint64_t others = owner.change || place.user_namespace ? 0 : tasks_of(owner.uid) - 1;  // less ourselves
  report.part("rlimits", set_limits(spec, others), "setrlimit");
  const bool changed = owner.change && change_user(owner);
  if (owner.change) report.part("uid", changed, "setresuid");
  else report.missing("uid", owner.refusal);
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);  // after the change of user, which clears it
  if (!place.user_namespace) enter_user_namespace(owner, &report);
  report.part("capabilities", drop_capabilities(), "capset");
  report.part("no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "prctl");
  landlock_enforce(rules, &report);
  const int listener = filter_calls(spec, &report);
  send(channel, report.lines(), listener);
  for (const std::string& part : spec.require) {
    if (report.has(part)) continue;
    send(channel, "this machine does not grant " + part + ", which the policy requires", -1);
    _exit(125);
  }
  start(spec, channel);
}

}  // namespace warpsmith
