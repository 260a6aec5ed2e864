// usher [--uid N] [--read PATH]... [--write PATH]... --in FILE --out FILE PROGRAM: becomes PROGRAM with its frames from
// and to files, for runs under a tool (a profiler, a sanitizer) that must be the parent. With --read or --write the
// program sees only those paths; the tool's own connection stays open to it, which full confinement would cut.
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

// Landlock's interface in numbers: headers older than the running kernel lack it.
constexpr long kCreate = 444, kAddRule = 445, kRestrict = 446;
constexpr uint64_t kExecute = 1, kWriteFile = 2, kReadFile = 4, kReadFolder = 8, kTruncate = 1 << 14,
                   kControl = 1 << 15;
constexpr uint64_t kReading = kExecute | kReadFile | kReadFolder;
constexpr uint64_t kOfFiles = kExecute | kWriteFile | kReadFile | kTruncate | kControl;
constexpr rlim_t kCpu_s = 300, kFile_bytes = rlim_t(4) << 30;
constexpr int kFailed = 125;

struct Order {
  std::vector<std::string> read, write;
  std::string in, out;
  long uid = -1;
  char** program = nullptr;
};

struct __attribute__((packed)) PathRule {
  uint64_t allowed;
  int32_t parent;
};

[[noreturn]] void fail(const std::string& what) {
  perror(("usher: " + what).c_str());
  _exit(kFailed);
}

Order parse(char** words) {
  Order order;
  for (; *words && !strncmp(*words, "--", 2); words += 2) {
    const std::string key = *words;
    if (!words[1]) fail(key + " lacks its value");
    if (key == "--read") order.read.push_back(words[1]);
    else if (key == "--write") order.write.push_back(words[1]);
    else if (key == "--in") order.in = words[1];
    else if (key == "--out") order.out = words[1];
    else if (key == "--uid") order.uid = atol(words[1]);
    else fail(key + " is unknown");
  }
  order.program = words;
  if (!*words) fail("no program");
  return order;
}

void allow(int rules, const std::string& path, uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return;  // what is not there needs no right
  struct stat found;
  if (fstat(fd, &found) == 0 && !S_ISDIR(found.st_mode)) rights &= kOfFiles;
  const PathRule rule = {rights, fd};
  syscall(kAddRule, rules, 1, &rule, 0);
  close(fd);
}

void allow_devices(int rules, uint64_t handled) {
  glob_t found;
  for (const char* pattern : {"/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/null", "/dev/zero", "/dev/urandom"}) {
    if (glob(pattern, 0, nullptr, &found) != 0) continue;
    for (size_t i = 0; i < found.gl_pathc; ++i)
      allow(rules, found.gl_pathv[i], (kReadFile | kWriteFile | kControl | kReadFolder) & handled);
    globfree(&found);
  }
}

// Files only: the profiler reaches its own part inside this process through local sockets.
void enter_landlock(const Order& order) {
  const long version = syscall(kCreate, nullptr, 0, 1);
  if (version < 1) fail("landlock");
  uint64_t handled = (1ULL << 13) - 1;
  if (version >= 2) handled |= 1ULL << 13;
  if (version >= 3) handled |= kTruncate;
  if (version >= 5) handled |= kControl;
  const int rules = static_cast<int>(syscall(kCreate, &handled, sizeof handled, 0));
  if (rules < 0) fail("landlock");
  for (const std::string& path : order.read) allow(rules, path, kReading);
  for (const std::string& path : order.write) allow(rules, path, handled);
  allow(rules, "/proc", (kReadFile | kReadFolder | kWriteFile | kTruncate) & handled);
  allow(rules, "/sys", kReadFile | kReadFolder);
  allow(rules, "/dev/shm", handled);
  allow_devices(rules, handled);
  if (syscall(kRestrict, rules, 0) != 0) fail("landlock");
  close(rules);
}

void limit(int resource, rlim_t most) {
  const rlimit bound = {most, most};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &bound) != 0) fail("setrlimit");
}

void take_place(const std::string& path, int flags, int place) {
  const int fd = open(path.c_str(), flags, 0600);
  if (fd < 0) fail(path);
  if (fd == place) return;
  if (dup2(fd, place) < 0) fail(path);
  close(fd);
}

void confine(const Order& order) {
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, kCpu_s);
  limit(RLIMIT_FSIZE, kFile_bytes);
  if (order.uid >= 0) {
    const auto id = static_cast<unsigned int>(order.uid);
    if (setgroups(0, nullptr) != 0 || setresgid(id, id, id) != 0 || setresuid(id, id, id) != 0) fail("setresuid");
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no_new_privs");
  enter_landlock(order);
}

}  // namespace

int main(int, char** words) {
  const Order order = parse(words + 1);
  // Out of the way first: the file for 3 may be opened as 4.
  take_place(order.out, O_WRONLY | O_CREAT | O_TRUNC, 4);
  take_place(order.in, O_RDONLY, 3);
  if (!order.read.empty() || !order.write.empty()) confine(order);
  execv(order.program[0], order.program);
  fail(order.program[0]);
}
