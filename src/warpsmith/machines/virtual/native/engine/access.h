// Memory requests of one warp: addresses of the lanes, their pattern, the bounds check, the shadow and the counters.
#pragma once

#include "grid.h"

namespace vgpu {

enum class Shape : uint8_t { Scattered, Uniform, Contiguous };

// The last address pattern of one instruction. A request with the same pattern reuses the results of its analysis.
struct Memo {
  alignas(64) int64_t delta[32] = {};  // from the first active lane; 0 for lanes that are not active
  uint32_t mask = 0;
  int first = 0;
  Shape shape = Shape::Scattered;
  bool aligned = true;        // every delta is a multiple of the access
  bool duplicates = false;    // several lanes name one address
  int64_t low = 0, high = 0;  // bounds of delta, high one past the last byte
  uint8_t unique[32];         // lanes with distinct addresses
  uint32_t repeated = 0;      // over `unique`: named by more than one lane
  int unique_count = 0;
  int wavefronts = 0;        // of shared memory
  uint8_t sectors[32] = {};  // by the first address modulo 32; 0: not yet counted
  Allocation* owner = nullptr;
  uint64_t generation = 0;
};

enum class Strength : uint8_t { Plain, Strong, Acquire, Release, Atomic };

// A request after its checks: the lanes in `mask` may touch base + delta[lane].
struct Access {
  uint8_t* base = nullptr;
  const int64_t* delta = nullptr;
  uint32_t mask = 0;
  Shape shape = Shape::Scattered;
  uint32_t suspects = 0;  // stores that race with a write; a race is reported only if they store other bytes
  uint32_t prior = 0;     // the shadow cell of the other access of the first suspect
  bool prior_read = false;
  Address first = 0;
  ptx::Space space = ptx::Space::Global;
  int64_t storage[32];  // deltas of requests without a memo
};

struct Request {
  Address address[32];
  uint32_t bytes = 4;  // of one lane
  bool write = false;
  Strength strength = Strength::Plain;
};

// Flags of an access instruction.
constexpr uint8_t kWide = 1;     // the address register is 64 bits
constexpr uint8_t kNoBase = 2;   // no register: imm is the address
constexpr uint8_t kStrong = 4;   // volatile, relaxed, acquire, release
constexpr uint8_t kOrdered = 8;  // acquire or release
constexpr uint8_t kCtaScope = 16;
constexpr uint8_t kConstant = 32;

void compute_addresses(const Warp& warp, const Inst& inst, Request* request);
// Checks a request in one space. Returns false if no lane remains. The caller splits generic requests by space.
bool resolve(Warp& warp, const Inst& inst, ptx::Space space, const Request& request, Access* access);
ptx::Space generic_space(Address at);
// Reports a store that races with an earlier access, once its bytes are known to differ.
void report_write_race(Warp& warp, const Inst& inst, const Access& access, const Request& request,
                       uint32_t lanes_that_differ);

}  // namespace vgpu
