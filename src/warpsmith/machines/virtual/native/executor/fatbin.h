// A fat binary as nvcc embeds it: a header, then entries of PTX text or machine code for one architecture each.
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
  std::string error;  // a sentence; empty when `ptx` is there
};

// The PTX that the driver of a GPU with this compute capability (9, 0) would take: the newest that it may run.
Image read_fatbin(const uint8_t* from, size_t bytes, int major, int minor);

}  // namespace executor
