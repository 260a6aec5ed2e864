#include "watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>

namespace warpsmith {
namespace {

struct Process {
  pid_t parent = 0;
  uint64_t memory_bytes = 0, tasks = 0, own_ticks = 0, reaped_ticks = 0;
};

std::string slurp(pid_t pid, const char* name) {
  const std::string path = "/proc/" + std::to_string(pid) + "/" + name;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  char text[8192];
  const ssize_t n = ::read(fd, text, sizeof text);
  close(fd);
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : "";
}

uint64_t field(const std::string& text, const char* name) {
  const size_t at = text.find(name);
  return at == std::string::npos ? 0 : strtoull(text.c_str() + at + strlen(name), nullptr, 10);
}

Process look(pid_t pid) {
  Process found;
  const std::string stat = slurp(pid, "stat"), status = slurp(pid, "status");
  const size_t name_end = stat.rfind(')');  // the name may hold anything, parentheses too
  if (name_end == std::string::npos) return found;
  int parent = 0;
  unsigned long user = 0, system = 0;
  long reaped_user = 0, reaped_system = 0, threads = 0;
  sscanf(stat.c_str() + name_end + 2, "%*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld %*d %*d %ld", &parent,
         &user, &system, &reaped_user, &reaped_system, &threads);
  found.parent = parent;
  found.own_ticks = user + system;
  found.reaped_ticks = static_cast<uint64_t>(reaped_user + reaped_system);
  found.tasks = static_cast<uint64_t>(threads);
  found.memory_bytes = 1024 * (field(status, "RssAnon:") + field(status, "RssShmem:"));
  return found;
}

std::map<pid_t, Process> all_processes() {
  std::map<pid_t, Process> found;
  DIR* folder = opendir("/proc");
  if (!folder) return found;
  while (const dirent* entry = readdir(folder))
    if (const pid_t pid = atoi(entry->d_name); pid > 0) found[pid] = look(pid);
  closedir(folder);
  return found;
}

bool descends(const std::map<pid_t, Process>& all, pid_t pid, pid_t from) {
  for (int depth = 0; depth < 4096; ++depth) {
    const auto process = all.find(pid);
    if (process == all.end()) return false;
    if (process->second.parent == from) return true;
    pid = process->second.parent;
  }
  return false;
}

}  // namespace

Watch::Watch(bool whole, bool scratch) : whole_(whole), scratch_(scratch), self_(getpid()) {
  char link[32] = {};
  if (readlink("/proc/self", link, sizeof link - 1) > 0) self_ = atoi(link);
}

Usage Watch::read() const {
  Usage usage;
  uint64_t ticks = 0;
  const auto all = all_processes();
  for (const auto& [pid, process] : all) {
    if (pid == self_) ticks += process.reaped_ticks;
    if (pid == self_ || !(whole_ || descends(all, pid, self_))) continue;
    ticks += process.own_ticks + process.reaped_ticks;
    usage.memory_bytes += process.memory_bytes;
    usage.tasks += process.tasks;
    usage.pids.push_back(pid);
  }
  usage.memory_bytes += scratch_bytes();
  usage.cpu_s = static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return usage;
}

uint64_t Watch::exact_memory_bytes(const Usage& usage) const {
  uint64_t own = 0, shared = 0;
  for (const pid_t pid : usage.pids) {
    const std::string rollup = slurp(pid, "smaps_rollup");
    if (rollup.empty()) {
      own += look(pid).memory_bytes;
      continue;
    }
    own += 1024 * field(rollup, "Pss_Anon:");
    shared += 1024 * field(rollup, "Pss_Shmem:");
  }
  return own + std::max(shared, scratch_bytes());  // mapped files of the private tmp are in both
}

uint64_t Watch::scratch_bytes() const {
  uint64_t bytes = 0;
  for (const char* path : {"/tmp", "/dev/shm"}) {
    struct statfs found;
    if (scratch_ && statfs(path, &found) == 0)
      bytes += (found.f_blocks - found.f_bfree) * static_cast<uint64_t>(found.f_bsize);
  }
  return bytes;
}

uint64_t tasks_of(unsigned int uid) {
  uint64_t tasks = 0;
  for (const auto& [pid, process] : all_processes())
    if (field(slurp(pid, "status"), "Uid:") == uid) tasks += process.tasks;
  return tasks;
}

}  // namespace warpsmith
