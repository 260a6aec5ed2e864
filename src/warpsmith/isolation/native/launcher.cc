// launcher SPEC STATUS CONTROL: starts one confined child as the spec on descriptor SPEC says, and lives as long as the
// child. It stays outside the namespaces, so that all processes of the child end when the evaluator process, the
// launcher or the program ends.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sched.h>

#include "frames.h"
#include "init.h"
#include "namespaces.h"

namespace {

using namespace warpsmith;

#ifndef SYS_pidfd_open
constexpr long SYS_pidfd_open = 434;
#endif

[[noreturn]] void fail(int status, const std::string& why) {
  frames::write_frame(status, kFailed, why);
  _exit(1);
}

int open_process(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

constexpr int kGrace_ms = 2000;
constexpr int kMapped = CLONE_NEWUSER | CLONE_NEWNS;

// Not a parent-death signal: that one fires when the *thread* that started us ends. When the evaluator process is gone,
// the end of `go` asks the init process to end its tree; only where it has a pid namespace would killing it at once do
// as well.
void wait_for_either(int judge, pid_t child, int go) {
  pollfd ends[] = {{judge, POLLIN, 0}, {open_process(child), POLLIN, 0}};
  while (judge >= 0 && poll(ends, 2, -1) < 0 && errno == EINTR) {
  }
  if (judge < 0) (void)!waitid(P_PID, static_cast<id_t>(child), nullptr, WEXITED | WNOWAIT);
  close(go);
  if (judge >= 0 && ends[0].revents && poll(ends + 1, 1, kGrace_ms) <= 0) kill(child, SIGKILL);
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int spec_fd = atoi(argv[1]);
  Lines lines;
  lines.status = atoi(argv[2]), lines.control = atoi(argv[3]);
  for (const int fd : {spec_fd, lines.status, lines.control}) fcntl(fd, F_SETFD, FD_CLOEXEC);
  Spec spec;
  std::string error;
  if (!read_spec(spec_fd, &spec, &error)) fail(lines.status, error);
  const int judge = open_process(spec.judge);  // none before Linux 5.3: then the init process sees its pipe end
  if (getppid() != spec.judge) return 1;       // it ended before pidfd_open
  int go[2];
  if (pipe2(go, O_CLOEXEC) != 0) fail(lines.status, std::string("pipe: ") + strerror(errno));
  Owner owner = choose_owner(spec);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  Report report;
  const Cgroup cgroup(spec);
  const Born born = fork_into_namespaces(&report);
  if (born.pid < 0) fail(lines.status, std::string("clone: ") + strerror(errno));
  // A subordinate id needs both: a user namespace that maps it, and a root of its own, since the user's folders may be
  // closed to other users.
  if (owner.subordinate && (born.flags & kMapped) != kMapped)
    owner = own_user("subordinate ids need user and mount namespaces");
  if (born.pid == 0) {
    close(go[1]);
    lines.go = go[0];
    run_init(spec, owner, born.flags, cgroup, lines, report);
  }
  if ((born.flags & CLONE_NEWUSER) && !map_ids(born.pid, spec, &owner)) {
    kill(born.pid, SIGKILL);
    cgroup.remove();
    fail(lines.status, std::string("uid_map: ") + strerror(errno));
  }
  for (const int fd : {lines.status, lines.control, go[0], STDIN_FILENO}) close(fd);
  for (const int fd : spec.files) close(fd);
  if (!write_go(go[1], owner)) kill(born.pid, SIGKILL);
  wait_for_either(judge, born.pid, go[1]);
  cgroup.remove();
  return 0;
}
