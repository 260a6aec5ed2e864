#include "cluster.h"

#include <algorithm>

#include "control.h"
#include "races.h"

namespace vgpu {

namespace {

uint32_t live_threads(const Cluster& c) {
  uint32_t n = 0;
  for (auto& b : c.blocks) n += b->live_threads;
  return n;
}

template <class F>
void each_waiting(Cluster& c, F f) {
  for (auto& b : c.blocks)
    for (Warp& w : b->warps)
      for (int i = 0; i < w.group_count; ++i) {
        Group& g = w.groups[i];
        bool here = w.grid->program->blocks[g.at].control == Control::ClusterWait;
        if (g.state == GroupState::AtBarrier && here) f(w, g);
      }
}

void complete_when_full(Cluster& c) {
  if (!c.arrived || c.arrived < live_threads(c)) return;
  each_waiting(c, [](Warp&, Group& g) { g.state = GroupState::Ready; });
  for (auto& b : c.blocks) {
    std::copy(b->cluster_arriving, b->cluster_arriving + 32, b->cluster_arrived);
    for (Warp& w : b->warps) {
      w.cluster_passes |= w.cluster_pending;
      w.cluster_pending = 0;
    }
  }
  c.arrived = 0;
  c.released = c.blocks[0]->grid->races->now();
  ++c.blocks[0]->grid->counters.barriers;
}

// What the warp has done until now is told to the cluster: by the arrival, or by the fence before a relaxed one.
void announce(Warp& w, bool relaxed) {
  uint32_t seen[32];
  std::copy(relaxed ? w.fence_gpu : w.seen, (relaxed ? w.fence_gpu : w.seen) + 32, seen);
  if (!relaxed) seen[w.index] = w.clock;
  Block& b = *w.block;
  for (int i = 0; i < 32; ++i) b.cluster_arriving[i] = std::max(b.cluster_arriving[i], seen[i]);
  w.grid->races->release(w, (uint64_t(b.linear) + 1) * kWindowBytes + kSharedOffset, true, seen);
  begin_stretch(w);
}

void learn(Warp& w) {
  const Block& b = *w.block;
  for (int i = 0; i < 32; ++i) w.seen[i] = std::max(w.seen[i], b.cluster_arrived[i]);
  w.knowledge = std::max(w.knowledge, b.cluster->released);
  begin_stretch(w);
}

void misuse(Warp& w, const Inst& inst, uint32_t lanes_of_it, const char* sentence) {
  report(w, inst, __builtin_ctz(lanes_of_it), {"barrier", 0, 0, "", true}, [&] { return std::string(sentence); });
}

}  // namespace

void arrive_cluster(Warp& w, const Inst& inst) {
  if (uint32_t twice = w.mask & (w.cluster_pending | w.cluster_passes))
    return misuse(w, inst, twice, "arrives at the barrier of the cluster again without having waited for it");
  if (w.grid->check && (!(inst.flags & kRelaxed) || w.fenced_gpu)) announce(w, inst.flags & kRelaxed);
  Cluster& c = *w.block->cluster;
  w.cluster_pending |= w.mask;
  c.arrived += uint32_t(__builtin_popcount(w.mask));
  complete_when_full(c);
}

bool wait_cluster(Warp& w, const Inst& inst) {
  if (uint32_t idle = w.mask & ~(w.cluster_pending | w.cluster_passes)) {
    misuse(w, inst, idle, "waits at the barrier of the cluster without having arrived at it");
    return true;
  }
  if (w.mask & w.cluster_pending) {
    park(w, GroupState::AtBarrier, w.at);
    return false;
  }
  w.cluster_passes &= ~w.mask;
  if (w.grid->check) learn(w);
  return true;
}

void leave_cluster(Warp& w, uint32_t mask) {
  Cluster& c = *w.block->cluster;
  c.arrived -= uint32_t(__builtin_popcount(mask & w.cluster_pending));
  w.cluster_pending &= ~mask;
  complete_when_full(c);
}

bool settle(Cluster& c) {
  for (auto& b : c.blocks)
    for (Warp& w : b->warps)
      if (wake(w)) return true;
  for (auto& b : c.blocks)
    if (report_stuck(*b)) return false;
  uint32_t live = live_threads(c);
  each_waiting(c, [&](Warp& w, Group& g) {
    const Inst& inst = w.grid->program->blocks[g.at].last;
    report(w, inst, __builtin_ctz(g.mask), {"barrier", 0, 0, "", true}, [&] {
      return "waits for its cluster at a barrier that " + std::to_string(c.arrived) + " of " + std::to_string(live) +
             " threads reach; the others wait elsewhere: the cluster never goes on";
    });
    w.grid->outcome.detail = "a cluster waits at a barrier for ever";
  });
  return false;
}

}  // namespace vgpu
