#include "races.h"

#include <algorithm>

#include "grid.h"
#include "shadow.h"

namespace vgpu {

namespace {
constexpr size_t kRemembered = 256;  // operations asked about; older ones count as ordered

bool covered(const ReleaseList& list, uint32_t warp, uint32_t clock, uint64_t knowledge) {
  if (list.forgot) return true;
  const auto& all = list.entries;
  auto known = std::partition_point(all.begin(), all.end(), [&](const Release& r) { return r.time <= knowledge; });
  // Later releases by other warps may know less of this warp: look back from the newest that is known.
  for (auto r = known; r != all.begin();) {
    --r;
    if (r->seen[warp] >= clock) return true;
    if (known - r > 64) return true;
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
  if (segments_.size() > kMaxSegment) return 1;  // out of numbers: accesses from here on accuse nobody
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
  for (Allocation* a : memory.all()) {
    if (!a->live || !a->cells.wrote) continue;
    for (size_t i = 0; i < a->cells.count(); ++i) {
      a->cells.wrote[i] = a->cells.wrote[i] ? 1u << 6 : 0;
      a->cells.read[i] = 0;
    }
  }
}

void Races::release(Warp& w, Address location, bool gpu_scope, const uint32_t* seen) {
  Release r;
  r.time = ++time_;
  std::copy(seen, seen + 32, r.seen);
  w.block->cta_releases.add(r);
  if (gpu_scope) by_block_[w.block->linear].add(r);
  locations_[location] = time_;
}

void Races::acquire(Warp& w, Address location) {
  if (time_ == 0) return;
  auto found = locations_.find(location);
  if (found == locations_.end() || found->second <= w.knowledge) return;
  w.knowledge = found->second;
  w.judged_stamp = 0;
  // What follows is a new stretch: reads made before the acquire stay unordered.
  ++w.clock;
  w.segment = 0;
}

bool Races::released_to(const Warp& w, uint32_t block, uint32_t warp, uint32_t clock) const {
  if (w.knowledge == 0) return false;
  if (block == w.block->linear && covered(w.block->cta_releases, warp, clock, w.knowledge)) return true;
  auto found = by_block_.find(block);
  return found != by_block_.end() && covered(found->second, warp, clock, w.knowledge);
}

namespace {
void set_safe(Warp& w) {
  uint32_t floor = *std::min_element(w.seen, w.seen + w.block->warp_count);
  uint32_t base = w.block->clock_base;
  w.shared_safe = floor + 1 > base ? (floor + 1 - base) << 11 : 0;
  w.segment = 0;
  w.judged_stamp = 0;
}
}  // namespace

void begin_stretch(Warp& w) {
  ++w.clock;
  set_safe(w);
}

void synchronize_warp(Warp& w) {
  w.seen[w.index] = w.clock;
  ++w.clock;
  w.segment = 0;
  w.judged_stamp = 0;
}

void synchronize_warps(Block& b, const std::vector<Passed>& warps) {
  uint32_t joined[32] = {}, gpu[32] = {}, cta[32] = {};
  bool fenced_gpu = false, fenced_cta = false;
  uint32_t next = 0;
  uint64_t knowledge = 0;
  for (const Passed& p : warps) {
    Warp& w = b.warps[size_t(p.warp)];
    for (int i = 0; i < 32; ++i) {
      if (i != p.warp) joined[i] = std::max(joined[i], w.seen[i]);
      gpu[i] = std::max(gpu[i], w.fence_gpu[i]);
      cta[i] = std::max(cta[i], w.fence_cta[i]);
    }
    joined[p.warp] = std::max(joined[p.warp], p.clock);
    fenced_gpu |= w.fenced_gpu;
    fenced_cta |= w.fenced_cta;
    next = std::max(next, w.clock);
    knowledge = std::max(knowledge, w.knowledge);
  }
  for (const Passed& p : warps) {
    if (!p.waits) continue;
    Warp& w = b.warps[size_t(p.warp)];
    std::copy(joined, joined + 32, w.seen);
    w.clock = next + 1;
    // Clocks jump to a common value, so that one bound tells what is ordered before.
    for (const Passed& other : warps)
      if (other.waits) w.seen[other.warp] = next;
    // Everybody fences, all meet, one releases: what each had fenced is released for all.
    std::copy(gpu, gpu + 32, w.fence_gpu);
    std::copy(cta, cta + 32, w.fence_cta);
    w.fenced_gpu = fenced_gpu;
    w.fenced_cta = fenced_cta;
    w.knowledge = knowledge;
    set_safe(w);
  }
}

void rebase_clocks(Block& b, uint32_t clock) {
  Cells& c = b.cells;
  for (size_t i = 0; i < c.count(); ++i) {
    if (c.wrote[i] >> 11 != kPendingClock) c.wrote[i] = c.wrote[i] ? 1 : 0;
    c.read[i] = 0;
  }
  b.clock_base = clock - 1;
  for (Warp& w : b.warps) set_safe(w);
}

void start_clocks(Block& b) {
  b.clock_base = 0;
  std::fill(b.cluster_arriving, b.cluster_arriving + 32, 0);
  std::fill(b.cluster_arrived, b.cluster_arrived + 32, 0);
  for (Warp& w : b.warps) {
    w.clock = 1;
    std::fill(w.seen, w.seen + 32, 0);
    w.knowledge = 0;
    w.fenced_gpu = w.fenced_cta = false;
    std::fill(w.fence_gpu, w.fence_gpu + 32, 0);
    std::fill(w.fence_cta, w.fence_cta + 32, 0);
    set_safe(w);
  }
  b.cta_releases.clear();
}

}  // namespace vgpu
