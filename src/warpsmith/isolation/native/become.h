// From a fresh fork of the init process to the program: limits, identity, capabilities, Landlock, seccomp, exec.
#pragma once

#include "cgroup.h"
#include "mounts.h"
#include "report.h"
#include "spec.h"

namespace warpsmith {

struct Place {
  const Cgroup* cgroup = nullptr;
  bool new_root = false;
  bool user_namespace = false;  // already inside one of our own
  int input = -1, output = -1, errors = -1;
  int channel = -1;  // a message with the report, a second one only if exec failed
};

[[noreturn]] void become(const Spec& spec, const Owner& owner, const Place& place, Report report);

}  // namespace warpsmith
