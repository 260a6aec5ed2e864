// A cgroup (version 2) for one child: the kernel's limit on the memory of all its processes.
#pragma once

#include <string>

#include "spec.h"

namespace warpsmith {

class Cgroup {
 public:
  // Makes the cgroup below `spec.cgroup`. If that fails, `refusal` is the reason and the other functions do nothing.
  explicit Cgroup(const Spec& spec);
  const std::string& refusal() const { return refusal_; }
  // Moves the calling process into the cgroup. False with errno if that fails.
  bool enter() const;
  // Whether the kernel killed a process of the cgroup because of its memory limit.
  bool ran_out() const;
  // Kills the remaining processes and removes the cgroup. Called by the launcher, which is outside.
  void remove() const;

 private:
  bool set(const char* name, const std::string& value) const;
  std::string path_, refusal_;
  int members_ = -1, events_ = -1;  // opened before the new root hides the files
};

}  // namespace warpsmith
