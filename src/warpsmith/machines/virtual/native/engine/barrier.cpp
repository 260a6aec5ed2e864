// Barriers of a block: arrivals by thread, exited threads do not count, and what a stuck block means.
#include <algorithm>
#include <map>

#include "cluster.h"
#include "control.h"
#include "sends.h"

namespace vgpu {

namespace {

uint32_t needed(const Block& b, const Barrier& bar) { return bar.expected ? bar.expected : b.live_threads; }

void reduce(Warp& w, const Inst& inst, const Barrier& bar, uint32_t total) {
  if (inst.flags == kRedPopc) lanes<uint32_t>(w, inst.d, [&](int) { return bar.count_true; });
  if (inst.flags == kRedAnd) pred_out(w, inst.d, bar.count_true == total ? ~0u : 0);
  if (inst.flags == kRedOr) pred_out(w, inst.d, bar.count_true ? ~0u : 0);
}

void resume(Block& b, const Barrier::Waiter& waiter, const Barrier& bar) {
  Warp& w = b.warps[size_t(waiter.warp)];
  for (int i = 0; i < w.group_count; ++i) {
    Group& g = w.groups[i];
    if (g.state != GroupState::AtBarrier || g.at != waiter.at || !(g.mask & waiter.mask)) continue;
    const Inst& inst = w.grid->program->blocks[waiter.at].last;
    if (inst.flags >= kRedPopc) {
      uint32_t mask = w.mask;
      set_mask(w, g.mask);
      reduce(w, inst, bar, bar.arrived);
      set_mask(w, mask);
    }
    g.state = GroupState::Ready;
    ++g.at;
    break;
  }
}

// Whether lanes of one warp wait at different places.
bool warp_apart(const Barrier& bar) {
  std::map<int, uint32_t> places;
  for (const Barrier::Waiter& waiter : bar.waiters)
    if (waiter.waits && places.emplace(waiter.warp, waiter.at).first->second != waiter.at) return true;
  return false;
}

// Threads that wait at different instructions of one barrier: the place with the fewest threads is the odd one.
void note_mixture(Block& b, const Barrier& bar) {
  if (!bar.aligned || !b.grid->check) return;
  // A barrier with a count is where warps with different work meet, each coming from its own place.
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
    resolve_place(*b.grid->program, b.grid->program->blocks[usual].last.where, &other);
    report(b.warps[size_t(waiter.warp)], b.grid->program->blocks[odd].last, __builtin_ctz(waiter.mask),
           {"barrier", 0, 0, "", false}, [&] {
             return "waits at this barrier while other threads of the block wait at the one in line " +
                    std::to_string(other.line) + ": a barrier in diverged code";
           });
    return;
  }
}

void complete(Block& b, Barrier& bar) {
  note_mixture(b, bar);
  std::vector<Passed> passed;
  for (const Barrier::Waiter& waiter : bar.waiters) {
    auto known = std::find_if(passed.begin(), passed.end(), [&](const Passed& p) { return p.warp == waiter.warp; });
    if (known == passed.end()) passed.push_back({waiter.warp, waiter.clock, waiter.waits});
    else if (waiter.waits) *known = {waiter.warp, waiter.clock, true};
  }
  // Threads that have exited count as arrived.
  if (!bar.expected)
    for (const Warp& w : b.warps)
      if (!w.live) passed.push_back({w.index, w.clock, true});
  if (b.grid->check) synchronize_warps(b, passed);
  for (const Barrier::Waiter& waiter : bar.waiters)
    if (waiter.waits) resume(b, waiter, bar);
  bar = Barrier();
  ++b.grid->counters.barriers;
}

bool full(const Block& b, const Barrier& bar) { return bar.arrived && bar.arrived >= needed(b, bar); }

}  // namespace

void arrive(Warp& w, const Inst& inst) {
  Block& b = *w.block;
  int lane = __builtin_ctz(w.mask);
  uint32_t number = in<uint32_t>(w, inst.a)[lane];
  if (number >= 16) {
    report(w, inst, lane, {"barrier", 0, 0, "", true},
           [&] { return "barrier number " + std::to_string(number) + "; there are 16, 0 to 15"; });
    return;
  }
  Barrier& bar = b.barriers[number];
  uint32_t count = inst.b == kNoLane ? 0 : in<uint32_t>(w, inst.b)[lane];
  if (count % 32) {
    report(w, inst, lane, {"barrier", 0, 0, "", true},
           [&] { return "a barrier for " + std::to_string(count) + " threads, which is not a multiple of 32"; });
    return;
  }
  if (bar.arrived && bar.expected != count && w.grid->check)
    report(w, inst, lane, {"barrier", 0, 0, "", false}, [&] {
      return "arrives at barrier " + std::to_string(number) + " for " + std::to_string(count) +
             " threads while others wait for " + std::to_string(bar.expected);
    });
  bar.expected = count;
  bar.aligned = !(inst.imm & kUnaligned);
  // A warp counts as a whole where the barrier names a number of threads, as hardware rounds it up.
  uint32_t threads = uint32_t(__builtin_popcount(w.mask));
  if (count && w.mask == w.live) threads = 32;
  bar.arrived += threads;
  bool waits = inst.flags != kArrive;
  if (inst.flags >= kRedPopc) bar.count_true += uint32_t(__builtin_popcount(w.mask & pred_in(w, inst.c, inst.negated)));
  bar.waiters.push_back({w.index, w.mask, w.at, waits, w.clock});
  if (waits) park(w, GroupState::AtBarrier, w.at);
  else {
    ++w.at;
    ++w.clock;  // what follows is not part of what was announced
    w.segment = 0;
  }
  if (full(b, bar)) complete(b, bar);
}

void check_barriers(Block& b) {
  for (Barrier& bar : b.barriers)
    if (bar.arrived && !bar.expected && full(b, bar)) complete(b, bar);
}

void exit_threads(Warp& w, uint32_t mask) {
  finish_sends(w, mask);
  w.live &= ~mask;
  w.block->live_threads -= uint32_t(__builtin_popcount(mask));
  w.mask = 0;
  if (w.block->live_threads) check_barriers(*w.block);
  leave_cluster(w, mask);
}

bool report_stuck(Block& b) {
  for (Barrier& bar : b.barriers) {
    if (!bar.arrived) continue;
    const Barrier::Waiter& waiter = bar.waiters.front();
    Warp& w = b.warps[size_t(waiter.warp)];
    const Inst& inst = b.grid->program->blocks[waiter.at].last;
    uint32_t want = needed(b, bar);
    report(w, inst, __builtin_ctz(waiter.mask), {"barrier", 0, 0, "", true}, [&] {
      return "waits at a barrier that " + std::to_string(bar.arrived) + " of " + std::to_string(want) +
             " threads reach; the others wait elsewhere: the block never goes on";
    });
    b.grid->outcome.detail = "a block waits at a barrier for ever";
    return true;
  }
  return false;
}

}  // namespace vgpu
