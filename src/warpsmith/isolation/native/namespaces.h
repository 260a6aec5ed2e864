// Which namespaces this machine grants, who the child will be, and the process that is born into them.
#pragma once

#include <sys/types.h>

#include "mounts.h"
#include "report.h"

namespace warpsmith {

struct Born {
  pid_t pid = -1;  // 0 in the new process, as with fork
  int flags = 0;   // the CLONE_NEW* flags it got
};

// An unused high uid when we are root and the machine's uid map has it, else nobody, else ourselves.
Owner choose_owner();

// Forks into as many of the namespaces as the machine grants; what it refused is in the report, in both processes.
Born fork_into_namespaces(Report* report);

// The parent's part, before the new process does anything: its uid and gid maps.
bool map_ids(pid_t pid, const Owner& owner);

}  // namespace warpsmith
