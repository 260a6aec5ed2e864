// Variables of an artifact's device code: __device__ and __constant__ variables, static variables inside functions, and
// tables of the compiler. Each keeps state from call to call, whether or not the host code knows it.
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

// Returns the variables of the machine code in a fat binary, each name once.
std::vector<Variable> list_variables(const std::string& image);

}  // namespace worker
