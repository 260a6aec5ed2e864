// The namespaces that this machine grants, the user of the child, and the process that starts in them.
#pragma once

#include <sys/types.h>

#include "mounts.h"
#include "report.h"
#include "spec.h"

namespace warpsmith {

struct Born {
  pid_t pid = -1;  // 0 in the new process, as with fork
  int flags = 0;   // the CLONE_NEW* flags it got
};

// As root, an unused high uid if the machine's uid map has it, else nobody. As an ordinary user, a subordinate id if
// the spec has some. Else the user itself.
Owner choose_owner(const Spec& spec);

// The user itself, with the reason for it.
Owner own_user(const std::string& refusal);

// Forks into all namespaces that the machine grants. The report, in both processes, has the refused ones.
Born fork_into_namespaces(Report* report);

// Writes the uid and gid maps of the new process before it does anything. If the subordinate ids are refused, maps the
// user itself and changes `owner` to it. False with errno if nothing could be mapped.
bool map_ids(pid_t pid, const Spec& spec, Owner* owner);

}  // namespace warpsmith
