// Asynchronous copies and mbarriers. A cp.async takes its bytes when it is issued and puts them down when it is waited
// for, so that a missing wait shows. Bulk copies arrive at once.
#include "async.h"

#include <algorithm>

#include "alu.h"
#include "control.h"
#include "sends.h"
#include "shadow.h"
#include "transfer.h"

namespace vgpu {

namespace {

void mark_cells(Warp& w, uint32_t to, uint32_t bytes, uint32_t cell) {
  Cells& c = w.block->cells;
  if (bytes < (1u << c.shift)) c.refine(__builtin_ctz(bytes));
  for (uint32_t k = to >> c.shift; k < (to + bytes) >> c.shift; ++k) c.wrote[k] = cell;
}

// Fields: a, imm, flags the shared address; v[0], v[1] base and offset of the global one; v[2] the source size
// (kNoLane: all), v[3] a predicate that makes it zero (0: none); bytes of the copy; table is the second memo.
void copy_async(Warp& w, const Inst& inst) {
  Inst source = inst;
  source.a = inst.v[0];
  source.imm = inst.v[1];
  source.flags = inst.n;
  source.c = int32_t(ptx::Space::Global);
  source.memo = static_cast<Memo*>(const_cast<void*>(inst.table));
  uint8_t data[32][16] = {};
  uint32_t mask = w.mask, ignored = inst.v[3] ? pred_in(w, inst.v[3], inst.negated) : 0;
  uint32_t whole = 0, part = 0;
  const uint32_t* sizes = inst.v[2] == kNoLane ? nullptr : in<uint32_t>(w, inst.v[2]);
  each(mask & ~ignored, [&](int lane) {
    uint32_t n = sizes ? sizes[lane] : inst.bytes;
    if (n >= inst.bytes) whole |= 1u << lane;
    else if (n) part |= 1u << lane;
  });
  auto fetch = [&](uint32_t lanes_of_it, uint32_t bytes, uint32_t offset) {
    if (!lanes_of_it) return;
    set_mask(w, lanes_of_it);
    Request r;
    r.bytes = bytes;
    addresses(w, source, &r);
    for (Address& a : r.address) a += offset;
    in_spaces(w, source, r, [&](const Access& access) {
      each(access.mask, [&](int lane) { std::memcpy(data[lane] + offset, access.base + access.delta[lane], bytes); });
    });
  };
  fetch(whole, inst.bytes, 0);
  for (uint32_t at = 0; part && at < inst.bytes; ++at) {
    uint32_t with_byte = 0;
    each(part, [&](int lane) { with_byte |= uint32_t(sizes[lane] > at) << lane; });
    fetch(with_byte, 1, at);
  }
  set_mask(w, mask);
  Request r;
  r.bytes = inst.bytes;
  r.write = true;
  addresses(w, inst, &r);
  in_spaces(w, inst, r, [&](const Access& access) {
    if (w.grid->check && access.suspects) accuse(w, inst, access, r, access.suspects & access.mask);
    each(access.mask, [&](int lane) {
      PendingCopy c;
      c.to = uint32_t(r.address[lane]);
      c.bytes = inst.bytes;
      c.lane = uint8_t(lane);
      c.group = w.copy_group[lane];
      std::memcpy(c.data, data[lane], 16);
      w.copies.push_back(c);
      if (w.grid->check) mark_cells(w, c.to, c.bytes, kPendingClock << 11 | uint32_t(w.index) << 6 | uint32_t(lane));
    });
  });
}

template <class F>
void complete(Warp& w, F due) {
  size_t kept = 0;
  for (PendingCopy& c : w.copies) {
    if (!(w.mask >> c.lane & 1) || !due(c)) {
      w.copies[kept++] = c;
      continue;
    }
    std::memcpy(w.block->shared.data() + c.to, c.data, c.bytes);
    if (w.grid->check) mark_cells(w, c.to, c.bytes, shared_view(w, *w.block, 0).own | c.lane);
  }
  w.copies.resize(kept);
}

void commit_group(Warp& w, const Inst&) {
  each(w.mask, [&](int lane) { ++w.copy_group[lane]; });
}
void wait_group(Warp& w, const Inst& i) {
  uint32_t n = uint32_t(i.imm);
  complete(w, [&](const PendingCopy& c) { return c.group + n < w.copy_group[c.lane]; });
}
void wait_all(Warp& w, const Inst&) {
  complete(w, [](const PendingCopy&) { return true; });
}

// ---- mbarrier: phase << 63 | bytes pending << 40 | expected << 20 | pending arrivals ----

struct State {
  uint64_t bits = 0;
  uint32_t pending() const { return bits & 0xfffff; }
  uint32_t expected() const { return bits >> 20 & 0xfffff; }
  int32_t bytes() const { return int32_t(uint32_t(bits >> 40) << 9) >> 9; }
  uint32_t phase() const { return uint32_t(bits >> 63); }
  static State make(uint32_t phase, int32_t bytes, uint32_t expected, uint32_t pending) {
    return {uint64_t(phase) << 63 | uint64_t(uint32_t(bytes) & 0x7fffff) << 40 | uint64_t(expected) << 20 | pending};
  }
  State turned() const {  // the next phase, when nothing is pending
    if (pending() || bytes()) return *this;
    return make(phase() ^ 1, 0, expected(), expected());
  }
};

// Runs f(state, lane) on the barrier each lane names.
template <class F>
void on_barriers(Warp& w, const Inst& inst, bool release, F f) {
  Request r;
  r.bytes = 8;
  r.write = true;
  r.strength = Strength::Strong;
  addresses(w, inst, &r);
  in_spaces(w, inst, r, [&](const Access& access) {
    each(access.mask, [&](int lane) {
      uint8_t* p = access.base + access.delta[lane];
      State s;
      std::memcpy(&s.bits, p, 8);
      if (release && w.grid->check) {
        uint32_t seen[32];
        std::copy(w.seen, w.seen + 32, seen);
        seen[w.index] = w.clock;
        w.grid->races->release(w, location(w, ptx::Space::Shared, r.address[lane]), w.grid->clustered, seen);
        w.released = true;
      }
      f(s, lane, r.address[lane]);
      std::memcpy(p, &s.bits, 8);
    });
  });
  after_release(w);
}

void mbarrier_init(Warp& w, const Inst& i) {
  const uint32_t* n = in<uint32_t>(w, i.v[0]);
  on_barriers(w, i, false,
              [&](State& s, int lane, Address) { s = State::make(0, 0, n[lane] & 0xfffff, n[lane] & 0xfffff); });
}

// flags of arrive in v[3]: 1 expects bytes first, 2 gives no arrival, 4 completes bytes; v[0] count (kNoLane: 1), v[1]
// bytes, v[2] target or kNoLane.
void mbarrier_arrive(Warp& w, const Inst& i) {
  const uint32_t* count = i.v[0] == kNoLane ? nullptr : in<uint32_t>(w, i.v[0]);
  const uint32_t* tx = i.v[1] == kNoLane ? nullptr : in<uint32_t>(w, i.v[1]);
  uint64_t before[32] = {};
  on_barriers(w, i, i.v[3] != 2 && i.v[3] != 3, [&](State& s, int lane, Address) {
    before[lane] = s.bits;
    int32_t bytes = s.bytes() + (i.v[3] & 1 ? int32_t(tx[lane]) : i.v[3] & 4 ? -int32_t(tx[lane]) : 0);
    uint32_t arrivals = i.v[3] & 2 ? 0 : count ? count[lane] : 1;
    s = State::make(s.phase(), bytes, s.expected(), s.pending() - std::min(s.pending(), arrivals)).turned();
  });
  if (i.v[2] != kNoLane) lanes<uint64_t>(w, i.v[2], [&](int l) { return before[l]; });
}

// An arrival at the same mbarrier of several blocks of the cluster. v[4] their mask, v[5] a place for addresses.
void multicast_arrive(Warp& w, const Inst& i) {
  const uint16_t* blocks = in<uint16_t>(w, i.v[4]);
  Request r;
  addresses(w, i, &r);
  const uint32_t all = w.mask;
  Inst one = i;
  one.a = i.v[5];
  one.imm = 0;
  one.flags = 0;
  for (uint32_t rank = 0; rank < 16; ++rank) {
    uint32_t part = 0;
    each(all, [&](int lane) { part |= uint32_t(blocks[lane] >> rank & 1) << lane; });
    if (!part) continue;
    set_mask(w, part);
    lanes<uint32_t>(w, i.v[5], [&](int lane) { return uint32_t(in_block(w, r.address[lane], rank)); });
    mbarrier_arrive(w, one);
  }
  set_mask(w, all);
}

// v[0] state or parity, n is 1 for parity; d the predicate.
void mbarrier_wait(Warp& w, const Inst& i) {
  uint32_t done = 0;
  on_barriers(w, i, false, [&](State& s, int lane, Address at) {
    uint32_t waited = i.n ? in<uint32_t>(w, i.v[0])[lane] & 1 : State{in<uint64_t>(w, i.v[0])[lane]}.phase();
    if (s.phase() == waited) return;
    done |= 1u << lane;
    if (w.grid->check) w.grid->races->acquire(w, location(w, ptx::Space::Shared, at));
  });
  pred_out(w, i.d, done);
  if (done != w.mask) {
    w.quantum -= 256;
    ++w.spins;
  }
}

void mbarrier_nothing(Warp&, const Inst&) {}

bool shared_address(Lowering& l, size_t at, Inst* i) {
  AddressForm a;
  if (l.operands() <= at || !address_form(l, l.operand(at), &a)) return false;
  i->a = a.base;
  i->imm = a.imm;
  i->flags = a.flags;
  i->c = int32_t(a.space);
  i->memo = l.memo();
  return true;
}

bool lower_mbarrier(Lowering& l) {
  l.kind = Class::Sync;
  Inst form;
  if (l.has("inval")) {
    l.emit(mbarrier_nothing);
    return true;
  }
  if (l.has("init")) {
    if (!shared_address(l, 0, &form)) return false;
    form.v[0] = l.source(1, 4);
    form.fn = mbarrier_init;
  } else if (l.has("test_wait") || l.has("try_wait")) {
    if (!shared_address(l, 1, &form)) return false;
    form.n = l.has("parity");
    form.v[0] = l.source(2, form.n ? 4 : 8);
    form.d = l.predicate(l.operand(0));
    form.fn = mbarrier_wait;
  } else if (l.has("arrive") || l.has("arrive_drop") || l.has("expect_tx") || l.has("complete_tx")) {
    if (l.has("arrive_drop")) return false;
    bool only_tx = !l.has("arrive"), target = l.operand(0).kind != ptx::Operand::Address;
    size_t at = target ? 1 : 0;
    if (!shared_address(l, at, &form)) return false;
    form.v[3] = (l.has("expect_tx") ? 1 : 0) | (only_tx ? 2 : 0) | (l.has("complete_tx") ? 4 : 0);
    bool operand = l.operands() > at + 1, tx = form.v[3] & 5;
    form.v[0] = operand && !tx ? l.source(at + 1, 4) : kNoLane;
    form.v[1] = operand && tx ? l.source(at + 1, 4) : kNoLane;
    form.v[2] = target && l.operand(0).kind != ptx::Operand::Sink ? l.target(size_t(0), 8) : kNoLane;
    if (tx && !operand) return false;
    form.fn = mbarrier_arrive;
  } else return false;
  l.emit(form.fn) = form;
  return true;
}

// cp.async.mbarrier.arrive: this thread's copies land now. Without .noinc the arrival was added when it was announced,
// so the count stays as it is.
void copies_arrive(Warp& w, const Inst& i) {
  wait_all(w, i);
  if (i.n) mbarrier_arrive(w, i);
}

bool lower_copies_arrive(Lowering& l) {
  Inst form;
  if (!shared_address(l, 0, &form)) return false;
  form.fn = copies_arrive;
  form.n = l.has("noinc");
  form.v[0] = form.v[1] = form.v[2] = kNoLane;
  l.emit(form.fn) = form;
  return true;
}

// ---- bulk copies, not of tensors ----

// a, imm, flags: the mbarrier (memo); v[0], v[1], v[2]: target, source, bytes; n: to shared memory.
void bulk_copy(Warp& w, const Inst& i) {
  const uint32_t* bytes = in<uint32_t>(w, i.v[2]);
  uint32_t mask = w.mask;
  each(mask, [&](int lane) {
    Address to = i.b & 1 ? in<uint64_t>(w, i.v[0])[lane] : in<uint32_t>(w, i.v[0])[lane];
    Address from = i.b & 2 ? in<uint64_t>(w, i.v[1])[lane] : in<uint32_t>(w, i.v[1])[lane];
    bool inwards = i.n;
    if (inwards && to >= kSharedWindow) to -= kSharedWindow;
    if (!inwards && from >= kSharedWindow) from -= kSharedWindow;
    set_mask(w, 1u << lane);
    for (uint32_t at = 0; at < bytes[lane]; at += 16) {
      Request r, s;
      r.bytes = s.bytes = 16;
      s.write = true;
      std::fill(r.address, r.address + 32, from + at);
      std::fill(s.address, s.address + 32, to + at);
      Access source, target;
      source.mask = target.mask = w.mask;
      Inst second = i;
      second.memo = static_cast<Memo*>(const_cast<void*>(i.table));
      if (!resolve(w, i, inwards ? ptx::Space::Global : ptx::Space::Shared, r, &source)) break;
      if (!resolve(w, second, inwards ? ptx::Space::Shared : ptx::Space::Global, s, &target)) break;
      if (target.suspects) accuse(w, second, target, s, target.suspects);
      uint8_t *there = target.base + target.delta[lane], *here = source.base + source.delta[lane];
      if (inwards) std::memcpy(there, here, 16);
      else send(w, i, lane, {there, here, from + at, 16});
    }
  });
  set_mask(w, mask);
}

}  // namespace

bool lower_completion(Lowering& l, const ptx::Operand& barrier, int32_t bytes, int32_t blocks) {
  if (barrier.kind != ptx::Operand::Address) return false;
  int32_t place = barrier.reg >= 0 ? l.slots->place[size_t(barrier.reg)] : 0;
  auto symbol = l.symbols->find(barrier.name);
  if (barrier.reg < 0 && symbol == l.symbols->end()) return false;
  bool wide = barrier.reg >= 0 && l.function->registers[size_t(barrier.reg)].width == 8;
  Handler arrive = blocks == kNoLane ? mbarrier_arrive : multicast_arrive;
  Inst done;
  done.fn = arrive;
  done.a = place;
  done.imm = barrier.offset + (barrier.reg < 0 ? int64_t(symbol->second.address) : 0);
  done.flags = barrier.reg < 0 ? kNoBase : wide ? kWide : 0;
  done.c = int32_t(ptx::Space::Shared);
  done.memo = l.memo();
  done.v[0] = kNoLane;
  done.v[1] = bytes;
  done.v[2] = kNoLane;
  done.v[3] = 2 | 4;
  done.v[4] = blocks;
  done.v[5] = blocks == kNoLane ? kNoLane : l.temporary(4);
  l.emit(arrive) = done;
  return true;
}

namespace {

bool lower_bulk(Lowering& l) {
  if (l.has("prefetch") && l.has("tensor")) {
    l.idle = "*";
    l.emit(mbarrier_nothing);
    return true;
  }
  if (l.has("tensor")) return lower_tensor_copy(l);
  if (l.has("prefetch") || l.has_prefix("multicast") || l.has("reduce")) return false;
  if (l.has("commit_group") || l.has("wait_group")) return lower_sends(l);
  std::string_view there = l.part(3), here = l.part(4);
  bool to_shared = (there == "shared::cluster" || there == "shared::cta") && here == "global";
  bool to_global = there == "global" && here == "shared::cta";
  if ((!to_shared && !to_global) || l.operands() < 3) return false;
  const ptx::Operand &to = l.operand(0), &from = l.operand(1);
  if (to.kind != ptx::Operand::Address || from.kind != ptx::Operand::Address || to.reg < 0 || from.reg < 0 ||
      to.offset || from.offset)
    return false;
  auto width = [&](const ptx::Operand& o) { return l.function->registers[size_t(o.reg)].width; };
  Inst copy;
  copy.fn = bulk_copy;
  copy.v[0] = l.slots->place[size_t(to.reg)];
  copy.v[1] = l.slots->place[size_t(from.reg)];
  copy.v[2] = l.source(2, 4);
  copy.n = to_shared;
  copy.b = (width(to) == 8 ? 1 : 0) | (width(from) == 8 ? 2 : 0);
  copy.memo = l.memo();
  copy.table = l.memo();
  l.emit(bulk_copy) = copy;
  return !to_shared || lower_completion(l, l.operand(3), copy.v[2]);
}

bool lower_copy(Lowering& l) {
  l.kind = Class::Global;
  if (l.part(1) != "async") return false;
  if (l.has("bulk")) return lower_bulk(l);
  if (l.has("commit_group")) {
    l.emit(commit_group);
    return true;
  }
  if (l.has("wait_all")) {
    l.emit(wait_all);
    return true;
  }
  if (l.has("wait_group")) {
    int64_t n = 0;
    if (l.operands() != 1 || !l.number(l.operand(0), &n)) return false;
    l.emit(wait_group).imm = n;
    return true;
  }
  if (l.has("mbarrier")) return lower_copies_arrive(l);
  if ((!l.has("ca") && !l.has("cg")) || !l.has("global") || l.operands() < 3) return false;
  AddressForm to, from;
  if (!address_form(l, l.operand(0), &to) || !address_form(l, l.operand(1), &from)) return false;
  int64_t bytes = 0;
  if (!l.number(l.operand(2), &bytes) || (bytes != 4 && bytes != 8 && bytes != 16)) return false;
  Inst i;
  i.fn = copy_async;
  i.a = to.base;
  i.imm = to.imm;
  i.flags = to.flags;
  i.c = int32_t(ptx::Space::Shared);
  i.v[0] = from.base;
  i.v[1] = int32_t(from.imm);
  i.n = from.flags;
  if (from.imm != int64_t(i.v[1]) || (from.flags & kNoBase)) return false;
  i.bytes = uint8_t(bytes);
  i.v[2] = kNoLane;
  if (l.operands() > 3 && !l.has_prefix("L2::cache_hint")) {
    const ptx::Operand& o = l.operand(3);
    bool predicate = l.register_width(o) == 0, negated = false;
    if (predicate) {
      i.v[3] = l.predicate_source(o, &negated);
      i.negated = negated;
    } else i.v[2] = l.source(o, 4);
  }
  i.memo = l.memo();
  i.table = l.memo();
  note_narrow_shared(l, ptx::Space::Shared, uint32_t(bytes));
  l.emit(copy_async) = i;
  return true;
}

}  // namespace

const LowerEntry kAsyncOps[] = {
    {"cp", lower_copy, "shared shared::cta tile arrive b64 mbarrier::complete_tx::bytes bulk_group read"},
    {"mbarrier", lower_mbarrier, "b64 acquire release relaxed noComplete shared shared::cta"},
    {nullptr, nullptr}};

}  // namespace vgpu
