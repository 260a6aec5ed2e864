// The variables of an artifact's device code: __device__ and __constant__ ones, static ones inside of functions, and
// tables of the compiler's. All hold state from call to call, whether or not the host's code knows of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace worker {

struct Variable {
  std::string name;
  uint64_t bytes = 0;
  bool constant = false;
};

// Those of the machine code in a fat binary, each name once.
std::vector<Variable> variables_of(const std::string& image);

}  // namespace worker
