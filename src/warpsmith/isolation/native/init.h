// The first process inside: prepares the root, starts the program, watches its tree, ends it as a whole, reports.
#pragma once

#include "cgroup.h"
#include "mounts.h"
#include "report.h"
#include "spec.h"

namespace warpsmith {

// Also the numbers of confine.policy.Limit.
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
  int go = -1;       // a message from the launcher once our ids are mapped (`write_go`); its end: the judge is gone
  int control = -1;  // a byte from the judge: end it; its end: the judge is gone
  int status = -1;   // frames to the judge
};

// The launcher's message to init: its ids are mapped, and for which user, since the map that was planned may have been
// refused.
bool write_go(int fd, const Owner& owner);

[[noreturn]] void run_init(Spec spec, Owner owner, int namespaces, const Cgroup& cgroup, const Lines& lines,
                           Report report);

}  // namespace warpsmith
