#include "init.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "become.h"
#include "folders.h"
#include "frames.h"
#include "namespaces.h"
#include "watch.h"

namespace warpsmith {
namespace {

constexpr double kFirstTick_s = 0.002;    // doubled up to one of the next two, so that short programs are checked too
constexpr double kOwnTick_s = 0.020;      // resident memory grows by a few hundred MB at most in this time
constexpr double kForeignTick_s = 0.100;  // without a process namespace every process of the machine has to be read
constexpr double kWalk_s = 0.200;         // a walk through the writable folders costs more than a look at /proc

double now_s() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double to_s(const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); }

struct __attribute__((packed)) OutcomePayload {
  int32_t signaled;  // 0: `value` is an exit code, 1: a signal
  int32_t value;
  uint32_t stop;
  uint32_t reserved;
  uint64_t peak_bytes;
  uint64_t peak_tasks;
  double seconds;
  double cpu_s;
};

class Init {
 public:
  Init(const Spec& spec, const Lines& lines, const Cgroup& cgroup, const Folders& folders, bool own_pids, bool own_proc,
       bool new_root)
      : spec_(spec),
        lines_(lines),
        cgroup_(cgroup),
        folders_(folders),
        own_pids_(own_pids),
        own_proc_(own_proc),
        watch_(own_proc, new_root) {}

  [[noreturn]] void fail(const std::string& why) {
    end_tree();
    frames::write_frame(lines_.status, kFailed, why);
    _exit(1);
  }

  void start(const Owner& owner, Place place, const Report& report);
  void supervise();
  [[noreturn]] void finish();

 private:
  void hear_setup(int channel);
  void pump(int* fd, std::string* text);
  void reap();
  void check_usage();
  void stop(Stop why) {
    if (stop_ == kNotStopped) stop_ = why;
    over_ = true;
  }
  void end_tree() {
    kill_tree();
    folders_.take_back();
  }
  void kill_tree();
  double left_s() const { return started_s_ + spec_.limits.wall_s - now_s(); }

  const Spec& spec_;
  const Lines& lines_;
  const Cgroup& cgroup_;
  Folders folders_;
  bool own_pids_, own_proc_;
  Watch watch_;
  pid_t child_ = -1;
  int output_ = -1, errors_ = -1, signals_ = -1, listener_ = -1;
  std::string output_text_, errors_text_;
  double started_s_ = 0, next_walk_s_ = 0;
  uint64_t peak_bytes_ = 0, peak_tasks_ = 0;
  int exit_status_ = 0;
  Stop stop_ = kNotStopped;
  bool over_ = false, reaped_ = false;
};

void Init::start(const Owner& owner, Place place, const Report& report) {
  int output[2], errors[2], channel[2];
  if (pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0 ||
      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0)
    fail(std::string("pipes cannot be made: ") + strerror(errno));
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, nullptr);
  signals_ = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  child_ = fork();
  if (child_ < 0) fail(std::string("fork: ") + strerror(errno));
  if (child_ == 0) {
    place.cgroup = &cgroup_;
    place.input = STDIN_FILENO, place.output = output[1], place.errors = errors[1], place.channel = channel[1];
    become(spec_, owner, place, report);
  }
  for (const int fd : {output[1], errors[1], channel[1], STDIN_FILENO}) close(fd);
  for (const int fd : spec_.files) close(fd);  // so that the evaluator process sees the end when the child is gone
  output_ = output[0], errors_ = errors[0];
  fcntl(output_, F_SETFL, O_NONBLOCK);
  fcntl(errors_, F_SETFL, O_NONBLOCK);
  hear_setup(channel[0]);
}

void Init::hear_setup(int channel) {
  std::string lines(16384, '\0');
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  iovec part = {lines.data(), lines.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  const ssize_t n = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
  if (n <= 0) fail("the child died while it was prepared");
  lines.resize(static_cast<size_t>(n));
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header && header->cmsg_type == SCM_RIGHTS) memcpy(&listener_, CMSG_DATA(header), sizeof(int));
  std::string trouble(4096, '\0');
  const ssize_t more = recv(channel, trouble.data(), trouble.size(), 0);
  close(channel);
  started_s_ = now_s();
  frames::write_frame(lines_.status, kConfined, lines);
  if (more > 0) fail(trouble.substr(0, static_cast<size_t>(more)));
}

void Init::pump(int* fd, std::string* text) {
  char buffer[65536];
  while (*fd >= 0) {
    const ssize_t n = read(*fd, buffer, sizeof buffer);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return close(*fd), void(*fd = -1);
    const uint64_t room = spec_.limits.output_bytes - output_text_.size() - errors_text_.size();
    text->append(buffer, std::min<uint64_t>(room, static_cast<uint64_t>(n)));
    if (static_cast<uint64_t>(n) > room) return stop(kOutput);
  }
}

void Init::reap() {
  signalfd_siginfo ignored;
  while (read(signals_, &ignored, sizeof ignored) > 0) {
  }
  int status;
  rusage usage;
  for (pid_t pid; (pid = wait4(-1, &status, WNOHANG, &usage)) > 0;) {
    if (pid != child_) continue;
    exit_status_ = status;
    reaped_ = over_ = true;
  }
}

void Init::check_usage() {
  const Limits& limits = spec_.limits;
  const Usage usage = watch_.read();
  uint64_t memory = usage.memory_bytes;
  if (limits.memory_bytes && memory > limits.memory_bytes) memory = watch_.exact_memory_bytes(usage);
  peak_bytes_ = std::max(peak_bytes_, memory);
  peak_tasks_ = std::max(peak_tasks_, usage.tasks);
  if (limits.memory_bytes && memory > limits.memory_bytes) stop(kMemory);
  if (limits.processes && usage.tasks > limits.processes) stop(kProcesses);
  if (limits.cpu_s && usage.cpu_s > static_cast<double>(limits.cpu_s)) stop(kCpu);
  if (now_s() < next_walk_s_) return;
  if (limits.file_bytes && folders_.written_bytes(spec_) > limits.file_bytes) stop(kFileSize);
  next_walk_s_ = now_s() + kWalk_s;
}

void Init::supervise() {
  const double longest_s = own_proc_ ? kOwnTick_s : kForeignTick_s;
  double tick_s = kFirstTick_s, next_s = now_s() + tick_s;
  while (!over_) {
    pollfd fds[] = {{signals_, POLLIN, 0},       {output_, POLLIN, 0},   {errors_, POLLIN, 0},
                    {lines_.control, POLLIN, 0}, {listener_, POLLIN, 0}, {lines_.go, POLLIN, 0}};
    const double wait_s = std::clamp(std::min(next_s - now_s(), left_s()), 0.0, tick_s);
    if (poll(fds, 6, static_cast<int>(1e3 * wait_s) + 1) < 0 && errno != EINTR) fail("poll");
    pump(&output_, &output_text_);
    pump(&errors_, &errors_text_);
    if (fds[0].revents) reap();
    if (fds[3].revents) {
      char order;
      if (read(lines_.control, &order, 1) <= 0) end_tree(), _exit(1);
      stop(kKilled);
    }
    if (fds[5].revents) end_tree(), _exit(1);  // the launcher reports that the evaluator process is gone
    if (fds[4].revents & POLLIN) stop(kMemory);
    if (fds[4].revents & ~POLLIN) listener_ = -1;  // no process is left under the filter
    if (left_s() <= 0 && !reaped_) stop(kWall);
    if (now_s() < next_s || over_) continue;
    check_usage();
    tick_s = std::min(2 * tick_s, longest_s);
    next_s = now_s() + tick_s;
  }
}

// Kills all descendants, also those that fork meanwhile. Without a process namespace no single signal reaches all of
// them, so they are stopped first.
void Init::kill_tree() {
  for (size_t seen = 0; !own_pids_;) {
    const Usage usage = watch_.read();
    for (const pid_t pid : usage.pids) kill(pid, SIGSTOP);
    if (usage.pids.size() <= seen) break;
    seen = usage.pids.size();
  }
  for (int round = 0; round < 10000; ++round) {
    if (own_pids_) kill(-1, SIGKILL);
    else
      for (const pid_t pid : watch_.read().pids) kill(pid, SIGKILL);
    int status;
    rusage usage;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
      if (pid == child_ && !reaped_) exit_status_ = status, reaped_ = true;
    if (pid < 0 && errno == ECHILD) return;
    usleep(500);
  }
}

void Init::finish() {
  const double seconds = now_s() - started_s_;
  check_usage();  // a process that lived between two checks may have left files
  end_tree();
  pump(&output_, &output_text_);
  pump(&errors_, &errors_text_);
  if (stop_ == kNotStopped && cgroup_.ran_out()) stop_ = kMemory;
  if (!reaped_) exit_status_ = SIGKILL;  // it waits in the kernel and dies of the signal when it returns
  const bool signaled = WIFSIGNALED(exit_status_);
  const int value = signaled ? WTERMSIG(exit_status_) : WEXITSTATUS(exit_status_);
  if (signaled && stop_ == kNotStopped) {
    if (value == SIGXCPU) stop_ = kCpu;
    if (value == SIGXFSZ) stop_ = kFileSize;
    if (value == SIGSYS && spec_.limits.address_space)
      stop_ = kMemory;  // the only rule of the filter that kills in our ABI
  }
  rusage all = {};
  getrusage(RUSAGE_CHILDREN, &all);
  const uint64_t largest_bytes = 1024 * static_cast<uint64_t>(all.ru_maxrss);
  // A program faster than the watch was stopped by RLIMIT_DATA at twice the limit. Mapped files are not its memory.
  const uint64_t outrun_bytes = spec_.limits.memory_bytes + spec_.limits.memory_bytes / 2;
  if (stop_ == kNotStopped && spec_.limits.memory_bytes && spec_.limits.address_space && largest_bytes > outrun_bytes)
    stop_ = kMemory;
  const OutcomePayload outcome = {signaled,
                                  value,
                                  stop_,
                                  0,
                                  std::max(peak_bytes_, largest_bytes),
                                  peak_tasks_,
                                  seconds,
                                  to_s(all.ru_utime) + to_s(all.ru_stime)};
  frames::write_frame(lines_.status, kOutcome, &outcome, sizeof outcome);
  frames::write_frame(lines_.status, kStdout, output_text_);
  frames::write_frame(lines_.status, kStderr, errors_text_);
  _exit(0);
}

}  // namespace

bool write_go(int fd, const Owner& owner) {
  const std::string message = (owner.change ? "+" : "-") + owner.refusal.substr(0, PIPE_BUF - 1);
  return write(fd, message.data(), message.size()) == static_cast<ssize_t>(message.size());
}

void run_init(Spec spec, Owner owner, int namespaces, const Cgroup& cgroup, const Lines& lines, Report report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  char go[PIPE_BUF];  // one write of at most this size is read as a whole
  const ssize_t told = read(lines.go, go, sizeof go);
  if (told < 1) _exit(1);  // the launcher died before it could watch over us
  if (owner.change && go[0] == '-') owner = own_user(std::string(go + 1, static_cast<size_t>(told - 1)));
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // the child, where it has our uid, can neither read nor trace us
  signal(SIGPIPE, SIG_IGN);
  if (namespaces & CLONE_NEWUTS) (void)!sethostname("confined", 8);
  const bool own_pids = namespaces & CLONE_NEWPID;
  Folders folders;
  std::string error;
  bool whole = folders.give(spec, owner, &error);
  if (whole && (namespaces & CLONE_NEWNS)) whole = make_root(spec, owner, own_pids, &report, &error);
  const char* cause = namespaces & CLONE_NEWNS ? "the new root was refused" : "needs a mount namespace";
  for (const char* part : {"readonly_root", "private_tmp", "pid_ns"}) report.missing_if_unsaid(part, cause);
  Place place;
  place.user_namespace = namespaces & CLONE_NEWUSER;
  place.new_root = report.has("readonly_root");
  if (whole && !place.new_root) whole = folders.make_scratch(&spec, owner, &error);
  Init init(spec, lines, cgroup, folders, own_pids, report.has("pid_ns"), place.new_root);
  if (!whole) init.fail(error);
  init.start(owner, place, report);
  init.supervise();
  init.finish();
}

}  // namespace warpsmith
