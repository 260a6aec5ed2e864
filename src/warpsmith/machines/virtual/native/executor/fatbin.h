// Fat binaries as nvcc embeds them: a header, then entries with PTX text or machine code of one architecture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "cubin.h"

namespace executor {

struct Image {
  std::string ptx;
  int ptx_version = 0, arch = 0;  // 90 for compute_90 and compute_90a
  std::map<std::string, Resources> resources;
  std::string error;  // a sentence; empty if `ptx` is present
};

// Returns the PTX that a driver would select for this compute capability (9, 0): the newest that the GPU can run.
Image read_fatbin(const uint8_t* from, size_t bytes, int major, int minor);

}  // namespace executor
