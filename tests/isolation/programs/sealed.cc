// Puts the worker's filter on itself, then tries one thing: sealed load|closed WHAT. Prints "ok" or the errno.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include <map>
#include <string>
#include <thread>

#include "seccomp.h"

using Attempt = bool (*)();

static bool start_thread() {
  try {
    std::thread([] {}).join();
    return true;
  } catch (const std::system_error& error) {
    return errno = error.code().value(), false;
  }
}

static bool compute() {
  void* block = malloc(64 << 20);
  memset(block, 1, 64 << 20);
  free(block);
  return usleep(1000) == 0;
}

static int ends[2];  // a pipe, as requests come through one

static bool handle_signal() {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  return sigaction(SIGIO, &action, nullptr) == 0;
}

static bool make_timer() {
  timer_t timer;
  sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGALRM;
  return timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
}

static bool set_interval() {
  const itimerval soon = {{0, 0}, {0, 1}};
  return setitimer(ITIMER_REAL, &soon, nullptr) == 0;
}

static bool use_other_stack() {
  static char space[1 << 16];
  const stack_t stack = {space, 0, sizeof space};
  return sigaltstack(&stack, nullptr) == 0;
}

static bool watch_signals() {
  sigset_t all;
  sigfillset(&all);
  return signalfd(-1, &all, 0) >= 0;
}

static bool listen_to_calls() {
  sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  sock_fprog program = {1, &allow};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program) >= 0;
}

// The low word of the pointer is zero, the high one is not.
static bool set_limit() {
  void* place = mmap(reinterpret_cast<void*>(0x700000000), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  *static_cast<rlimit64*>(place) = {64, 64};
  return syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, place, nullptr) == 0;
}

static bool command(int number, long argument) { return syscall(SYS_fcntl, ends[0], number, argument) >= 0; }

static bool control(unsigned long number) {
  int value = 1;
  return syscall(SYS_ioctl, ends[0], number, &value) >= 0;
}

static const std::map<std::string, Attempt> kAttempts = {
    {"compute", compute},
    {"open", [] { return open("/etc/passwd", O_RDONLY) >= 0; }},
    {"create", [] { return open("/tmp/made", O_RDWR | O_CREAT, 0644) >= 0; }},
    {"dlopen", [] { return dlopen("libutil.so.1", RTLD_NOW) != nullptr; }},
    {"fork", [] { const pid_t pid = fork(); if (pid == 0) _exit(0); return pid > 0; }},
    {"exec", [] { char* none[] = {nullptr}; return execve("/bin/true", none, none) == 0; }},
    {"socket", [] { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }},
    {"kill", [] { return kill(getppid(), 0) == 0; }},
    {"thread", start_thread},
    {"unlink", [] { return unlink("/tmp/x") == 0; }},
    {"ptrace", [] { return syscall(SYS_ptrace, 0, 0, 0, 0) == 0; }},
    {"abort", [] { abort(); return true; }},
    {"handler", handle_signal},
    {"timer", make_timer},
    {"interval", set_interval},
    {"other_stack", use_other_stack},
    {"signalfd", watch_signals},
    {"listener", listen_to_calls},
    {"set_limit", set_limit},
    {"signal_self", [] { return syscall(SYS_tgkill, getpid(), gettid(), 32) == 0; }},
    {"alarm", [] { return syscall(SYS_alarm, 1) == 0; }},
    {"rseq", [] { static char area[64]; return syscall(SYS_rseq, area, 32, 0, 0x53053053) == 0; }},
    {"userfaultfd", [] { return syscall(SYS_userfaultfd, 0) >= 0; }},
    {"io_setup", [] { unsigned long context = 0; return syscall(SYS_io_setup, 1, &context) == 0; }},
    {"io_uring", [] { return syscall(SYS_io_uring_setup, 1, nullptr) >= 0; }},
    {"mq_notify", [] { return syscall(SYS_mq_notify, 0, nullptr) >= 0; }},
    {"dispatch", [] { return syscall(SYS_prctl, 59, 1, 0, 0, nullptr) == 0; }},
    {"F_SETOWN", [] { return command(F_SETOWN, getpid()); }},
    {"F_SETOWN_EX", [] { const int owner[2] = {0, gettid()}; return command(15, reinterpret_cast<long>(owner)); }},
    {"F_SETSIG", [] { return command(10, SIGUSR1); }},
    {"F_SETLEASE", [] { return command(1024, F_RDLCK); }},
    {"F_NOTIFY", [] { return command(1026, 1); }},
    {"O_ASYNC", [] { return command(F_SETFL, O_ASYNC | O_NONBLOCK); }},
    {"FIOASYNC", [] { return control(FIOASYNC); }},
    {"FIOSETOWN", [] { return control(0x8901); }},
    {"SIOCSPGRP", [] { return control(0x8902); }},
    {"TIOCSTI", [] { return control(TIOCSTI); }},
    {"nonblocking", [] { return command(F_SETFL, O_NONBLOCK) && command(F_GETFL, 0) && control(FIONBIO); }},
    {"duplicate", [] { return command(F_DUPFD_CLOEXEC, 20) && command(F_SETFD, FD_CLOEXEC); }},
    {"mask", [] { sigset_t all; sigfillset(&all); return sigprocmask(SIG_BLOCK, &all, nullptr) == 0; }},
};

int main(int, char** argv) {
  using namespace warpsmith::seccomp;
  pipe(ends);
  if (!install_worker(Phase::kLoading)) return 98;
  if (strcmp(argv[1], "closed") == 0 && !install_worker(Phase::kClosed)) return 97;
  errno = 0;
  const bool worked = kAttempts.at(argv[2])();
  worked ? puts("ok") : printf("%d\n", errno);
  return 0;
}
