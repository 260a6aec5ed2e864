// Resources that ptxas assigned to each kernel, read from the ELF of its machine code, which is never executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace executor {

struct Resources {
  int registers = 0;
  size_t static_shared = 0;
  size_t stack = 0;
};

constexpr int kMostRegisters = 255;  // of one thread

// Returns the resources by kernel name; empty if the bytes are not a readable ELF.
std::map<std::string, Resources> read_cubin(const uint8_t* image, size_t bytes);

}  // namespace executor
