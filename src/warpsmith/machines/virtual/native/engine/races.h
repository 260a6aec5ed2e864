// The race checker. Two accesses race if at least one writes, nothing orders them, and both are not atomic or strong
// (PTX ISA, "Memory Consistency Model": conflict and data race). The lanes of a warp are not ordered by lockstep
// execution.
//
// Each access carries a stamp. In global memory it is the number of a segment: the accesses of one warp between two of
// its synchronizations. In shared memory it is the warp and its clock.
//
// Releases have a total order by time. A warp that reads a released location knows every release up to that time. This
// misses some races between blocks that synchronize in another way, and never reports an ordered pair.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "memory.h"
#include "warp.h"

namespace vgpu {

// Segments come in pairs. The second of a pair marks reads that another thread of the block also made without an order
// between the two.
struct Segment {
  uint32_t block = 0, clock = 0;
  uint16_t warp = 0;
  bool many = false;
};
constexpr uint32_t kMany = 1u << 6;  // distance of the cells of a pair

struct OperationSpan {
  uint32_t first = 0, end = 0;  // segments
  Operation operation = 0;
  std::string what;
};

constexpr uint32_t kHostBlock = UINT32_MAX;
constexpr uint32_t kMaxSegment = (1u << 25) - 2;

class Races {
 public:
  std::function<bool(Operation, Operation)> ordered;  // if empty, every earlier operation is ordered before

  void begin(Operation operation, const std::string& what);  // starts a new operation and sets `safe`
  void end();
  uint32_t segment(uint32_t block, uint32_t warp, uint32_t clock);
  bool is_exhausted() const { return segments_.size() > kMaxSegment / 2; }
  void restart(Memory& memory);  // forgets all accesses: written memory then counts as ordered

  uint32_t safe = 64;  // global cells below this are ordered before the current operation
  uint32_t first = 1;  // first segment of the current operation
  const std::vector<OperationSpan>& unordered() const { return unordered_; }
  const OperationSpan* unordered_span(uint32_t stamp) const;
  const Segment& at(uint32_t stamp) const { return segments_[stamp]; }

  // Releases of the current launch.
  void release(Warp& warp, Address location, bool gpu_scope, const uint32_t* seen);
  void acquire(Warp& warp, Address location);
  bool released_to(const Warp& reader, uint32_t block, uint32_t warp, uint32_t clock) const;
  bool any_release() const { return time_ > 0; }
  uint64_t now() const { return time_; }

 private:
  std::vector<Segment> segments_{Segment{}};
  std::vector<OperationSpan> operations_, unordered_;
  std::unordered_map<Address, uint64_t> locations_;
  std::unordered_map<uint32_t, ReleaseList> by_block_;
  uint64_t time_ = 0;
};

void begin_segment(Warp& warp);     // starts a new segment after a release or an acquire
void synchronize_warp(Warp& warp);  // __syncwarp and shuffles: the clock of the warp advances
struct Passed {
  int warp;
  uint32_t clock;  // at its arrival
  bool waits;      // false: it arrived without waiting
};
void synchronize_warps(Block& block, const std::vector<Passed>& warps);  // a barrier that these warps passed
void start_clocks(Block& block);
void rebase_clocks(Block& block, uint32_t clock);  // drops old clocks when shared cells have no bits left for new ones

}  // namespace vgpu
