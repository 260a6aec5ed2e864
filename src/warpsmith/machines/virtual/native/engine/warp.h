// State of a running warp: registers of 32 lanes, one active group of lanes and the waiting groups.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine.h"
#include "memory.h"
#include "program.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace vgpu {

struct Grid;
struct Block;
struct Cluster;

enum class GroupState : uint8_t { Ready, AtBarrier, AtWarpSync };

struct Group {
  uint32_t at = 0;  // basic block
  uint32_t mask = 0;
  GroupState state = GroupState::Ready;
  uint64_t stamp = 0;  // when it last ran
};

// Bytes that cp.async has read from global memory and not yet written to shared memory.
struct PendingCopy {
  uint32_t to = 0;
  uint8_t bytes = 0, lane = 0;
  bool committed = false;
  uint32_t group = 0;
  uint8_t data[16];
};

// A copy from shared to global memory whose group has not been waited for.
struct PendingSend {
  struct Part {
    uint8_t* to;
    const uint8_t* from;
    Address address;  // of `from`
    uint8_t bytes;
    uint8_t was[16] = {};
  };
  const Inst* inst = nullptr;
  uint8_t lane = 0;
  uint32_t group = 0;
  std::vector<Part> parts;
};

// A wgmma whose group has not been waited for, with its matrix descriptors.
struct PendingProduct {
  const Inst* inst = nullptr;
  uint64_t a = 0, b = 0;
  uint32_t group = 0;
};

struct Warp {
  uint8_t* regs = nullptr;
  const uint8_t* consts = nullptr;  // one past the end: constants have offsets below zero
  uint32_t* preds = nullptr;
  uint32_t mask = 0;
  uint32_t live = 0;
  bool partial = false;
  uint32_t carry = 0;
  Grid* grid = nullptr;
  Block* block = nullptr;
  uint32_t at = 0, others = UINT32_MAX;
  int64_t quantum = 0;
  int index = 0;
  uint32_t exist = 0;
  alignas(64) uint32_t lanes[32];

  Group groups[32];
  int group_count = 0;
  uint64_t executed = 0;
  bool without_missing = false;  // the next warp-wide instruction runs without the missing lanes

  uint8_t* local = nullptr;
  size_t local_stride = 0;
  std::vector<uint32_t> stack;  // return blocks, [depth][lane]
  uint16_t depth[32] = {};

  // State of the race checker: the clock of this warp, the clocks of other warps that are ordered before it, and the
  // releases that it has acquired.
  uint32_t clock = 1;
  uint32_t seen[32];
  uint32_t shared_safe = 0;  // shared cells below this value are ordered before this warp
  uint64_t knowledge = 0;
  uint32_t segment = 0;
  uint32_t cached_stamp = 0;  // result of the last lookup of a segment of another warp
  bool cached_ordered = false, cached_own_read = false;
  uint32_t fence_gpu[32], fence_cta[32];
  bool fenced_gpu = false, fenced_cta = false;
  bool released = false;
  uint32_t cluster_pending = 0, cluster_passes = 0;  // lanes that have arrived; lanes that may continue
  int spins = 0;                                     // strong loads in this turn

  std::vector<PendingCopy> copies;
  uint32_t copy_group[32];
  std::vector<PendingSend> sends;
  uint32_t send_group[32];
  std::vector<PendingProduct> products;
  uint32_t product_group = 0;

  const uint32_t* tid[3];
};

inline void expand(uint32_t mask, uint32_t* out) {
#pragma GCC ivdep
  for (uint32_t i = 0; i < 32; ++i) out[i] = 0u - ((mask >> i) & 1u);
}

inline uint32_t pack(const uint8_t* bits) {
#if defined(__AVX2__)
  __m256i vector = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bits));
  return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(vector, 7)));
#else
  uint32_t m = 0;
  for (int i = 0; i < 32; ++i) m |= uint32_t(bits[i] & 1) << i;
  return m;
#endif
}

inline void set_mask(Warp& warp, uint32_t mask) {
  warp.mask = mask;
  warp.partial = mask != warp.live;
  if (warp.partial) expand(mask, warp.lanes);
}

template <class T>
inline const T* in(const Warp& warp, int32_t offset) {
  return reinterpret_cast<const T*>((offset < 0 ? warp.consts : warp.regs) + offset);
}

template <class T>
inline T* out(Warp& warp, int32_t offset) {
  return reinterpret_cast<T*>(warp.regs + offset);
}

inline uint32_t pred_in(const Warp& warp, int32_t index, bool negated) {
  return negated ? ~warp.preds[index] : warp.preds[index];
}
inline void pred_out(Warp& warp, int32_t index, uint32_t bits) {
  if (index < 2) return;  // 0 and 1 are the constants false and true; 0 is the sink
  warp.preds[index] = (warp.preds[index] & ~warp.mask) | (bits & warp.mask);
}

// d[i] = value_of(i) for the active lanes. Lanes that have exited may be overwritten.
template <class D, class F>
inline void lanes(Warp& warp, int32_t d_offset, F value_of) {
  D* __restrict d = out<D>(warp, d_offset);
  if (!warp.partial) {
#pragma GCC ivdep
    for (int i = 0; i < 32; ++i) d[i] = value_of(i);
  } else {
    const uint32_t* selected = warp.lanes;
#pragma GCC ivdep
    for (int i = 0; i < 32; ++i) {
      D result = value_of(i);
      d[i] = selected[i] ? result : d[i];
    }
  }
}

template <class F>
inline void each(uint32_t mask, F visit) {
  for (uint32_t left = mask; left; left &= left - 1) visit(__builtin_ctz(left));
}

struct Barrier {
  uint32_t arrived = 0;   // threads that have arrived, waiting or not
  uint32_t expected = 0;  // 0: every live thread of the block
  int red = 0;            // 0 none, 1 popc, 2 and, 3 or
  uint32_t count_true = 0;
  uint32_t first_at = UINT32_MAX;  // the block where the first arrived
  bool aligned = true;
  struct Waiter {
    int warp;
    uint32_t mask;
    uint32_t at;
    bool waits;
    uint32_t clock;  // of the warp when it arrived
  };
  std::vector<Waiter> waiters;
};

// The clocks that a warp knew when it released, in the order of time. A list that reached its limit is cleared, and the
// checker then reports no race of its warps.
struct Release {
  uint64_t time;
  uint32_t seen[32];
};

struct ReleaseList {
  std::vector<Release> entries;
  bool forgot = false;
  void add(const Release& release) {
    if (entries.size() >= 65536) {
      entries.clear();
      forgot = true;
    }
    entries.push_back(release);
  }
  void clear() {
    entries.clear();
    forgot = false;
  }
};

struct Block {
  Grid* grid = nullptr;
  Cluster* cluster = nullptr;
  uint32_t linear = 0;
  Dim3 id;
  int warp_count = 0;
  uint32_t live_threads = 0;
  std::vector<Warp> warps;
  std::vector<uint8_t> register_storage, predicate_storage_bytes;
  std::vector<uint32_t> predicate_storage;
  std::vector<uint8_t> local_storage;
  std::vector<uint8_t> shared;
  Cells cells;  // shadow of shared memory
  Barrier barriers[16];
  ReleaseList cta_releases;
  // Clocks released to the cluster's barrier: in this phase, and in the last complete phase.
  uint32_t cluster_arriving[32], cluster_arrived[32];
  uint32_t clock_base = 0;  // clocks in shared cells are relative to this value
  int passes = 0;
};

}  // namespace vgpu
