// Who may be ordered before whom. Accesses carry a stamp: for global memory the number of a segment, a stretch of one
// warp between two of its synchronisations; for shared memory the warp and its clock. Lockstep is no order.
//
// Releases are totally ordered by a time; a warp that reads a released location knows every release up to that time.
// This forgets some races between blocks that synchronise otherwise, and never accuses an ordered pair.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "memory.h"
#include "warp.h"

namespace vgpu {

// Segments come in pairs: the second of a pair marks what other threads of the block read as well, unordered.
struct Segment {
  uint32_t block = 0, clock = 0;
  uint16_t warp = 0;
  bool many = false;
};
constexpr uint32_t kMany = 1u << 6;  // from a cell of the first to one of the second

struct OperationSpan {
  uint32_t first = 0, end = 0;  // segments
  Operation operation = 0;
  std::string what;
};

constexpr uint32_t kHostBlock = UINT32_MAX;
constexpr uint32_t kMaxSegment = (1u << 25) - 2;

class Races {
 public:
  std::function<bool(Operation, Operation)> ordered;  // empty: every earlier operation is

  void begin(Operation operation, const std::string& what);  // a new operation; sets `safe`
  void end();
  uint32_t segment(uint32_t block, uint32_t warp, uint32_t clock);
  bool spent() const { return segments_.size() > kMaxSegment / 2; }
  void restart(Memory& memory);  // forget the past: everything written counts as ordered

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

void begin_stretch(Warp& warp);     // what follows is told apart from what was released or learned
void synchronize_warp(Warp& warp);  // __syncwarp and kin: the warp's clock ticks
struct Passed {
  int warp;
  uint32_t clock;  // at its arrival
  bool waits;      // false: it arrived and went on
};
void synchronize_warps(Block& block, const std::vector<Passed>& warps);  // a barrier that these warps passed
void start_clocks(Block& block);
void rebase_clocks(Block& block, uint32_t clock);  // shared cells have no room for later clocks: forget the older ones

}  // namespace vgpu
