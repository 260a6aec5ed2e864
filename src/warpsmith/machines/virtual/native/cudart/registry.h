// Which host function stands for which kernel, and which host variable for which device variable.
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
  bool known = false;  // to the executor, with the three below
  uint64_t function = 0, parameter_bytes = 0;
  bool large_clusters = false;  // cudaFuncAttributeNonPortableClusterSizeAllowed
  std::vector<Parameter> parameters;
};

struct Variable {
  Module* module = nullptr;
  std::string name;
  uint64_t address = 0, bytes = 0;
};

// Both ask the executor the first time. nullptr: the error is settled.
Kernel* kernel_of(const void* function);
Variable* variable_of(const void* symbol);
// The kernel that the executor knows by this number.
const void* function_by_number(uint64_t function);

// The arguments as the .param space wants them.
std::vector<uint8_t> packed(const Kernel& kernel, void** arguments);

}  // namespace standin
