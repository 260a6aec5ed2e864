// A recording: u32 kernels, their names; u32 symbols, name, u64 bytes and u32 constant of each; then the operations of a
// call and what was set before it, little-endian and packed, each after its kind:
//   kernel     name, u32 grid x y z, block x y z, dynamic shared bytes, cooperative, cluster x y z, parameters, then u32
//              bytes of each, then the bytes of all
//   fill       u64 address, u32 value, u64 bytes
//   copy       u64 to, u64 from, u64 bytes
//   bytes      u64 to, u32 bytes, data
//   symbol     name, u64 offset, u32 bytes, data
//   attribute  name, i32 attribute, i32 value
//   begin      what stands before it was asked for before this call, and is asked for once
// A name is u32 length and characters.
#pragma once

#include <cstddef>
#include <cstdint>

namespace worker {

enum Operation : uint32_t { kKernel = 1, kFill = 2, kCopy = 3, kBytes = 4, kSymbol = 5, kAttribute = 6, kBegin = 7 };

struct Extent {
  unsigned x, y, z;
};

// cudaLaunchAttribute and cudaLaunchConfig_t by their published layout.
struct LaunchAttribute {
  int id, padding;
  union {
    char bytes[64];
    Extent cluster;
    int cooperative;
  };
};
struct LaunchConfig {
  Extent grid, block;
  size_t shared;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};
// cudaKernelNodeParams and cudaMemsetParams.
struct KernelNode {
  void* function;
  Extent grid, block;
  unsigned shared;
  void **arguments, **extra;
};
struct FillNode {
  void* to;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};
constexpr int kCooperativeAttribute = 2, kClusterAttribute = 4;

}  // namespace worker
