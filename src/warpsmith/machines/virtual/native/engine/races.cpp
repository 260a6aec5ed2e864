// Vector clocks of warps, and the list of releases by time.
#include "races.h"

#include <algorithm>

#include "grid.h"
#include "shadow.h"

namespace vgpu {

namespace {
constexpr size_t kRemembered = 256;  // operations that are compared with a new one; older ones count as ordered

bool is_covered(const ReleaseList& list, uint32_t warp, uint32_t clock, uint64_t knowledge) {
  if (list.forgot) return true;
  const auto& all = list.entries;
  auto known =
      std::partition_point(all.begin(), all.end(), [&](const Release& release) { return release.time <= knowledge; });
  // A later release of another warp may know less of this warp, so earlier releases are searched as well. After 64 the
  // pair counts as ordered.
  for (auto release = known; release != all.begin();) {
    --release;
    if (release->seen[warp] >= clock) return true;
    if (known - release > 64) return true;
  }
  return false;
}
}  // namespace

void Races::begin(Operation operation, const std::string& what) {
  first = static_cast<uint32_t>(segments_.size());
  safe = first << 6;
  unordered_.clear();
  locations_.clear();
  by_block_.clear();
  time_ = 0;
  if (ordered) {
    size_t from = operations_.size() > kRemembered ? operations_.size() - kRemembered : 0;
    for (size_t i = from; i < operations_.size(); ++i)
      if (operations_[i].operation != operation && !ordered(operations_[i].operation, operation))
        unordered_.push_back(operations_[i]);
    if (!unordered_.empty()) safe = unordered_.front().first << 6;
  }
  operations_.push_back({first, UINT32_MAX, operation, what});
}

void Races::end() {
  operations_.back().end = static_cast<uint32_t>(segments_.size());
  if (operations_.size() > 4 * kRemembered)
    operations_.erase(operations_.begin(), operations_.end() - long(kRemembered));
}

uint32_t Races::segment(uint32_t block, uint32_t warp, uint32_t clock) {
  if (segments_.size() > kMaxSegment) return 1;  // no numbers are left: segment 1 is never reported
  segments_.push_back({block, clock, static_cast<uint16_t>(warp), false});
  segments_.push_back({block, clock, static_cast<uint16_t>(warp), true});
  return static_cast<uint32_t>(segments_.size()) - 2;
}

const OperationSpan* Races::unordered_span(uint32_t stamp) const {
  for (const OperationSpan& span : unordered_)
    if (stamp >= span.first && stamp < span.end) return &span;
  return nullptr;
}

void Races::restart(Memory& memory) {
  segments_.assign(4, Segment{});
  operations_.clear();
  for (Allocation* allocation : memory.all()) {
    if (!allocation->live || !allocation->cells.wrote) continue;
    for (size_t i = 0; i < allocation->cells.count(); ++i) {
      allocation->cells.wrote[i] = allocation->cells.wrote[i] ? 1u << 6 : 0;
      allocation->cells.read[i] = 0;
    }
  }
}

void Races::release(Warp& warp, Address location, bool gpu_scope, const uint32_t* seen) {
  Release release;
  release.time = ++time_;
  std::copy(seen, seen + 32, release.seen);
  warp.block->cta_releases.add(release);
  if (gpu_scope) by_block_[warp.block->linear].add(release);
  locations_[location] = time_;
}

void Races::acquire(Warp& warp, Address location) {
  if (time_ == 0) return;
  auto found = locations_.find(location);
  if (found == locations_.end() || found->second <= warp.knowledge) return;
  warp.knowledge = found->second;
  warp.cached_stamp = 0;
  // A new segment: reads before the acquire stay unordered.
  ++warp.clock;
  warp.segment = 0;
}

bool Races::released_to(const Warp& reader, uint32_t block, uint32_t warp, uint32_t clock) const {
  if (reader.knowledge == 0) return false;
  if (block == reader.block->linear && is_covered(reader.block->cta_releases, warp, clock, reader.knowledge))
    return true;
  auto found = by_block_.find(block);
  return found != by_block_.end() && is_covered(found->second, warp, clock, reader.knowledge);
}

namespace {
void set_safe(Warp& warp) {
  uint32_t floor = *std::min_element(warp.seen, warp.seen + warp.block->warp_count);
  uint32_t base = warp.block->clock_base;
  warp.shared_safe = floor + 1 > base ? (floor + 1 - base) << 11 : 0;
  warp.segment = 0;
  warp.cached_stamp = 0;
}
}  // namespace

void begin_segment(Warp& warp) {
  ++warp.clock;
  set_safe(warp);
}

void synchronize_warp(Warp& warp) {
  warp.seen[warp.index] = warp.clock;
  ++warp.clock;
  warp.segment = 0;
  warp.cached_stamp = 0;
}

void synchronize_warps(Block& block, const std::vector<Passed>& warps) {
  uint32_t joined[32] = {}, gpu[32] = {}, cta[32] = {};
  bool fenced_gpu = false, fenced_cta = false;
  uint32_t next = 0;
  uint64_t knowledge = 0;
  for (const Passed& passed : warps) {
    Warp& warp = block.warps[size_t(passed.warp)];
    for (int i = 0; i < 32; ++i) {
      if (i != passed.warp) joined[i] = std::max(joined[i], warp.seen[i]);
      gpu[i] = std::max(gpu[i], warp.fence_gpu[i]);
      cta[i] = std::max(cta[i], warp.fence_cta[i]);
    }
    joined[passed.warp] = std::max(joined[passed.warp], passed.clock);
    fenced_gpu |= warp.fenced_gpu;
    fenced_cta |= warp.fenced_cta;
    next = std::max(next, warp.clock);
    knowledge = std::max(knowledge, warp.knowledge);
  }
  for (const Passed& passed : warps) {
    if (!passed.waits) continue;
    Warp& warp = block.warps[size_t(passed.warp)];
    std::copy(joined, joined + 32, warp.seen);
    warp.clock = next + 1;
    // All warps continue with the same clock, so that a single bound says which shared cells are ordered before.
    for (const Passed& other : warps)
      if (other.waits) warp.seen[other.warp] = next;
    // The pattern "all threads fence, the block synchronizes, one thread releases" releases the fenced accesses of all
    // threads.
    std::copy(gpu, gpu + 32, warp.fence_gpu);
    std::copy(cta, cta + 32, warp.fence_cta);
    warp.fenced_gpu = fenced_gpu;
    warp.fenced_cta = fenced_cta;
    warp.knowledge = knowledge;
    set_safe(warp);
  }
}

void rebase_clocks(Block& block, uint32_t clock) {
  Cells& cells = block.cells;
  for (size_t i = 0; i < cells.count(); ++i) {
    if (cells.wrote[i] >> 11 != kPendingClock) cells.wrote[i] = cells.wrote[i] ? 1 : 0;
    cells.read[i] = 0;
  }
  block.clock_base = clock - 1;
  for (Warp& warp : block.warps) set_safe(warp);
}

void start_clocks(Block& block) {
  block.clock_base = 0;
  std::fill(block.cluster_arriving, block.cluster_arriving + 32, 0);
  std::fill(block.cluster_arrived, block.cluster_arrived + 32, 0);
  for (Warp& warp : block.warps) {
    warp.clock = 1;
    std::fill(warp.seen, warp.seen + 32, 0);
    warp.knowledge = 0;
    warp.fenced_gpu = warp.fenced_cta = false;
    std::fill(warp.fence_gpu, warp.fence_gpu + 32, 0);
    std::fill(warp.fence_cta, warp.fence_cta + 32, 0);
    set_safe(warp);
  }
  block.cta_releases.clear();
}

}  // namespace vgpu
