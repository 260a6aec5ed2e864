// The barrier of a cluster: arrivals, waits, exits, and deadlocks.
#include "cluster.h"

#include <algorithm>

#include "control.h"
#include "races.h"

namespace vgpu {

namespace {

uint32_t live_threads(const Cluster& cluster) {
  uint32_t count = 0;
  for (auto& block : cluster.blocks) count += block->live_threads;
  return count;
}

template <class F>
void each_waiting(Cluster& cluster, F visit) {
  for (auto& block : cluster.blocks)
    for (Warp& warp : block->warps)
      for (int i = 0; i < warp.group_count; ++i) {
        Group& group = warp.groups[i];
        bool here = warp.grid->program->blocks[group.at].control == Control::ClusterWait;
        if (group.state == GroupState::AtBarrier && here) visit(warp, group);
      }
}

void complete_when_full(Cluster& cluster) {
  if (!cluster.arrived || cluster.arrived < live_threads(cluster)) return;
  each_waiting(cluster, [](Warp&, Group& group) { group.state = GroupState::Ready; });
  for (auto& block : cluster.blocks) {
    std::copy(block->cluster_arriving, block->cluster_arriving + 32, block->cluster_arrived);
    for (Warp& warp : block->warps) {
      warp.cluster_passes |= warp.cluster_pending;
      warp.cluster_pending = 0;
    }
  }
  cluster.arrived = 0;
  cluster.released = cluster.blocks[0]->grid->races->now();
  ++cluster.blocks[0]->grid->counters.barriers;
}

// Releases the accesses of the warp to the cluster. A relaxed arrival releases only what the last fence covers (PTX
// ISA, barrier.cluster).
void release_to_cluster(Warp& warp, bool relaxed) {
  uint32_t seen[32];
  std::copy(relaxed ? warp.fence_gpu : warp.seen, (relaxed ? warp.fence_gpu : warp.seen) + 32, seen);
  if (!relaxed) seen[warp.index] = warp.clock;
  Block& block = *warp.block;
  for (int i = 0; i < 32; ++i) block.cluster_arriving[i] = std::max(block.cluster_arriving[i], seen[i]);
  warp.grid->races->release(warp, (uint64_t(block.linear) + 1) * kWindowBytes + kSharedOffset, true, seen);
  begin_segment(warp);
}

void acquire_from_cluster(Warp& warp) {
  const Block& block = *warp.block;
  for (int i = 0; i < 32; ++i) warp.seen[i] = std::max(warp.seen[i], block.cluster_arrived[i]);
  warp.knowledge = std::max(warp.knowledge, block.cluster->released);
  begin_segment(warp);
}

void report_misuse(Warp& warp, const Inst& inst, uint32_t lanes_of_it, const char* sentence) {
  report(warp, inst, __builtin_ctz(lanes_of_it), {"barrier", 0, 0, "", true}, [&] { return std::string(sentence); });
}

}  // namespace

void arrive_cluster(Warp& warp, const Inst& inst) {
  if (uint32_t twice = warp.mask & (warp.cluster_pending | warp.cluster_passes))
    return report_misuse(warp, inst, twice, "arrives at the barrier of the cluster again without having waited for it");
  if (warp.grid->check && (!(inst.flags & kRelaxed) || warp.fenced_gpu))
    release_to_cluster(warp, inst.flags & kRelaxed);
  Cluster& cluster = *warp.block->cluster;
  warp.cluster_pending |= warp.mask;
  cluster.arrived += uint32_t(__builtin_popcount(warp.mask));
  complete_when_full(cluster);
}

bool wait_cluster(Warp& warp, const Inst& inst) {
  if (uint32_t idle = warp.mask & ~(warp.cluster_pending | warp.cluster_passes)) {
    report_misuse(warp, inst, idle, "waits at the barrier of the cluster without having arrived at it");
    return true;
  }
  if (warp.mask & warp.cluster_pending) {
    park_group(warp, GroupState::AtBarrier, warp.at);
    return false;
  }
  warp.cluster_passes &= ~warp.mask;
  if (warp.grid->check) acquire_from_cluster(warp);
  return true;
}

void leave_cluster(Warp& warp, uint32_t mask) {
  Cluster& cluster = *warp.block->cluster;
  cluster.arrived -= uint32_t(__builtin_popcount(mask & warp.cluster_pending));
  warp.cluster_pending &= ~mask;
  complete_when_full(cluster);
}

bool resolve_deadlock(Cluster& cluster) {
  for (auto& block : cluster.blocks)
    for (Warp& warp : block->warps)
      if (wake_group(warp)) return true;
  for (auto& block : cluster.blocks)
    if (report_stuck(*block)) return false;
  uint32_t live = live_threads(cluster);
  each_waiting(cluster, [&](Warp& warp, Group& group) {
    const Inst& inst = warp.grid->program->blocks[group.at].last;
    report(warp, inst, __builtin_ctz(group.mask), {"barrier", 0, 0, "", true}, [&] {
      return "waits for its cluster at a barrier that " + std::to_string(cluster.arrived) + " of " +
             std::to_string(live) + " threads reach; the others wait elsewhere: the cluster never goes on";
    });
    warp.grid->outcome.detail = "a cluster waits at a barrier for ever";
  });
  return false;
}

}  // namespace vgpu
