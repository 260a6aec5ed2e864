// A cluster: blocks that run together, may touch one another's shared memory, and meet at one barrier of their own.
//
// An address of shared memory has 24 bits; above them stands the rank of the block it lies in, counted from one, or
// nothing for the block that uses it. This is what mapa makes and what every access to shared memory understands.
#pragma once

#include <memory>
#include <vector>

#include "grid.h"

namespace vgpu {

struct Cluster {
  std::vector<std::unique_ptr<Block>> blocks;  // by rank
  uint32_t arrived = 0;                        // live threads that have arrived and that nobody let through
  uint64_t released = 0;                       // the time of the last release when the barrier was last complete
};

constexpr int kRankShift = 24;
constexpr Address kRankUnit = Address(1) << kRankShift;
constexpr Address kSharedOffset = kRankUnit - 1;

// The block whose shared memory an address names; nullptr when there is none of that rank.
inline Block* owner_of(const Warp& warp, Address shared) {
  uint32_t rank = uint32_t(shared >> kRankShift);
  const auto& blocks = warp.block->cluster->blocks;
  return !rank ? warp.block : rank <= blocks.size() ? blocks[rank - 1].get() : nullptr;
}

// The same place in the shared memory of a block of the cluster. Alone, a block keeps its plain addresses.
inline Address in_block(const Warp& warp, Address shared, uint32_t rank) {
  return !warp.grid->clustered && !rank ? shared : Address(rank + 1) << kRankShift | (shared & kSharedOffset);
}

// flags of barrier.cluster.arrive
constexpr uint8_t kRelaxed = 1;

void arrive_cluster(Warp& warp, const Inst& inst);
bool wait_cluster(Warp& warp, const Inst& inst);  // false when the active group waits
void leave_cluster(Warp& warp, uint32_t mask);    // threads that have exited
bool settle(Cluster& cluster);                    // nobody can run: as of a block

}  // namespace vgpu
