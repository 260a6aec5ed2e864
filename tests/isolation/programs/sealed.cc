// Puts the worker's filter on itself, then tries one thing: sealed load|closed WHAT. Prints "ok" or the errno.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

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
};

int main(int, char** argv) {
  using namespace warpsmith::seccomp;
  Worker options;
  if (!install_worker(options)) return 98;
  options.load = false;
  if (strcmp(argv[1], "closed") == 0 && !install_worker(options)) return 97;
  errno = 0;
  const bool worked = kAttempts.at(argv[2])();
  worked ? puts("ok") : printf("%d\n", errno);
  return 0;
}
