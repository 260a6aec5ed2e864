// One attempt a run: hostile WHAT [ARGUMENT]. Prints "ok" when the attempt worked, else the errno it got.
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>

using Attempt = bool (*)(const char*);

static bool touch_pages(int flags, bool keep) {
  for (;;) {
    void* block = mmap(nullptr, 16 << 20, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return false;
    memset(block, 1, 16 << 20);
    if (!keep) munmap(block, 16 << 20);
  }
}

static bool connect_to(int family, int kind) {
  const int fd = socket(family, kind, 0);
  if (fd < 0) return false;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(53);
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  return connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

static bool list_processes(const char*) {
  DIR* folder = opendir("/proc");
  while (const dirent* entry = readdir(folder))
    if (atoi(entry->d_name) > 0) printf("%s ", entry->d_name);
  return true;
}

static bool leave_behind(const char*) {
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      signal(SIGTERM, SIG_IGN);
      pause();
    }
    _exit(0);
  }
  return wait(nullptr) > 0;
}

static bool raise_limit(const char*) {
  const rlimit64 more = {1 << 20, 1 << 20};
  return syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &more, nullptr) == 0;
}

static bool map_bytes(const char* bytes, int protection, int flags) {
  const size_t count = strtoull(bytes, nullptr, 10);
  return mmap(nullptr, count, protection, flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

static bool one_mapping(const char* bytes) { return map_bytes(bytes, PROT_READ | PROT_WRITE, 0); }

static bool reservation(const char* bytes) { return map_bytes(bytes, PROT_NONE, MAP_NORESERVE); }

static bool big_file(const char* path) {
  static char block[1 << 20];
  const int fd = open(path, O_WRONLY | O_CREAT, 0644);
  while (write(fd, block, sizeof block) > 0) {
  }
  return false;
}

static bool copy_all(int from, int to) {
  char block[65536];
  for (ssize_t n; (n = read(from, block, sizeof block)) > 0;)
    for (ssize_t put = 0; put < n;) put += write(to, block + put, static_cast<size_t>(n - put));
  return true;
}

static bool echo(const char*) {
  copy_all(0, 1);
  exit(0);
}


static bool list_descriptors(const char*) {
  for (int fd = 0; fd < 1024; ++fd)
    if (fcntl(fd, F_GETFD) >= 0) printf("%d ", fd);
  return true;
}

static bool many_files(const char* folder) {
  static char block[1 << 20];
  for (int i = 0;; ++i) {
    const int fd = open((std::string(folder) + "/" + std::to_string(i)).c_str(), O_WRONLY | O_CREAT, 0600);
    if (write(fd, block, sizeof block) <= 0) return false;
    close(fd);
    usleep(1000);
  }
}

static const std::map<std::string, Attempt> kAttempts = {
    {"read", [](const char* path) { return open(path, O_RDONLY) >= 0; }},
    {"write", [](const char* path) { return open(path, O_WRONLY | O_CREAT, 0644) >= 0; }},
    {"list", [](const char* path) { return opendir(path) != nullptr; }},
    {"link", [](const char* path) { return symlink("/etc/shadow", path) == 0; }},
    {"mkfifo", [](const char* path) { return mkfifo(path, 0644) == 0; }},
    {"device", [](const char*) { return mknod("/tmp/d", S_IFBLK | 0644, 0x800) == 0; }},
    {"tcp", [](const char*) { return connect_to(AF_INET, SOCK_STREAM); }},
    {"udp", [](const char*) { return connect_to(AF_INET, SOCK_DGRAM); }},
    {"netlink", [](const char*) { return socket(AF_NETLINK, SOCK_RAW, 0) >= 0; }},
    {"socketpair", [](const char*) { int ends[2]; return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0; }},
    {"kill", [](const char* pid) { return kill(atoi(pid), SIGKILL) == 0; }},
    {"kill_parent", [](const char*) { return kill(getppid(), SIGKILL) == 0; }},
    {"ptrace", [](const char*) { return ptrace(PTRACE_ATTACH, getppid(), 0, 0) == 0; }},
    {"parent_memory", [](const char*) { return open("/proc/1/mem", O_RDWR) >= 0; }},
    {"vm_read", [](const char*) { return syscall(SYS_process_vm_readv, getppid(), 0, 0, 0, 0, 0) >= 0; }},
    {"mount", [](const char*) { return mount("tmpfs", "/tmp", "tmpfs", 0, nullptr) == 0; }},
    {"remount", [](const char*) { return mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND, nullptr) == 0; }},
    {"unshare", [](const char*) { return unshare(CLONE_NEWUSER) == 0; }},
    {"clone_ns", [](const char*) { return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) >= 0; }},
    {"clone3", [](const char*) { return syscall(SYS_clone3, nullptr, 0) >= 0; }},
    {"io_uring", [](const char*) { return syscall(SYS_io_uring_setup, 1, nullptr) >= 0; }},
    {"bpf", [](const char*) { return syscall(SYS_bpf, 0, nullptr, 0) >= 0; }},
    {"keyctl", [](const char*) { return syscall(SYS_keyctl, 0, 0) >= 0; }},
    {"perf", [](const char*) { return syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0) >= 0; }},
    {"memfd", [](const char*) { return memfd_create("m", 0) >= 0; }},
    {"setuid", [](const char*) { return setuid(0) == 0; }},
    {"raise_limit", raise_limit},
    {"processes", list_processes},
    {"sleep", [](const char* seconds) { return usleep(static_cast<useconds_t>(1e6 * atof(seconds))) == 0; }},
    {"spin", [](const char*) { for (;;) __asm__ volatile("" ::: "memory"); return true; }},
    {"private_pages", [](const char*) { return touch_pages(MAP_PRIVATE, true); }},
    {"shared_pages", [](const char*) { return touch_pages(MAP_SHARED, true); }},
    {"one_mapping", one_mapping},
    {"reservation", reservation},
    {"forked_pages", [](const char*) { return fork() == 0 ? touch_pages(MAP_PRIVATE, true) : wait(nullptr) > 0; }},
    {"fork_bomb", [](const char*) { for (;;) fork(); return true; }},
    {"leave_behind", leave_behind},
    {"print", [](const char*) { for (;;) if (write(1, "0123456789abcdef", 16) != 16) return false; }},
    {"big_file", big_file},
    {"many_files", many_files},
    {"abort", [](const char*) { abort(); return true; }},
    {"crash", [](const char*) { raise(SIGSEGV); return true; }},
    {"exit", [](const char* code) { exit(atoi(code)); return true; }},
    {"echo", echo},
    {"echo_frames", [](const char*) { return copy_all(3, 4); }},
    {"say", [](const char* text) { return write(4, text, strlen(text)) >= 0; }},
    {"environment", [](const char*) { for (char** v = environ; *v; ++v) puts(*v); return true; }},
    {"descriptors", list_descriptors},
    {"identity", [](const char*) { printf("%u %u ", getuid(), getgid()); return true; }},
};

int main(int argc, char** argv) {
  const auto found = kAttempts.find(argc > 1 ? argv[1] : "");
  if (found == kAttempts.end()) return 99;
  errno = 0;
  const bool worked = found->second(argc > 2 ? argv[2] : "");
  const int error = errno;
  fflush(stdout);
  worked ? puts("ok") : printf("%d\n", error);
  return 0;
}
