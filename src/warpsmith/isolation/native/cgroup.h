// A cgroup (v2) of its own for one child: the kernel's bound on the memory of the whole tree.
#pragma once

#include <string>

#include "spec.h"

namespace warpsmith {

class Cgroup {
 public:
  // Makes it below `spec.cgroup`; where that is not possible `refusal` says why and the rest does nothing.
  explicit Cgroup(const Spec& spec);
  const std::string& refusal() const { return refusal_; }
  // The calling process moves in; errno says why when it cannot.
  bool enter() const;
  // Whether the kernel killed somebody in it for want of memory.
  bool ran_out() const;
  // Ends who is left and removes it; the launcher calls it from outside.
  void remove() const;

 private:
  bool set(const char* name, const std::string& value) const;
  std::string path_, refusal_;
  int members_ = -1, events_ = -1;  // opened before the new root hides the files
};

}  // namespace warpsmith
