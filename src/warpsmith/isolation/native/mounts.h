// A new root with the paths that the child may see: a tmpfs with binds at the same absolute paths.
#pragma once

#include <string>

#include "report.h"
#include "spec.h"

namespace warpsmith {

// The user that the child runs as.
struct Owner {
  unsigned int uid = 0;
  unsigned int gid = 0;
  bool change = false;       // whether this is another user than the evaluator's
  bool subordinate = false;  // whether newuidmap and newgidmap must map it
  std::string refusal;       // why it is the evaluator's own user
};

// Runs in the new mount namespace with the privileges to mount. False with `error` if it failed half-way: then
// no program may be started. A refusal before anything changed is only reported.
bool make_root(const Spec& spec, const Owner& owner, bool own_pids, Report* report, std::string* error);

}  // namespace warpsmith
