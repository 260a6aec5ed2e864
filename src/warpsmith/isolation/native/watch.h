// The resources that all processes of a child use, read from /proc.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include <vector>

namespace warpsmith {

struct Usage {
  uint64_t memory_bytes = 0;  // anonymous and shared pages of every process, and files in the private tmp
  double cpu_s = 0;           // of running and of ended processes
  uint64_t tasks = 0;         // processes and threads
  std::vector<pid_t> pids;    // as numbered by the /proc that was read
};

class Watch {
 public:
  // `whole`: /proc shows our processes only. `scratch`: /tmp and /dev/shm are private.
  Watch(bool whole, bool scratch);
  Usage read() const;
  // The same memory with pages shared between processes counted once; slower, so called near a limit only.
  uint64_t exact_memory_bytes(const Usage& usage) const;

 private:
  uint64_t scratch_bytes() const;
  bool whole_, scratch_;
  pid_t self_;
};

// Processes and threads of a user on the whole machine, which is what the kernel's own limit on them counts.
uint64_t tasks_of(unsigned int uid);

}  // namespace warpsmith
