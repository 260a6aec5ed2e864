// Kernels by host function, and device variables by host variable.
#pragma once

#include <string>
#include <vector>

#include "link.h"

namespace standin {

struct Module {
  const void* wrapper = nullptr;
  int number = -1;
};

struct Parameter {
  uint64_t offset, bytes;
};

struct Kernel {
  Module* module = nullptr;
  std::string name;
  bool known = false;  // whether the executor has resolved it and the next three fields are valid
  uint64_t function = 0, parameter_bytes = 0;
  bool large_clusters = false;  // cudaFuncAttributeNonPortableClusterSizeAllowed
  std::vector<Parameter> parameters;
};

struct Variable {
  Module* module = nullptr;
  std::string name;
  uint64_t address = 0, bytes = 0;
};

// Both query the executor at the first use. They return nullptr with the last error set.
Kernel* kernel_of(const void* function);
Variable* variable_of(const void* symbol);
// Returns the kernel with this number of the executor.
const void* function_by_number(uint64_t function);

// Returns the arguments in the layout of the .param space.
std::vector<uint8_t> packed(const Kernel& kernel, void** arguments);

}  // namespace standin
