// The folders that a child may write: given to it while it lives, and a scratch folder where there is no private /tmp.
#pragma once

#include <string>
#include <vector>

#include "mounts.h"
#include "spec.h"

namespace warpsmith {

// A folder that belongs to the child while it lives, and its owner before.
struct Given {
  std::string path;
  unsigned int child = 0, uid = 0, gid = 0;
};

class Folders {
 public:
  // Makes the child the owner of the writable folders, not of the files in them.
  bool give(const Spec& spec, const Owner& owner, std::string* error);
  // Without a new root: a folder under the machine's /tmp, and the spec changed to use it.
  bool make_scratch(Spec* spec, const Owner& owner, std::string* error);
  // Bytes by which the writable folders have grown since `give`.
  uint64_t written_bytes(const Spec& spec) const;
  // Once no process of the tree is left: the folders and what the child made in them get the owner of before.
  void take_back();

 private:
  std::vector<Given> given_;
  std::string scratch_;
  uint64_t before_bytes_ = 0;
};

}  // namespace warpsmith
