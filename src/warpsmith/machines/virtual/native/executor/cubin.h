// What ptxas decided for each kernel, read from the ELF of its machine code; nothing is executed from it.
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

constexpr int kMostRegisters = 255;  // of a thread

// By kernel name; empty when the bytes are not an ELF we can read.
std::map<std::string, Resources> read_cubin(const uint8_t* image, size_t bytes);

}  // namespace executor
