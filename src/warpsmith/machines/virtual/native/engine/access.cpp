// Address patterns of a warp, bounds and alignment, and the counters of sectors and shared memory wavefronts.
#include "access.h"

#include <algorithm>

#include "cluster.h"
#include "shadow.h"

namespace vgpu {

using ptx::Space;

ptx::Space generic_space(Address at) {
  if (at >= kGlobalWindow) return Space::Global;
  if (at - kSharedWindow < kWindowBytes) return Space::Shared;
  if (at - kLocalWindow < kWindowBytes) return Space::Local;
  if (at - kParamWindow < kWindowBytes) return Space::Param;
  return Space::Global;
}

void compute_addresses(const Warp& warp, const Inst& inst, Request* request) {
  Address* at = request->address;
  Address imm = Address(inst.imm);
  if (inst.flags & kNoBase) {
    std::fill(at, at + 32, imm);
    return;
  }
  if (inst.flags & kWide) {
    const uint64_t* a = in<uint64_t>(warp, inst.a);
#pragma GCC ivdep
    for (int i = 0; i < 32; ++i) at[i] = a[i] + imm;
  } else {
    const uint32_t* a = in<uint32_t>(warp, inst.a);
    uint32_t low = uint32_t(imm);
#pragma GCC ivdep
    for (int i = 0; i < 32; ++i) at[i] = uint32_t(a[i] + low);
  }
  if (warp.mask != UINT32_MAX) {
    Address first = at[__builtin_ctz(warp.mask)];
    uint32_t lanes_of_mask[32];
    expand(warp.mask, lanes_of_mask);
#pragma GCC ivdep
    for (int i = 0; i < 32; ++i) at[i] = lanes_of_mask[i] ? at[i] : first;
  }
}

namespace {

const char* space_name(Space space) {
  switch (space) {
    case Space::Shared: return "shared";
    case Space::Local: return "local";
    case Space::Param: return "param";
    case Space::Const: return "const";
    default: return "global";
  }
}

// Finds the distinct addresses with a hash table of 64 slots; a pattern has at most 32.
void find_unique(Memo& memo) {
  uint8_t slot[64];
  std::memset(slot, 0xff, sizeof slot);
  memo.unique_count = 0;
  memo.repeated = 0;
  each(memo.mask, [&](int lane) {
    uint64_t slot_index = (uint64_t(memo.delta[lane]) * 0x9e3779b97f4a7c15ull) >> 58;
    while (slot[slot_index] != 0xff && memo.delta[memo.unique[slot[slot_index]]] != memo.delta[lane])
      slot_index = (slot_index + 1) & 63;
    if (slot[slot_index] == 0xff) {
      slot[slot_index] = uint8_t(memo.unique_count);
      memo.unique[memo.unique_count++] = uint8_t(lane);
    } else memo.repeated |= 1u << slot[slot_index];
  });
  memo.duplicates = memo.repeated != 0;
}

// Counts the wavefronts of a shared memory request. There are 32 banks of 4 bytes; a request of 8 bytes a lane takes
// two half warps, one of 16 bytes four quarters. A bank serves one distinct word in each wavefront.
int count_wavefronts(const Memo& memo, uint32_t bytes, int64_t origin) {
  int parts = bytes > 8 ? 4 : bytes > 4 ? 2 : 1, total = 0;
  for (int part = 0; part < parts; ++part) {
    uint32_t lanes_of_part = parts == 1 ? UINT32_MAX : ((1u << (32 / parts)) - 1) << (part * 32 / parts);
    uint32_t words[32][4];
    uint8_t filled[32] = {};
    int worst = 0;
    for (int place = 0; place < memo.unique_count; ++place) {
      int lane = memo.unique[place];
      if (!(lanes_of_part >> lane & 1)) continue;
      for (uint32_t j = 0; j < std::max(bytes, 4u); j += 4) {
        uint32_t word = uint32_t(origin + memo.delta[lane] + j) >> 2, bank = word & 31;
        bool known = false;
        for (int i = 0; i < std::min<int>(filled[bank], 4); ++i) known |= words[bank][i] == word;
        if (known) continue;
        if (filled[bank] < 4) words[bank][filled[bank]] = word;
        ++filled[bank];
        worst = std::max<int>(worst, filled[bank]);
      }
    }
    total += worst;
  }
  return std::max(total, 1);
}

uint8_t count_sectors(const Memo& memo, Address first, uint32_t bytes) {
  uint64_t seen[64];
  int count = 0;
  for (int place = 0; place < memo.unique_count; ++place) {
    Address at = first + Address(memo.delta[memo.unique[place]]);
    for (Address sector = at >> 5; sector <= (at + bytes - 1) >> 5; ++sector) {
      bool known = false;
      for (int i = count; i-- > 0 && !known;) known = seen[i] == sector;
      if (!known && count < 64) seen[count++] = sector;
    }
  }
  return uint8_t(count);
}

void analyze_pattern(Memo& memo, const Request& request, uint32_t mask) {
  memo.mask = mask;
  memo.first = __builtin_ctz(mask);
  Address base = request.address[memo.first];
  bool contiguous = mask == UINT32_MAX, uniform = true;
  uint64_t bits = 0;
  memo.low = 0;
  memo.high = 0;
  for (int i = 0; i < 32; ++i) {
    int64_t delta = int64_t(request.address[i] - base);
    memo.delta[i] = delta;
    contiguous &= delta == int64_t(request.bytes) * i;
    uniform &= delta == 0;
    memo.low = std::min(memo.low, delta);
    memo.high = std::max(memo.high, delta);
    bits |= uint64_t(delta);
  }
  memo.high += request.bytes;
  memo.aligned = (bits & (request.bytes - 1)) == 0;
  memo.shape = contiguous ? Shape::Contiguous : uniform ? Shape::Uniform : Shape::Scattered;
  memo.wavefronts = 0;
  std::memset(memo.sectors, 0, sizeof memo.sectors);
  if (contiguous) {
    for (int i = 0; i < 32; ++i) memo.unique[i] = uint8_t(i);
    memo.unique_count = 32;
    memo.repeated = 0;
    memo.duplicates = false;
  } else find_unique(memo);
}

bool matches_pattern(const Memo& memo, const Request& request, uint32_t mask) {
  if (memo.mask != mask) return false;
  Address base = request.address[memo.first];
  uint64_t differs = 0;
  for (int i = 0; i < 32; ++i) differs |= request.address[i] - base - uint64_t(memo.delta[i]);
  return differs == 0;
}

// The range is given as offsets; `to` is exclusive.
void mark_sectors(std::vector<uint64_t>& map, Address from, Address to) {
  size_t first = from >> 5, last = (to - 1) >> 5;
  if (first >> 6 == last >> 6) {
    map[first >> 6] |= (last - first == 63 ? ~uint64_t(0) : ((uint64_t(1) << (last - first + 1)) - 1)) << (first & 63);
    return;
  }
  for (; first <= last; ++first) map[first >> 6] |= uint64_t(1) << (first & 63);
}

void count_global(Grid& grid, Memo& memo, const Request& request, Address first, Allocation* allocation) {
  uint8_t& known = memo.sectors[first & 31];
  if (!known) known = count_sectors(memo, first, request.bytes);
  uint64_t bytes = uint64_t(__builtin_popcount(memo.mask)) * request.bytes;
  Counters& counters = grid.counters;
  if (request.write) {
    counters.global_store_sectors += known;
    ++counters.global_store_requests;
    counters.global_store_bytes += bytes;
  } else {
    counters.global_load_sectors += known;
    ++counters.global_load_requests;
    counters.global_load_bytes += bytes;
  }
  if (!allocation->touched) grid.memory->touch(allocation);
  auto& map = request.write ? allocation->sectors_written : allocation->sectors_read;
  Address origin = first - allocation->start;
  if (memo.shape != Shape::Scattered) return mark_sectors(map, origin, origin + Address(memo.high));
  for (int place = 0; place < memo.unique_count; ++place) {
    Address at = origin + Address(memo.delta[memo.unique[place]]);
    mark_sectors(map, at, at + request.bytes);
  }
}

std::string describe_location(const Memory& memory, Address at, uint32_t bytes) {
  Allocation* allocation = memory.nearest(at);
  if (!allocation || at >= allocation->end() + (1 << 16))
    return at < 4096 ? "near the null pointer" : "in no allocation";
  std::string name = allocation->label.empty() ? "an allocation" : allocation->label;
  std::string size = " of " + std::to_string(allocation->bytes) + " bytes";
  if (!allocation->live) return "inside " + name + size + ", which has been freed";
  if (at >= allocation->end()) return std::to_string(at - allocation->end()) + " bytes past the end of " + name + size;
  return std::to_string(at + bytes - allocation->end()) + " bytes over the end of " + name + size;
}

void report_out_of_bounds(Warp& warp, const Inst& inst, int lane, Space space, const Request& request, Address at,
                          const std::function<std::string()>& where) {
  report(warp, inst, lane, {"out_of_bounds", at, request.bytes, space_name(space), true}, [&] {
    return std::string(request.write ? "writes " : "reads ") + std::to_string(request.bytes) + " bytes of " +
           space_name(space) + " memory at " + hex(at) + ", " + where();
  });
}

void report_misaligned(Warp& warp, const Inst& inst, int lane, Space space, const Request& request, Address at) {
  report(warp, inst, lane, {"misaligned", at, request.bytes, space_name(space), true}, [&] {
    return std::string(request.write ? "writes " : "reads ") + std::to_string(request.bytes) + " bytes of " +
           space_name(space) + " memory at " + hex(at) + ", which is not a multiple of " +
           std::to_string(request.bytes);
  });
}

// Returns the lanes whose access is aligned and inside its allocation; reports the others.
uint32_t valid_lanes(Warp& warp, const Inst& inst, Space space, const Request& request, uint32_t mask, size_t limit) {
  uint32_t good = 0;
  Memory& memory = *warp.grid->memory;
  each(mask, [&](int lane) {
    Address at = request.address[lane];
    if (space == Space::Global || space == Space::Const) {
      Allocation* allocation = memory.holder(at, request.bytes);
      if (!allocation || allocation->of_engine)
        return report_out_of_bounds(warp, inst, lane, space, request, at,
                                    [&] { return describe_location(memory, at, request.bytes); });
      if (allocation->read_only && request.write)
        return report_out_of_bounds(warp, inst, lane, space, request, at,
                                    [&] { return "inside " + allocation->label + ", which is constant"; });
    } else if (at > limit || request.bytes > limit - at) {
      return report_out_of_bounds(warp, inst, lane, space, request, at,
                                  [&] { return "beyond the " + std::to_string(limit) + " bytes there are"; });
    }
    if (at & (request.bytes - 1)) return report_misaligned(warp, inst, lane, space, request, at);
    good |= 1u << lane;
  });
  return good;
}

bool inside_allocation(const Memory& memory, Memo& memo, Address low, Address high, bool write) {
  if (memo.generation == memory.generation() && memo.owner && low >= memo.owner->start && high <= memo.owner->end())
    return !(write && memo.owner->read_only);
  Allocation* allocation = memory.holder(low, high - low);
  if (!allocation || allocation->of_engine) return false;
  memo.owner = allocation;
  memo.generation = memory.generation();
  return !(write && allocation->read_only);
}

// Handles a request that spans several allocations: shadow and counters take one allocation at a time.
void check_piecewise(Warp& warp, const Inst& inst, const Request& request, uint32_t mask, Access* access) {
  Grid& grid = *warp.grid;
  while (mask) {
    Allocation* allocation = grid.memory->find(request.address[__builtin_ctz(mask)]);
    uint32_t part = 0;
    each(mask, [&](int lane) {
      if (grid.memory->find(request.address[lane]) == allocation) part |= 1u << lane;
    });
    Request piece = request;
    for (int i = 0; i < 32; ++i)
      if (!(part >> i & 1)) piece.address[i] = request.address[__builtin_ctz(part)];
    Memo memo;
    analyze_pattern(memo, piece, part);
    Address first = piece.address[memo.first];
    count_global(grid, memo, piece, first, allocation);
    if (grid.check) {
      View view = global_view(warp, allocation, first);
      if (request.write) shadow_write(warp, inst, view, memo, request.bytes, request.strength, access);
      else shadow_read(warp, inst, view, memo, request.bytes, request.strength);
    }
    mask &= ~part;
  }
}

bool resolve_global(Warp& warp, const Inst& inst, Space space, const Request& request, Access* access) {
  Grid& grid = *warp.grid;
  Memo& memo = *inst.memo;
  if (!matches_pattern(memo, request, access->mask)) analyze_pattern(memo, request, access->mask);
  Address first = request.address[memo.first];
  access->first = first;
  access->shape = memo.shape;
  access->delta = memo.delta;
  access->base = grid.memory->arena() + (first - kGlobalWindow);
  if (__builtin_expect(!inside_allocation(*grid.memory, memo, first + Address(memo.low), first + Address(memo.high),
                                          request.write) ||
                           !memo.aligned || (first & (request.bytes - 1)),
                       0)) {
    access->mask = valid_lanes(warp, inst, space, request, access->mask, 0);
    access->shape = Shape::Scattered;
    if (access->mask) check_piecewise(warp, inst, request, access->mask, access);
    return access->mask != 0;
  }
  count_global(grid, memo, request, first, memo.owner);
  if (grid.check) {
    View view = global_view(warp, memo.owner, first);
    if (request.write) shadow_write(warp, inst, view, memo, request.bytes, request.strength, access);
    else shadow_read(warp, inst, view, memo, request.bytes, request.strength);
  }
  return true;
}

// Handles the lanes of `part`, which name one block of the cluster. Returns those that may access its memory.
uint32_t resolve_member(Warp& warp, const Inst& inst, const Request& request, uint32_t part, Access* access) {
  Grid& grid = *warp.grid;
  int lane = __builtin_ctz(part);
  Block* owner = owner_of(warp, request.address[lane]);
  if (!owner || !owner->live_threads) {
    std::string rank = std::to_string((request.address[lane] >> kRankShift) - 1);
    report_out_of_bounds(warp, inst, lane, Space::Shared, request, request.address[lane], [&] {
      return owner ? "in block " + rank + " of the cluster, which has exited"
                   : "in block " + rank + " of a cluster of " + std::to_string(warp.block->cluster->blocks.size());
    });
    return 0;
  }
  Request piece = request;
  for (int i = 0; i < 32; ++i) piece.address[i] = request.address[part >> i & 1 ? i : lane] & kSharedOffset;
  uint32_t good = valid_lanes(warp, inst, Space::Shared, piece, part, grid.shared_bytes);
  each(good, [&](int i) {
    access->storage[i] = owner->shared.data() - warp.block->shared.data() + int64_t(piece.address[i]);
  });
  ++grid.counters.shared_requests;
  ++grid.counters.shared_wavefronts;
  if (!grid.check || !good) return good;
  for (int i = 0; i < 32; ++i)
    if (!(good >> i & 1)) piece.address[i] = piece.address[__builtin_ctz(good)];
  Memo memo;
  analyze_pattern(memo, piece, good);
  View view = shared_view(warp, *owner, int64_t(piece.address[memo.first]));
  if (request.write) shadow_write(warp, inst, view, memo, request.bytes, request.strength, access);
  else shadow_read(warp, inst, view, memo, request.bytes, request.strength);
  return good;
}

// Handles a request that names shared memory of other blocks of the cluster.
bool resolve_cluster(Warp& warp, const Inst& inst, const Request& request, Access* access) {
  access->shape = Shape::Scattered;
  access->base = warp.block->shared.data();
  access->delta = access->storage;
  uint32_t good = 0;
  for (uint32_t left = access->mask; left;) {
    Address rank = request.address[__builtin_ctz(left)] >> kRankShift;
    uint32_t part = 0;
    each(left, [&](int lane) { part |= uint32_t(request.address[lane] >> kRankShift == rank) << lane; });
    good |= resolve_member(warp, inst, request, part, access);
    left &= ~part;
  }
  access->mask = good;
  return good != 0;
}

bool names_other_block(const Request& request, uint32_t mask) {
  bool out = false;
  each(mask,
       [&](int lane) { out |= request.address[lane] >= kRankUnit && request.address[lane] >> kRankShift <= 0xff; });
  return out;
}

bool resolve_shared(Warp& warp, const Inst& inst, const Request& request, Access* access) {
  Grid& grid = *warp.grid;
  Memo& memo = *inst.memo;
  if (!matches_pattern(memo, request, access->mask)) analyze_pattern(memo, request, access->mask);
  int64_t first = int64_t(request.address[memo.first]);
  access->first = Address(first);
  access->shape = memo.shape;
  access->delta = memo.delta;
  access->base = warp.block->shared.data() + first;
  bool bad = first + memo.low < 0 || first + memo.high > int64_t(grid.shared_bytes) || !memo.aligned ||
             (first & int64_t(request.bytes - 1));
  if (__builtin_expect(bad, 0)) {
    if (grid.clustered && names_other_block(request, access->mask)) return resolve_cluster(warp, inst, request, access);
    access->mask = valid_lanes(warp, inst, Space::Shared, request, access->mask, grid.shared_bytes);
    access->shape = Shape::Scattered;
    return access->mask != 0;
  }
  if (!memo.wavefronts) memo.wavefronts = count_wavefronts(memo, request.bytes, first);
  int least = request.bytes > 8 ? 4 : request.bytes > 4 ? 2 : 1;
  grid.counters.shared_wavefronts += uint64_t(memo.wavefronts);
  grid.counters.bank_conflicts += uint64_t(std::max(0, memo.wavefronts - least));
  ++grid.counters.shared_requests;
  if (grid.check) {
    View view = shared_view(warp, *warp.block, first);
    if (request.write) shadow_write(warp, inst, view, memo, request.bytes, request.strength, access);
    else shadow_read(warp, inst, view, memo, request.bytes, request.strength);
  }
  return true;
}

bool resolve_local(Warp& warp, const Inst& inst, const Request& request, Access* access) {
  uint32_t bad = 0;
  each(access->mask, [&](int lane) {
    bad |= uint32_t(request.address[lane] + request.bytes > warp.local_stride ||
                    request.address[lane] > warp.local_stride || (request.address[lane] & (request.bytes - 1)))
           << lane;
    access->storage[lane] = int64_t(warp.local_stride) * lane + int64_t(request.address[lane]);
  });
  if (bad) access->mask = valid_lanes(warp, inst, Space::Local, request, access->mask, warp.local_stride);
  access->base = warp.local;
  access->delta = access->storage;
  access->shape = Shape::Scattered;
  warp.grid->counters.local_bytes += uint64_t(__builtin_popcount(access->mask)) * request.bytes;
  return access->mask != 0;
}

bool resolve_param(Warp& warp, const Inst& inst, const Request& request, Access* access) {
  Grid& grid = *warp.grid;
  access->mask = valid_lanes(warp, inst, Space::Param, request, access->mask, grid.parameter_bytes);
  each(access->mask, [&](int lane) { access->storage[lane] = int64_t(request.address[lane]); });
  access->base = const_cast<uint8_t*>(grid.parameters);
  access->delta = access->storage;
  access->shape = Shape::Scattered;
  return access->mask != 0;
}

}  // namespace

bool resolve(Warp& warp, const Inst& inst, Space space, const Request& request, Access* access) {
  access->suspects = 0;
  access->space = space;
  switch (space) {
    case Space::Shared: return resolve_shared(warp, inst, request, access);
    case Space::Local: return resolve_local(warp, inst, request, access);
    case Space::Param: return resolve_param(warp, inst, request, access);
    default: return resolve_global(warp, inst, space, request, access);
  }
}

void report_write_race(Warp& warp, const Inst& inst, const Access& access, const Request& request,
                       uint32_t lanes_that_differ) {
  int lane = __builtin_ctz(lanes_that_differ);
  bool clocks = access.space == Space::Shared && !warp.grid->clustered;
  report(warp, inst, lane, {"race", request.address[lane], request.bytes, space_name(access.space), false}, [&] {
    std::string other = access.prior
                            ? name_other_access(warp, clocks, access.prior) + (access.prior_read ? " read" : " wrote")
                            : std::string("another lane of this warp writes too");
    return std::string("writes ") + space_name(access.space) + " memory at " + hex(request.address[lane]) + " that " +
           other + " with nothing that orders the two";
  });
}

}  // namespace vgpu
