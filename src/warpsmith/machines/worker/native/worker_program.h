// A recording: u32 kernels, their names; u32 variables of the device code, name, u64 bytes and the bytes that each held
// before the call; then the operations of a call and what was set before it, little-endian and packed, each after its
// kind:
//   kernel     name, u32 grid x y z, block x y z, dynamic shared bytes, attributes, then u32 id and 64 bytes of each;
//              u32 parameters, u32 bytes of each, then the bytes of all
//   fill       u64 address, u32 value, u64 bytes
//   copy       u64 to, u64 from, u64 bytes
//   rows       u64 to, u64 its pitch, u64 from, u64 its pitch, u64 bytes of a row, u64 rows
//   fill rows  u64 address, u64 pitch, u32 value, u64 bytes of a row, u64 rows
//   bytes      u64 to, u32 bytes, data
//   symbol     name, u64 offset, u32 bytes, data
//   lookup     name, u64 offset, u64 from, u64 bytes: a symbol written from device memory
//   nothing    a node of a graph that does nothing
//   attribute  name, i32 attribute, i32 value
//   begin      what stands before it was asked for before this call, and is asked for once
// A name is u32 length and characters.
#pragma once

#include <cstddef>
#include <cstdint>

namespace worker {

enum Operation : uint32_t {
  kNothing = 0,
  kKernel = 1,
  kFill = 2,
  kCopy = 3,
  kBytes = 4,
  kSymbol = 5,
  kAttribute = 6,
  kBegin = 7,
  kLookup = 8,
  kRows = 9,
  kFillRows = 10
};

struct Extent {
  unsigned x, y, z;
};

// cudaLaunchAttribute and cudaLaunchConfig_t by their published layout.
struct LaunchAttribute {
  int id, padding;
  union {
    char bytes[64];
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
// Of the attributes those that say how the grid runs: cooperative, cluster and its scheduling and preferred size,
// carveout. Those that tie a launch to others or to a stream's cache have no place where everything is asked for in one
// order.
constexpr int kCooperativeAttribute = 2, kKeptAttributes[] = {2, 4, 5, 11, 14};
constexpr size_t kAttributeBytes = 64;

// What may stand before a call: it outlives the one that asked for it.
inline bool is_setting(Operation kind) { return kind == kAttribute || kind == kBegin; }

// From the first byte of the first row to the last of the last; more than there is where it cannot be told.
inline uint64_t span_of(uint64_t pitch, uint64_t row_bytes, uint64_t rows) {
  uint64_t before = 0, all = 0;
  if (rows == 0) return 0;
  if (__builtin_mul_overflow(pitch, rows - 1, &before) || __builtin_add_overflow(before, row_bytes, &all))
    return ~uint64_t(0);
  return all;
}

inline bool is_kept(int attribute) {
  for (int one : kKeptAttributes)
    if (one == attribute) return true;
  return false;
}

}  // namespace worker
