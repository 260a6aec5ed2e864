#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace warpsmith {

Cgroup::Cgroup(const Spec& spec) {
  if (spec.cgroup.empty()) {
    refusal_ = "no cgroup v2 with a memory controller that this process may divide";
    return;
  }
  path_ = spec.cgroup + "/warpsmith-" + std::to_string(getpid());
  if (mkdir(path_.c_str(), 0755) == 0 && set("memory.max", std::to_string(spec.limits.memory_bytes))) {
    set("memory.swap.max", "0");  // absent where the kernel counts no swap
    members_ = open((path_ + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    events_ = open((path_ + "/memory.events").c_str(), O_RDONLY | O_CLOEXEC);
  }
  if (members_ < 0 || events_ < 0) refusal_ = path_ + ": " + strerror(errno);
}

bool Cgroup::enter() const { return write(members_, "0", 1) == 1; }

bool Cgroup::ran_out() const {
  char text[512] = {};
  if (events_ < 0 || pread(events_, text, sizeof text - 1, 0) <= 0) return false;
  const char* line = strstr(text, "oom_kill ");
  return line && atoi(line + strlen("oom_kill ")) > 0;
}

void Cgroup::remove() const {
  if (path_.empty()) return;
  set("cgroup.kill", "1");
  for (int round = 0; round < 100 && rmdir(path_.c_str()) != 0 && errno == EBUSY; ++round) usleep(1000);
}

bool Cgroup::set(const char* name, const std::string& value) const {
  const int fd = open((path_ + "/" + name).c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool whole = write(fd, value.data(), value.size()) == static_cast<ssize_t>(value.size());
  close(fd);
  return whole;
}

}  // namespace warpsmith
