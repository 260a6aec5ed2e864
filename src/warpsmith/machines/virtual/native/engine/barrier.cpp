// Barriers of a block (PTX ISA, bar and barrier): arrivals are counted by thread, and exited threads count as arrived.
#include <algorithm>
#include <map>

#include "cluster.h"
#include "control.h"
#include "sends.h"

namespace vgpu {

namespace {

uint32_t needed(const Block& block, const Barrier& bar) { return bar.expected ? bar.expected : block.live_threads; }

void reduce(Warp& warp, const Inst& inst, const Barrier& bar, uint32_t total) {
  if (inst.flags == kRedPopc) lanes<uint32_t>(warp, inst.d, [&](int) { return bar.count_true; });
  if (inst.flags == kRedAnd) pred_out(warp, inst.d, bar.count_true == total ? ~0u : 0);
  if (inst.flags == kRedOr) pred_out(warp, inst.d, bar.count_true ? ~0u : 0);
}

void resume(Block& block, const Barrier::Waiter& waiter, const Barrier& bar) {
  Warp& warp = block.warps[size_t(waiter.warp)];
  for (int i = 0; i < warp.group_count; ++i) {
    Group& group = warp.groups[i];
    if (group.state != GroupState::AtBarrier || group.at != waiter.at || !(group.mask & waiter.mask)) continue;
    const Inst& inst = warp.grid->program->blocks[waiter.at].last;
    if (inst.flags >= kRedPopc) {
      uint32_t mask = warp.mask;
      set_mask(warp, group.mask);
      reduce(warp, inst, bar, bar.arrived);
      set_mask(warp, mask);
    }
    group.state = GroupState::Ready;
    ++group.at;
    break;
  }
}

// Whether lanes of one warp wait at different instructions.
bool warp_apart(const Barrier& bar) {
  std::map<int, uint32_t> places;
  for (const Barrier::Waiter& waiter : bar.waiters)
    if (waiter.waits && places.emplace(waiter.warp, waiter.at).first->second != waiter.at) return true;
  return false;
}

// Reports threads that wait at different instructions of one barrier. The instruction with the fewest threads is
// reported.
void note_mixture(Block& block, const Barrier& bar) {
  if (!bar.aligned || !block.grid->check) return;
  // With a thread count, warps with different roles may arrive from different instructions (producers and consumers).
  if (bar.expected && !warp_apart(bar)) return;
  std::map<uint32_t, uint32_t> threads;
  for (const Barrier::Waiter& waiter : bar.waiters)
    if (waiter.waits) threads[waiter.at] += uint32_t(__builtin_popcount(waiter.mask));
  if (threads.size() < 2) return;
  auto fewest = [](auto& x, auto& y) { return x.second < y.second; };
  uint32_t odd = std::min_element(threads.begin(), threads.end(), fewest)->first,
           usual = std::max_element(threads.begin(), threads.end(), fewest)->first;
  if (odd == usual) usual = threads.rbegin()->first;
  for (const Barrier::Waiter& waiter : bar.waiters) {
    if (waiter.at != odd) continue;
    Finding other;
    resolve_place(*block.grid->program, block.grid->program->blocks[usual].last.where, &other);
    report(block.warps[size_t(waiter.warp)], block.grid->program->blocks[odd].last, __builtin_ctz(waiter.mask),
           {"barrier", 0, 0, "", false}, [&] {
             return "waits at this barrier while other threads of the block wait at the one in line " +
                    std::to_string(other.line) + ": a barrier in diverged code";
           });
    return;
  }
}

void complete(Block& block, Barrier& bar) {
  note_mixture(block, bar);
  std::vector<Passed> passed;
  for (const Barrier::Waiter& waiter : bar.waiters) {
    auto known =
        std::find_if(passed.begin(), passed.end(), [&](const Passed& passed) { return passed.warp == waiter.warp; });
    if (known == passed.end()) passed.push_back({waiter.warp, waiter.clock, waiter.waits});
    else if (waiter.waits) *known = {waiter.warp, waiter.clock, true};
  }
  // Threads that have exited count as arrived.
  if (!bar.expected)
    for (const Warp& warp : block.warps)
      if (!warp.live) passed.push_back({warp.index, warp.clock, true});
  if (block.grid->check) synchronize_warps(block, passed);
  for (const Barrier::Waiter& waiter : bar.waiters)
    if (waiter.waits) resume(block, waiter, bar);
  bar = Barrier();
  ++block.grid->counters.barriers;
}

bool full(const Block& block, const Barrier& bar) { return bar.arrived && bar.arrived >= needed(block, bar); }

}  // namespace

void arrive_barrier(Warp& warp, const Inst& inst) {
  Block& block = *warp.block;
  int lane = __builtin_ctz(warp.mask);
  uint32_t number = in<uint32_t>(warp, inst.a)[lane];
  if (number >= 16) {
    report(warp, inst, lane, {"barrier", 0, 0, "", true},
           [&] { return "barrier number " + std::to_string(number) + "; there are 16, 0 to 15"; });
    return;
  }
  Barrier& bar = block.barriers[number];
  uint32_t count = inst.b == kNoLane ? 0 : in<uint32_t>(warp, inst.b)[lane];
  if (count % 32) {
    report(warp, inst, lane, {"barrier", 0, 0, "", true},
           [&] { return "a barrier for " + std::to_string(count) + " threads, which is not a multiple of 32"; });
    return;
  }
  if (bar.arrived && bar.expected != count && warp.grid->check)
    report(warp, inst, lane, {"barrier", 0, 0, "", false}, [&] {
      return "arrives at barrier " + std::to_string(number) + " for " + std::to_string(count) +
             " threads while others wait for " + std::to_string(bar.expected);
    });
  bar.expected = count;
  bar.aligned = !(inst.imm & kUnaligned);
  // PTX ISA, bar with a thread count: a warp counts with all 32 threads, because the count is a multiple of the warp
  // size.
  uint32_t threads = uint32_t(__builtin_popcount(warp.mask));
  if (count && warp.mask == warp.live) threads = 32;
  bar.arrived += threads;
  bool waits = inst.flags != kArrive;
  if (inst.flags >= kRedPopc)
    bar.count_true += uint32_t(__builtin_popcount(warp.mask & pred_in(warp, inst.c, inst.negated)));
  bar.waiters.push_back({warp.index, warp.mask, warp.at, waits, warp.clock});
  if (waits) park_group(warp, GroupState::AtBarrier, warp.at);
  else {
    ++warp.at;
    ++warp.clock;  // later accesses are not ordered by this arrival
    warp.segment = 0;
  }
  if (full(block, bar)) complete(block, bar);
}

void check_barriers(Block& block) {
  for (Barrier& bar : block.barriers)
    if (bar.arrived && !bar.expected && full(block, bar)) complete(block, bar);
}

void exit_threads(Warp& warp, uint32_t mask) {
  finish_sends(warp, mask);
  warp.live &= ~mask;
  warp.block->live_threads -= uint32_t(__builtin_popcount(mask));
  warp.mask = 0;
  if (warp.block->live_threads) check_barriers(*warp.block);
  leave_cluster(warp, mask);
}

bool report_stuck(Block& block) {
  for (Barrier& bar : block.barriers) {
    if (!bar.arrived) continue;
    const Barrier::Waiter& waiter = bar.waiters.front();
    Warp& warp = block.warps[size_t(waiter.warp)];
    const Inst& inst = block.grid->program->blocks[waiter.at].last;
    uint32_t want = needed(block, bar);
    report(warp, inst, __builtin_ctz(waiter.mask), {"barrier", 0, 0, "", true}, [&] {
      return "waits at a barrier that " + std::to_string(bar.arrived) + " of " + std::to_string(want) +
             " threads reach; the others wait elsewhere: the block never goes on";
    });
    block.grid->outcome.detail = "a block waits at a barrier for ever";
    return true;
  }
  return false;
}

}  // namespace vgpu
