// Asynchronous copies and mbarriers (PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy" and
// "mbarrier"). A cp.async reads its source when it is issued and writes shared memory when it is waited for, as late as
// PTX allows, so that a missing wait gives wrong results and a finding. Bulk copies arrive at once.
#include "async.h"

#include <algorithm>

#include "alu.h"
#include "control.h"
#include "sends.h"
#include "shadow.h"
#include "transfer.h"

namespace vgpu {

namespace {

void mark_cells(Warp& warp, uint32_t to, uint32_t bytes, uint32_t cell) {
  Cells& cells = warp.block->cells;
  if (bytes < (1u << cells.shift)) cells.refine(__builtin_ctz(bytes));
  for (uint32_t k = to >> cells.shift; k < (to + bytes) >> cells.shift; ++k) cells.wrote[k] = cell;
}

// Fields: a, imm and flags are the shared address; extra[0] and extra[1] are base and offset of the global address;
// extra[2] is the source size (kNoLane: all bytes); extra[3] is a predicate that sets the source size to zero (0:
// none); bytes is the size of the copy; count holds the flags of the global address; table is its memo.
void copy_async(Warp& warp, const Inst& inst) {
  Inst source = inst;
  source.a = inst.extra[0];
  source.imm = inst.extra[1];
  source.flags = inst.count;
  source.c = int32_t(ptx::Space::Global);
  source.memo = static_cast<Memo*>(const_cast<void*>(inst.table));
  uint8_t data[32][16] = {};
  uint32_t mask = warp.mask, ignored = inst.extra[3] ? pred_in(warp, inst.extra[3], inst.negated) : 0;
  uint32_t whole = 0, part = 0;
  const uint32_t* sizes = inst.extra[2] == kNoLane ? nullptr : in<uint32_t>(warp, inst.extra[2]);
  each(mask & ~ignored, [&](int lane) {
    uint32_t size = sizes ? sizes[lane] : inst.bytes;
    if (size >= inst.bytes) whole |= 1u << lane;
    else if (size) part |= 1u << lane;
  });
  auto fetch = [&](uint32_t lanes_of_it, uint32_t bytes, uint32_t offset) {
    if (!lanes_of_it) return;
    set_mask(warp, lanes_of_it);
    Request request;
    request.bytes = bytes;
    compute_addresses(warp, source, &request);
    for (Address& address : request.address) address += offset;
    in_spaces(warp, source, request, [&](const Access& access) {
      each(access.mask, [&](int lane) { std::memcpy(data[lane] + offset, access.base + access.delta[lane], bytes); });
    });
  };
  fetch(whole, inst.bytes, 0);
  for (uint32_t at = 0; part && at < inst.bytes; ++at) {
    uint32_t with_byte = 0;
    each(part, [&](int lane) { with_byte |= uint32_t(sizes[lane] > at) << lane; });
    fetch(with_byte, 1, at);
  }
  set_mask(warp, mask);
  Request request;
  request.bytes = inst.bytes;
  request.write = true;
  compute_addresses(warp, inst, &request);
  in_spaces(warp, inst, request, [&](const Access& access) {
    if (warp.grid->check && access.suspects)
      report_write_race(warp, inst, access, request, access.suspects & access.mask);
    each(access.mask, [&](int lane) {
      PendingCopy copy;
      copy.to = uint32_t(request.address[lane]);
      copy.bytes = inst.bytes;
      copy.lane = uint8_t(lane);
      copy.group = warp.copy_group[lane];
      std::memcpy(copy.data, data[lane], 16);
      warp.copies.push_back(copy);
      if (warp.grid->check)
        mark_cells(warp, copy.to, copy.bytes, kPendingClock << 11 | uint32_t(warp.index) << 6 | uint32_t(lane));
    });
  });
}

template <class F>
void complete(Warp& warp, F due) {
  size_t kept = 0;
  for (PendingCopy& copy : warp.copies) {
    if (!(warp.mask >> copy.lane & 1) || !due(copy)) {
      warp.copies[kept++] = copy;
      continue;
    }
    std::memcpy(warp.block->shared.data() + copy.to, copy.data, copy.bytes);
    if (warp.grid->check) mark_cells(warp, copy.to, copy.bytes, shared_view(warp, *warp.block, 0).own | copy.lane);
  }
  warp.copies.resize(kept);
}

void commit_group(Warp& warp, const Inst&) {
  each(warp.mask, [&](int lane) { ++warp.copy_group[lane]; });
}
void wait_group(Warp& warp, const Inst& inst) {
  uint32_t allowed = uint32_t(inst.imm);
  complete(warp, [&](const PendingCopy& copy) { return copy.group + allowed < warp.copy_group[copy.lane]; });
}
void wait_all(Warp& warp, const Inst&) {
  complete(warp, [](const PendingCopy&) { return true; });
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
  State next_phase() const {  // the next phase if neither arrivals nor bytes are pending
    if (pending() || bytes()) return *this;
    return make(phase() ^ 1, 0, expected(), expected());
  }
};

// Runs change(state, lane, address) on the mbarrier that each lane names.
template <class F>
void on_barriers(Warp& warp, const Inst& inst, bool release, F change) {
  Request request;
  request.bytes = 8;
  request.write = true;
  request.strength = Strength::Strong;
  compute_addresses(warp, inst, &request);
  in_spaces(warp, inst, request, [&](const Access& access) {
    each(access.mask, [&](int lane) {
      uint8_t* place = access.base + access.delta[lane];
      State state;
      std::memcpy(&state.bits, place, 8);
      if (release && warp.grid->check) {
        uint32_t seen[32];
        std::copy(warp.seen, warp.seen + 32, seen);
        seen[warp.index] = warp.clock;
        warp.grid->races->release(warp, location(warp, ptx::Space::Shared, request.address[lane]), warp.grid->clustered,
                                  seen);
        warp.released = true;
      }
      change(state, lane, request.address[lane]);
      std::memcpy(place, &state.bits, 8);
    });
  });
  after_release(warp);
}

void mbarrier_init(Warp& warp, const Inst& inst) {
  const uint32_t* counts = in<uint32_t>(warp, inst.extra[0]);
  on_barriers(warp, inst, false, [&](State& state, int lane, Address) {
    state = State::make(0, 0, counts[lane] & 0xfffff, counts[lane] & 0xfffff);
  });
}

// Flags of an arrival in extra[3]: 1 expects bytes first, 2 makes no arrival, 4 completes bytes. extra[0] is the
// count (kNoLane: 1), extra[1] the bytes, extra[2] the target or kNoLane.
void mbarrier_arrive(Warp& warp, const Inst& inst) {
  const uint32_t* count = inst.extra[0] == kNoLane ? nullptr : in<uint32_t>(warp, inst.extra[0]);
  const uint32_t* tx = inst.extra[1] == kNoLane ? nullptr : in<uint32_t>(warp, inst.extra[1]);
  uint64_t before[32] = {};
  on_barriers(warp, inst, inst.extra[3] != 2 && inst.extra[3] != 3, [&](State& state, int lane, Address) {
    before[lane] = state.bits;
    int32_t bytes = state.bytes() + (inst.extra[3] & 1   ? int32_t(tx[lane])
                                     : inst.extra[3] & 4 ? -int32_t(tx[lane])
                                                         : 0);
    uint32_t arrivals = inst.extra[3] & 2 ? 0 : count ? count[lane] : 1;
    state = State::make(state.phase(), bytes, state.expected(), state.pending() - std::min(state.pending(), arrivals))
                .next_phase();
  });
  if (inst.extra[2] != kNoLane) lanes<uint64_t>(warp, inst.extra[2], [&](int lane) { return before[lane]; });
}

// Arrival at the same mbarrier of several blocks of the cluster. extra[4] is the mask of blocks, extra[5] a temporary
// for addresses.
void multicast_arrive(Warp& warp, const Inst& inst) {
  const uint16_t* blocks = in<uint16_t>(warp, inst.extra[4]);
  Request request;
  compute_addresses(warp, inst, &request);
  const uint32_t all = warp.mask;
  Inst one = inst;
  one.a = inst.extra[5];
  one.imm = 0;
  one.flags = 0;
  for (uint32_t rank = 0; rank < 16; ++rank) {
    uint32_t part = 0;
    each(all, [&](int lane) { part |= uint32_t(blocks[lane] >> rank & 1) << lane; });
    if (!part) continue;
    set_mask(warp, part);
    lanes<uint32_t>(warp, inst.extra[5],
                    [&](int lane) { return uint32_t(in_block(warp, request.address[lane], rank)); });
    mbarrier_arrive(warp, one);
  }
  set_mask(warp, all);
}

// extra[0] is the state, or the parity if count is 1; d is the predicate.
void mbarrier_wait(Warp& warp, const Inst& inst) {
  uint32_t done = 0;
  on_barriers(warp, inst, false, [&](State& state, int lane, Address at) {
    uint32_t waited = inst.count ? in<uint32_t>(warp, inst.extra[0])[lane] & 1
                                 : State{in<uint64_t>(warp, inst.extra[0])[lane]}.phase();
    if (state.phase() == waited) return;
    done |= 1u << lane;
    if (warp.grid->check) warp.grid->races->acquire(warp, location(warp, ptx::Space::Shared, at));
  });
  pred_out(warp, inst.d, done);
  if (done != warp.mask) {
    warp.quantum -= 256;
    ++warp.spins;
  }
}

void mbarrier_nothing(Warp&, const Inst&) {}

bool shared_address(Lowering& lowering, size_t at, Inst* inst) {
  AddressForm form;
  if (lowering.operands() <= at || !address_form(lowering, lowering.operand(at), &form)) return false;
  inst->a = form.base;
  inst->imm = form.imm;
  inst->flags = form.flags;
  inst->c = int32_t(form.space);
  inst->memo = lowering.memo();
  return true;
}

bool lower_mbarrier(Lowering& lowering) {
  lowering.kind = Class::Sync;
  Inst form;
  if (lowering.has("inval")) {
    lowering.emit(mbarrier_nothing);
    return true;
  }
  if (lowering.has("init")) {
    if (!shared_address(lowering, 0, &form)) return false;
    form.extra[0] = lowering.source(1, 4);
    form.fn = mbarrier_init;
  } else if (lowering.has("test_wait") || lowering.has("try_wait")) {
    if (!shared_address(lowering, 1, &form)) return false;
    form.count = lowering.has("parity");
    form.extra[0] = lowering.source(2, form.count ? 4 : 8);
    form.d = lowering.predicate(lowering.operand(0));
    form.fn = mbarrier_wait;
  } else if (lowering.has("arrive") || lowering.has("arrive_drop") || lowering.has("expect_tx") ||
             lowering.has("complete_tx")) {
    if (lowering.has("arrive_drop")) return false;
    bool only_tx = !lowering.has("arrive"), target = lowering.operand(0).kind != ptx::Operand::Address;
    size_t at = target ? 1 : 0;
    if (!shared_address(lowering, at, &form)) return false;
    form.extra[3] = (lowering.has("expect_tx") ? 1 : 0) | (only_tx ? 2 : 0) | (lowering.has("complete_tx") ? 4 : 0);
    bool operand = lowering.operands() > at + 1, tx = form.extra[3] & 5;
    form.extra[0] = operand && !tx ? lowering.source(at + 1, 4) : kNoLane;
    form.extra[1] = operand && tx ? lowering.source(at + 1, 4) : kNoLane;
    form.extra[2] = target && lowering.operand(0).kind != ptx::Operand::Sink ? lowering.target(size_t(0), 8) : kNoLane;
    if (tx && !operand) return false;
    form.fn = mbarrier_arrive;
  } else return false;
  lowering.emit(form.fn) = form;
  return true;
}

// cp.async.mbarrier.arrive: the copies of this thread complete now. Without .noinc PTX increments the pending count
// when the instruction is issued, so the increment and the arrival cancel out.
void copies_arrive(Warp& warp, const Inst& inst) {
  wait_all(warp, inst);
  if (inst.count) mbarrier_arrive(warp, inst);
}

bool lower_copies_arrive(Lowering& lowering) {
  Inst form;
  if (!shared_address(lowering, 0, &form)) return false;
  form.fn = copies_arrive;
  form.count = lowering.has("noinc");
  form.extra[0] = form.extra[1] = form.extra[2] = kNoLane;
  lowering.emit(form.fn) = form;
  return true;
}

// ---- bulk copies, not of tensors ----

// a, imm and flags are the mbarrier (memo); extra[0], extra[1] and extra[2] are target, source and bytes; count is 1
// for a copy to shared memory.
void bulk_copy(Warp& warp, const Inst& inst) {
  const uint32_t* bytes = in<uint32_t>(warp, inst.extra[2]);
  uint32_t mask = warp.mask;
  each(mask, [&](int lane) {
    Address to = inst.b & 1 ? in<uint64_t>(warp, inst.extra[0])[lane] : in<uint32_t>(warp, inst.extra[0])[lane];
    Address from = inst.b & 2 ? in<uint64_t>(warp, inst.extra[1])[lane] : in<uint32_t>(warp, inst.extra[1])[lane];
    bool inwards = inst.count;
    if (inwards && to >= kSharedWindow) to -= kSharedWindow;
    if (!inwards && from >= kSharedWindow) from -= kSharedWindow;
    set_mask(warp, 1u << lane);
    for (uint32_t at = 0; at < bytes[lane]; at += 16) {
      Request load, store;
      load.bytes = store.bytes = 16;
      store.write = true;
      std::fill(load.address, load.address + 32, from + at);
      std::fill(store.address, store.address + 32, to + at);
      Access source, target;
      source.mask = target.mask = warp.mask;
      Inst second = inst;
      second.memo = static_cast<Memo*>(const_cast<void*>(inst.table));
      if (!resolve(warp, inst, inwards ? ptx::Space::Global : ptx::Space::Shared, load, &source)) break;
      if (!resolve(warp, second, inwards ? ptx::Space::Shared : ptx::Space::Global, store, &target)) break;
      if (target.suspects) report_write_race(warp, second, target, store, target.suspects);
      uint8_t *there = target.base + target.delta[lane], *here = source.base + source.delta[lane];
      if (inwards) std::memcpy(there, here, 16);
      else queue_send(warp, inst, lane, {there, here, from + at, 16});
    }
  });
  set_mask(warp, mask);
}

}  // namespace

bool lower_completion(Lowering& lowering, const ptx::Operand& barrier, int32_t bytes, int32_t blocks) {
  if (barrier.kind != ptx::Operand::Address) return false;
  int32_t place = barrier.reg >= 0 ? lowering.slots->place[size_t(barrier.reg)] : 0;
  auto symbol = lowering.symbols->find(barrier.name);
  if (barrier.reg < 0 && symbol == lowering.symbols->end()) return false;
  bool wide = barrier.reg >= 0 && lowering.function->registers[size_t(barrier.reg)].width == 8;
  Handler arrive = blocks == kNoLane ? mbarrier_arrive : multicast_arrive;
  Inst done;
  done.fn = arrive;
  done.a = place;
  done.imm = barrier.offset + (barrier.reg < 0 ? int64_t(symbol->second.address) : 0);
  done.flags = barrier.reg < 0 ? kNoBase : wide ? kWide : 0;
  done.c = int32_t(ptx::Space::Shared);
  done.memo = lowering.memo();
  done.extra[0] = kNoLane;
  done.extra[1] = bytes;
  done.extra[2] = kNoLane;
  done.extra[3] = 2 | 4;
  done.extra[4] = blocks;
  done.extra[5] = blocks == kNoLane ? kNoLane : lowering.temporary(4);
  lowering.emit(arrive) = done;
  return true;
}

namespace {

bool lower_bulk(Lowering& lowering) {
  if (lowering.has("prefetch") && lowering.has("tensor")) {
    lowering.ignorable = "*";
    lowering.emit(mbarrier_nothing);
    return true;
  }
  if (lowering.has("tensor")) return lower_tensor_copy(lowering);
  if (lowering.has("prefetch") || lowering.has_prefix("multicast") || lowering.has("reduce")) return false;
  if (lowering.has("commit_group") || lowering.has("wait_group")) return lower_sends(lowering);
  std::string_view there = lowering.part(3), here = lowering.part(4);
  bool to_shared = (there == "shared::cluster" || there == "shared::cta") && here == "global";
  bool to_global = there == "global" && here == "shared::cta";
  if ((!to_shared && !to_global) || lowering.operands() < 3) return false;
  const ptx::Operand &to = lowering.operand(0), &from = lowering.operand(1);
  if (to.kind != ptx::Operand::Address || from.kind != ptx::Operand::Address || to.reg < 0 || from.reg < 0 ||
      to.offset || from.offset)
    return false;
  auto width = [&](const ptx::Operand& operand) { return lowering.function->registers[size_t(operand.reg)].width; };
  Inst copy;
  copy.fn = bulk_copy;
  copy.extra[0] = lowering.slots->place[size_t(to.reg)];
  copy.extra[1] = lowering.slots->place[size_t(from.reg)];
  copy.extra[2] = lowering.source(2, 4);
  copy.count = to_shared;
  copy.b = (width(to) == 8 ? 1 : 0) | (width(from) == 8 ? 2 : 0);
  copy.memo = lowering.memo();
  copy.table = lowering.memo();
  lowering.emit(bulk_copy) = copy;
  return !to_shared || lower_completion(lowering, lowering.operand(3), copy.extra[2]);
}

bool lower_copy(Lowering& lowering) {
  lowering.kind = Class::Global;
  if (lowering.part(1) != "async") return false;
  if (lowering.has("bulk")) return lower_bulk(lowering);
  if (lowering.has("commit_group")) {
    lowering.emit(commit_group);
    return true;
  }
  if (lowering.has("wait_all")) {
    lowering.emit(wait_all);
    return true;
  }
  if (lowering.has("wait_group")) {
    int64_t allowed = 0;
    if (lowering.operands() != 1 || !lowering.number(lowering.operand(0), &allowed)) return false;
    lowering.emit(wait_group).imm = allowed;
    return true;
  }
  if (lowering.has("mbarrier")) return lower_copies_arrive(lowering);
  if ((!lowering.has("ca") && !lowering.has("cg")) || !lowering.has("global") || lowering.operands() < 3) return false;
  AddressForm to, from;
  if (!address_form(lowering, lowering.operand(0), &to) || !address_form(lowering, lowering.operand(1), &from))
    return false;
  int64_t bytes = 0;
  if (!lowering.number(lowering.operand(2), &bytes) || (bytes != 4 && bytes != 8 && bytes != 16)) return false;
  Inst inst;
  inst.fn = copy_async;
  inst.a = to.base;
  inst.imm = to.imm;
  inst.flags = to.flags;
  inst.c = int32_t(ptx::Space::Shared);
  inst.extra[0] = from.base;
  inst.extra[1] = int32_t(from.imm);
  inst.count = from.flags;
  if (from.imm != int64_t(inst.extra[1]) || (from.flags & kNoBase)) return false;
  inst.bytes = uint8_t(bytes);
  inst.extra[2] = kNoLane;
  if (lowering.operands() > 3 && !lowering.has_prefix("L2::cache_hint")) {
    const ptx::Operand& operand = lowering.operand(3);
    bool predicate = lowering.register_width(operand) == 0, negated = false;
    if (predicate) {
      inst.extra[3] = lowering.predicate_source(operand, &negated);
      inst.negated = negated;
    } else inst.extra[2] = lowering.source(operand, 4);
  }
  inst.memo = lowering.memo();
  inst.table = lowering.memo();
  note_narrow_shared(lowering, ptx::Space::Shared, uint32_t(bytes));
  lowering.emit(copy_async) = inst;
  return true;
}

}  // namespace

const LowerEntry kAsyncOps[] = {
    {"cp", lower_copy, "shared shared::cta tile arrive b64 mbarrier::complete_tx::bytes bulk_group read"},
    {"mbarrier", lower_mbarrier, "b64 acquire release relaxed noComplete shared shared::cta"},
    {nullptr, nullptr}};

}  // namespace vgpu
