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

void addresses(const Warp& w, const Inst& inst, Request* r) {
  Address* at = r->address;
  Address imm = Address(inst.imm);
  if (inst.flags & kNoBase) {
    std::fill(at, at + 32, imm);
    return;
  }
  if (inst.flags & kWide) {
    const uint64_t* a = in<uint64_t>(w, inst.a);
#pragma GCC ivdep
    for (int i = 0; i < 32; ++i) at[i] = a[i] + imm;
  } else {
    const uint32_t* a = in<uint32_t>(w, inst.a);
    uint32_t low = uint32_t(imm);
#pragma GCC ivdep
    for (int i = 0; i < 32; ++i) at[i] = uint32_t(a[i] + low);
  }
  if (w.mask != UINT32_MAX) {
    Address first = at[__builtin_ctz(w.mask)];
    uint32_t m[32];
    expand(w.mask, m);
#pragma GCC ivdep
    for (int i = 0; i < 32; ++i) at[i] = m[i] ? at[i] : first;
  }
}

namespace {

const char* space_name(Space s) {
  switch (s) {
    case Space::Shared: return "shared";
    case Space::Local: return "local";
    case Space::Param: return "param";
    case Space::Const: return "const";
    default: return "global";
  }
}

// Distinct addresses by a table of 64 places: patterns have at most 32.
void find_unique(Memo& m) {
  uint8_t slot[64];
  std::memset(slot, 0xff, sizeof slot);
  m.unique_count = 0;
  m.repeated = 0;
  each(m.mask, [&](int lane) {
    uint64_t h = (uint64_t(m.delta[lane]) * 0x9e3779b97f4a7c15ull) >> 58;
    while (slot[h] != 0xff && m.delta[m.unique[slot[h]]] != m.delta[lane]) h = (h + 1) & 63;
    if (slot[h] == 0xff) {
      slot[h] = uint8_t(m.unique_count);
      m.unique[m.unique_count++] = uint8_t(lane);
    } else m.repeated |= 1u << slot[h];
  });
  m.duplicates = m.repeated != 0;
}

// 32 banks of 4 bytes; 8-byte accesses go by half warps, 16-byte ones by quarters; one wavefront a distinct word in a
// bank.
int count_wavefronts(const Memo& m, uint32_t bytes, int64_t origin) {
  int parts = bytes > 8 ? 4 : bytes > 4 ? 2 : 1, total = 0;
  for (int p = 0; p < parts; ++p) {
    uint32_t lanes_of_part = parts == 1 ? UINT32_MAX : ((1u << (32 / parts)) - 1) << (p * 32 / parts);
    uint32_t words[32][4];
    uint8_t n[32] = {};
    int worst = 0;
    for (int u = 0; u < m.unique_count; ++u) {
      int lane = m.unique[u];
      if (!(lanes_of_part >> lane & 1)) continue;
      for (uint32_t j = 0; j < std::max(bytes, 4u); j += 4) {
        uint32_t word = uint32_t(origin + m.delta[lane] + j) >> 2, bank = word & 31;
        bool known = false;
        for (int i = 0; i < std::min<int>(n[bank], 4); ++i) known |= words[bank][i] == word;
        if (known) continue;
        if (n[bank] < 4) words[bank][n[bank]] = word;
        ++n[bank];
        worst = std::max<int>(worst, n[bank]);
      }
    }
    total += worst;
  }
  return std::max(total, 1);
}

uint8_t count_sectors(const Memo& m, Address first, uint32_t bytes) {
  uint64_t seen[64];
  int n = 0;
  for (int u = 0; u < m.unique_count; ++u) {
    Address at = first + Address(m.delta[m.unique[u]]);
    for (Address s = at >> 5; s <= (at + bytes - 1) >> 5; ++s) {
      bool known = false;
      for (int i = n; i-- > 0 && !known;) known = seen[i] == s;
      if (!known && n < 64) seen[n++] = s;
    }
  }
  return uint8_t(n);
}

void learn(Memo& m, const Request& r, uint32_t mask) {
  m.mask = mask;
  m.first = __builtin_ctz(mask);
  Address base = r.address[m.first];
  bool contiguous = mask == UINT32_MAX, uniform = true;
  uint64_t bits = 0;
  m.low = 0;
  m.high = 0;
  for (int i = 0; i < 32; ++i) {
    int64_t d = int64_t(r.address[i] - base);
    m.delta[i] = d;
    contiguous &= d == int64_t(r.bytes) * i;
    uniform &= d == 0;
    m.low = std::min(m.low, d);
    m.high = std::max(m.high, d);
    bits |= uint64_t(d);
  }
  m.high += r.bytes;
  m.aligned = (bits & (r.bytes - 1)) == 0;
  m.shape = contiguous ? Shape::Contiguous : uniform ? Shape::Uniform : Shape::Scattered;
  m.wavefronts = 0;
  std::memset(m.sectors, 0, sizeof m.sectors);
  if (contiguous) {
    for (int i = 0; i < 32; ++i) m.unique[i] = uint8_t(i);
    m.unique_count = 32;
    m.repeated = 0;
    m.duplicates = false;
  } else find_unique(m);
}

bool same(const Memo& m, const Request& r, uint32_t mask) {
  if (m.mask != mask) return false;
  Address base = r.address[m.first];
  uint64_t differs = 0;
  for (int i = 0; i < 32; ++i) differs |= r.address[i] - base - uint64_t(m.delta[i]);
  return differs == 0;
}

void mark(std::vector<uint64_t>& map, Address from, Address to) {  // offsets, to is exclusive
  size_t s = from >> 5, e = (to - 1) >> 5;
  if (s >> 6 == e >> 6) {
    map[s >> 6] |= (e - s == 63 ? ~uint64_t(0) : ((uint64_t(1) << (e - s + 1)) - 1)) << (s & 63);
    return;
  }
  for (; s <= e; ++s) map[s >> 6] |= uint64_t(1) << (s & 63);
}

void count_global(Grid& g, Memo& m, const Request& r, Address first, Allocation* a) {
  uint8_t& known = m.sectors[first & 31];
  if (!known) known = count_sectors(m, first, r.bytes);
  uint64_t bytes = uint64_t(__builtin_popcount(m.mask)) * r.bytes;
  Counters& c = g.counters;
  if (r.write) {
    c.global_store_sectors += known;
    ++c.global_store_requests;
    c.global_store_bytes += bytes;
  } else {
    c.global_load_sectors += known;
    ++c.global_load_requests;
    c.global_load_bytes += bytes;
  }
  if (!a->touched) g.memory->touch(a);
  auto& map = r.write ? a->sectors_written : a->sectors_read;
  Address origin = first - a->start;
  if (m.shape != Shape::Scattered) return mark(map, origin, origin + Address(m.high));
  for (int u = 0; u < m.unique_count; ++u) {
    Address at = origin + Address(m.delta[m.unique[u]]);
    mark(map, at, at + r.bytes);
  }
}

std::string where_is(const Memory& memory, Address at, uint32_t bytes) {
  Allocation* a = memory.nearest(at);
  if (!a || at >= a->end() + (1 << 16)) return at < 4096 ? "near the null pointer" : "in no allocation";
  std::string name = a->label.empty() ? "an allocation" : a->label;
  std::string size = " of " + std::to_string(a->bytes) + " bytes";
  if (!a->live) return "inside " + name + size + ", which has been freed";
  if (at >= a->end()) return std::to_string(at - a->end()) + " bytes past the end of " + name + size;
  return std::to_string(at + bytes - a->end()) + " bytes over the end of " + name + size;
}

void out_of_bounds(Warp& w, const Inst& inst, int lane, Space space, const Request& r, Address at,
                   const std::function<std::string()>& where) {
  report(w, inst, lane, {"out_of_bounds", at, r.bytes, space_name(space), true}, [&] {
    return std::string(r.write ? "writes " : "reads ") + std::to_string(r.bytes) + " bytes of " + space_name(space) +
           " memory at " + hex(at) + ", " + where();
  });
}

void misaligned(Warp& w, const Inst& inst, int lane, Space space, const Request& r, Address at) {
  report(w, inst, lane, {"misaligned", at, r.bytes, space_name(space), true}, [&] {
    return std::string(r.write ? "writes " : "reads ") + std::to_string(r.bytes) + " bytes of " + space_name(space) +
           " memory at " + hex(at) + ", which is not a multiple of " + std::to_string(r.bytes);
  });
}

// The lanes whose access lies inside and is aligned; the others are reported.
uint32_t honest_lanes(Warp& w, const Inst& inst, Space space, const Request& r, uint32_t mask, size_t limit) {
  uint32_t good = 0;
  Memory& memory = *w.grid->memory;
  each(mask, [&](int lane) {
    Address at = r.address[lane];
    if (space == Space::Global || space == Space::Const) {
      Allocation* a = memory.holder(at, r.bytes);
      if (!a || a->of_engine)
        return out_of_bounds(w, inst, lane, space, r, at, [&] { return where_is(memory, at, r.bytes); });
      if (a->read_only && r.write)
        return out_of_bounds(w, inst, lane, space, r, at, [&] { return "inside " + a->label + ", which is constant"; });
    } else if (at > limit || r.bytes > limit - at) {
      return out_of_bounds(w, inst, lane, space, r, at,
                           [&] { return "beyond the " + std::to_string(limit) + " bytes there are"; });
    }
    if (at & (r.bytes - 1)) return misaligned(w, inst, lane, space, r, at);
    good |= 1u << lane;
  });
  return good;
}

bool inside(const Memory& memory, Memo& m, Address low, Address high, bool write) {
  if (m.generation == memory.generation() && m.owner && low >= m.owner->start && high <= m.owner->end())
    return !(write && m.owner->read_only);
  Allocation* a = memory.holder(low, high - low);
  if (!a || a->of_engine) return false;
  m.owner = a;
  m.generation = memory.generation();
  return !(write && a->read_only);
}

// Lanes in several allocations: one allocation at a time for the shadow and the counters.
void piecewise(Warp& w, const Inst& inst, const Request& r, uint32_t mask, Access* access) {
  Grid& g = *w.grid;
  while (mask) {
    Allocation* a = g.memory->find(r.address[__builtin_ctz(mask)]);
    uint32_t part = 0;
    each(mask, [&](int lane) {
      if (g.memory->find(r.address[lane]) == a) part |= 1u << lane;
    });
    Request piece = r;
    for (int i = 0; i < 32; ++i)
      if (!(part >> i & 1)) piece.address[i] = r.address[__builtin_ctz(part)];
    Memo m;
    learn(m, piece, part);
    Address first = piece.address[m.first];
    count_global(g, m, piece, first, a);
    if (g.check) {
      View v = global_view(w, a, first);
      if (r.write) shadow_write(w, inst, v, m, r.bytes, r.strength, access);
      else shadow_read(w, inst, v, m, r.bytes, r.strength);
    }
    mask &= ~part;
  }
}

bool resolve_global(Warp& w, const Inst& inst, Space space, const Request& r, Access* access) {
  Grid& g = *w.grid;
  Memo& m = *inst.memo;
  if (!same(m, r, access->mask)) learn(m, r, access->mask);
  Address first = r.address[m.first];
  access->first = first;
  access->shape = m.shape;
  access->delta = m.delta;
  access->base = g.memory->arena() + (first - kGlobalWindow);
  if (__builtin_expect(!inside(*g.memory, m, first + Address(m.low), first + Address(m.high), r.write) || !m.aligned ||
                           (first & (r.bytes - 1)),
                       0)) {
    access->mask = honest_lanes(w, inst, space, r, access->mask, 0);
    access->shape = Shape::Scattered;
    if (access->mask) piecewise(w, inst, r, access->mask, access);
    return access->mask != 0;
  }
  count_global(g, m, r, first, m.owner);
  if (g.check) {
    View v = global_view(w, m.owner, first);
    if (r.write) shadow_write(w, inst, v, m, r.bytes, r.strength, access);
    else shadow_read(w, inst, v, m, r.bytes, r.strength);
  }
  return true;
}

// The lanes of `part`, which name one block of the cluster; those that may touch its memory.
uint32_t resolve_member(Warp& w, const Inst& inst, const Request& r, uint32_t part, Access* access) {
  Grid& g = *w.grid;
  int lane = __builtin_ctz(part);
  Block* owner = owner_of(w, r.address[lane]);
  if (!owner || !owner->live_threads) {
    std::string rank = std::to_string((r.address[lane] >> kRankShift) - 1);
    out_of_bounds(w, inst, lane, Space::Shared, r, r.address[lane], [&] {
      return owner ? "in block " + rank + " of the cluster, which has exited"
                   : "in block " + rank + " of a cluster of " + std::to_string(w.block->cluster->blocks.size());
    });
    return 0;
  }
  Request piece = r;
  for (int i = 0; i < 32; ++i) piece.address[i] = r.address[part >> i & 1 ? i : lane] & kSharedOffset;
  uint32_t good = honest_lanes(w, inst, Space::Shared, piece, part, g.shared_bytes);
  each(good,
       [&](int i) { access->storage[i] = owner->shared.data() - w.block->shared.data() + int64_t(piece.address[i]); });
  ++g.counters.shared_requests;
  ++g.counters.shared_wavefronts;
  if (!g.check || !good) return good;
  for (int i = 0; i < 32; ++i)
    if (!(good >> i & 1)) piece.address[i] = piece.address[__builtin_ctz(good)];
  Memo m;
  learn(m, piece, good);
  View v = shared_view(w, *owner, int64_t(piece.address[m.first]));
  if (r.write) shadow_write(w, inst, v, m, r.bytes, r.strength, access);
  else shadow_read(w, inst, v, m, r.bytes, r.strength);
  return good;
}

// A request that reaches into the shared memory of other blocks of the cluster.
bool resolve_cluster(Warp& w, const Inst& inst, const Request& r, Access* access) {
  access->shape = Shape::Scattered;
  access->base = w.block->shared.data();
  access->delta = access->storage;
  uint32_t good = 0;
  for (uint32_t left = access->mask; left;) {
    Address rank = r.address[__builtin_ctz(left)] >> kRankShift;
    uint32_t part = 0;
    each(left, [&](int lane) { part |= uint32_t(r.address[lane] >> kRankShift == rank) << lane; });
    good |= resolve_member(w, inst, r, part, access);
    left &= ~part;
  }
  access->mask = good;
  return good != 0;
}

bool reaches_out(const Request& r, uint32_t mask) {
  bool out = false;
  each(mask, [&](int lane) { out |= r.address[lane] >= kRankUnit && r.address[lane] >> kRankShift <= 0xff; });
  return out;
}

bool resolve_shared(Warp& w, const Inst& inst, const Request& r, Access* access) {
  Grid& g = *w.grid;
  Memo& m = *inst.memo;
  if (!same(m, r, access->mask)) learn(m, r, access->mask);
  int64_t first = int64_t(r.address[m.first]);
  access->first = Address(first);
  access->shape = m.shape;
  access->delta = m.delta;
  access->base = w.block->shared.data() + first;
  bool bad =
      first + m.low < 0 || first + m.high > int64_t(g.shared_bytes) || !m.aligned || (first & int64_t(r.bytes - 1));
  if (__builtin_expect(bad, 0)) {
    if (g.clustered && reaches_out(r, access->mask)) return resolve_cluster(w, inst, r, access);
    access->mask = honest_lanes(w, inst, Space::Shared, r, access->mask, g.shared_bytes);
    access->shape = Shape::Scattered;
    return access->mask != 0;
  }
  if (!m.wavefronts) m.wavefronts = count_wavefronts(m, r.bytes, first);
  int least = r.bytes > 8 ? 4 : r.bytes > 4 ? 2 : 1;
  g.counters.shared_wavefronts += uint64_t(m.wavefronts);
  g.counters.bank_conflicts += uint64_t(std::max(0, m.wavefronts - least));
  ++g.counters.shared_requests;
  if (g.check) {
    View v = shared_view(w, *w.block, first);
    if (r.write) shadow_write(w, inst, v, m, r.bytes, r.strength, access);
    else shadow_read(w, inst, v, m, r.bytes, r.strength);
  }
  return true;
}

bool resolve_local(Warp& w, const Inst& inst, const Request& r, Access* access) {
  uint32_t bad = 0;
  each(access->mask, [&](int lane) {
    bad |= uint32_t(r.address[lane] + r.bytes > w.local_stride || r.address[lane] > w.local_stride ||
                    (r.address[lane] & (r.bytes - 1)))
           << lane;
    access->storage[lane] = int64_t(w.local_stride) * lane + int64_t(r.address[lane]);
  });
  if (bad) access->mask = honest_lanes(w, inst, Space::Local, r, access->mask, w.local_stride);
  access->base = w.local;
  access->delta = access->storage;
  access->shape = Shape::Scattered;
  w.grid->counters.local_bytes += uint64_t(__builtin_popcount(access->mask)) * r.bytes;
  return access->mask != 0;
}

bool resolve_param(Warp& w, const Inst& inst, const Request& r, Access* access) {
  Grid& g = *w.grid;
  access->mask = honest_lanes(w, inst, Space::Param, r, access->mask, g.parameter_bytes);
  each(access->mask, [&](int lane) { access->storage[lane] = int64_t(r.address[lane]); });
  access->base = const_cast<uint8_t*>(g.parameters);
  access->delta = access->storage;
  access->shape = Shape::Scattered;
  return access->mask != 0;
}

}  // namespace

bool resolve(Warp& w, const Inst& inst, Space space, const Request& r, Access* access) {
  access->suspects = 0;
  access->space = space;
  switch (space) {
    case Space::Shared: return resolve_shared(w, inst, r, access);
    case Space::Local: return resolve_local(w, inst, r, access);
    case Space::Param: return resolve_param(w, inst, r, access);
    default: return resolve_global(w, inst, space, r, access);
  }
}

void accuse(Warp& w, const Inst& inst, const Access& access, const Request& r, uint32_t lanes_that_differ) {
  int lane = __builtin_ctz(lanes_that_differ);
  bool clocks = access.space == Space::Shared && !w.grid->clustered;
  report(w, inst, lane, {"race", r.address[lane], r.bytes, space_name(access.space), false}, [&] {
    std::string other = access.prior ? rival(w, clocks, access.prior) + (access.prior_read ? " read" : " wrote")
                                     : std::string("another lane of this warp writes too");
    return std::string("writes ") + space_name(access.space) + " memory at " + hex(r.address[lane]) + " that " + other +
           " with nothing that orders the two";
  });
}

}  // namespace vgpu
