// A new root that holds only what the child may see: a tmpfs with binds at the same absolute paths.
#pragma once

#include <string>

#include "report.h"
#include "spec.h"

namespace warpsmith {

struct Owner {
  unsigned int uid = 0;
  unsigned int gid = 0;
  bool change = false;  // whether the child becomes somebody else
};

// Runs in the new mount namespace with the privileges to mount. False with `error` when it broke half-way, so that
// nothing may be started; a refusal before anything changed is only reported.
bool make_root(const Spec& spec, const Owner& owner, bool own_pids, Report* report, std::string* error);

}  // namespace warpsmith
