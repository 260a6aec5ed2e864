// The first process inside the namespaces. It prepares the root, starts the program, checks the limits of all its
// processes, ends them together, and reports the outcome.
#pragma once

#include "cgroup.h"
#include "mounts.h"
#include "report.h"
#include "spec.h"

namespace warpsmith {

// The same numbers as isolation.policy.Limit.
enum Stop : unsigned int {
  kNotStopped = 0,
  kWall = 1,
  kCpu = 2,
  kMemory = 3,
  kOutput = 4,
  kProcesses = 5,
  kFileSize = 6,
  kKilled = 7,
};

struct Lines {
  // A message from the launcher when the ids are mapped (`write_go`); end of file: the evaluator process is gone.
  int go = -1;
  int control = -1;  // a byte from the evaluator process: end the child; end of file: that process is gone
  int status = -1;   // frames to the evaluator process
};

// The launcher's message to init: its ids are mapped, and for which user, since the map that was planned may have been
// refused.
bool write_go(int fd, const Owner& owner);

[[noreturn]] void run_init(Spec spec, Owner owner, int namespaces, const Cgroup& cgroup, const Lines& lines,
                           Report report);

}  // namespace warpsmith
