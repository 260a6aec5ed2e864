// Format of a capture. All fields are little-endian and packed. First: u32 number of kernels, their names; u32 number
// of device variables, for each its name, u64 bytes and the bytes that it held before the call. Then the operations of
// the call, each after its kind (u32):
//   kernel     name, u32 grid x y z, block x y z, dynamic shared bytes, number of attributes,
//              for each attribute u32 id and 64 bytes; u32 number of parameters, u32 bytes of each, then all bytes
//   fill       u64 address, u32 value, u64 bytes
//   copy       u64 to, u64 from, u64 bytes
//   rows       u64 to, u64 its pitch, u64 from, u64 its pitch, u64 bytes of a row, u64 rows
//   fill rows  u64 address, u64 pitch, u32 value, u64 bytes of a row, u64 rows
//   bytes      u64 to, u32 bytes, data
//   symbol     name, u64 offset, u32 bytes, data
//   lookup     name, u64 offset, u64 from, u64 bytes: a symbol written from device memory
//   nothing    an empty graph node
//   attribute  name, i32 attribute, i32 value
//   begin      separates settings of earlier calls, which are replayed once, from the work of this call
// A name is its u32 length and its characters.
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

// cudaLaunchAttribute and cudaLaunchConfig_t in their published layout.
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
// cudaKernelNodeParams and cudaMemsetParams in their published layout.
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
// Attributes that decide how a grid runs: cooperative (2), cluster dimension (4), cluster scheduling policy (5),
// preferred cluster dimension (11), preferred carveout (14). Attributes that order a launch after others or configure
// the L2 cache of a stream are dropped, because a replay uses one stream.
constexpr int kCooperativeAttribute = 2, kKeptAttributes[] = {2, 4, 5, 11, 14};
constexpr size_t kAttributeBytes = 64;

// Whether the operation may precede the call: it changes state that outlives a call.
inline bool is_setting(Operation kind) { return kind == kAttribute || kind == kBegin; }

// Returns the bytes from the first row to the end of the last; the largest uint64_t if they overflow.
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
