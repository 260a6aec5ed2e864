// Clusters: blocks that run together, access each other's shared memory, and have a barrier of their own.
//
// An address of shared memory has 24 bits. Above them stands the rank of the owning block plus one, or 0 for the block
// that executes the access. `mapa` computes such addresses and every access to shared memory accepts them.
#pragma once

#include <memory>
#include <vector>

#include "grid.h"

namespace vgpu {

struct Cluster {
  std::vector<std::unique_ptr<Block>> blocks;  // by rank
  uint32_t arrived = 0;                        // live threads that wait at the barrier or have arrived without waiting
  uint64_t released = 0;                       // time of the last release when the barrier last completed
};

constexpr int kRankShift = 24;
constexpr Address kRankUnit = Address(1) << kRankShift;
constexpr Address kSharedOffset = kRankUnit - 1;

// Returns the block that owns an address of shared memory; nullptr if no block has this rank.
inline Block* owner_of(const Warp& warp, Address shared) {
  uint32_t rank = uint32_t(shared >> kRankShift);
  const auto& blocks = warp.block->cluster->blocks;
  return !rank ? warp.block : rank <= blocks.size() ? blocks[rank - 1].get() : nullptr;
}

// Returns the same offset in the shared memory of another block. Without a cluster the address stays plain.
inline Address in_block(const Warp& warp, Address shared, uint32_t rank) {
  return !warp.grid->clustered && !rank ? shared : Address(rank + 1) << kRankShift | (shared & kSharedOffset);
}

// Flags of barrier.cluster.arrive.
constexpr uint8_t kRelaxed = 1;

void arrive_cluster(Warp& warp, const Inst& inst);
bool wait_cluster(Warp& warp, const Inst& inst);  // returns false if the active group must wait
void leave_cluster(Warp& warp, uint32_t mask);    // threads that have exited count as arrived
bool resolve_deadlock(Cluster& cluster);          // no warp of the cluster can run: wakes one, or reports

}  // namespace vgpu
