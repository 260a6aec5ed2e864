// Warp-wide instructions (shfl, vote, match, redux, elect, activemask), and the operands of block barriers.
#include <algorithm>

#include "alu.h"
#include "cluster.h"
#include "control.h"

namespace vgpu {

namespace {

// Field of all instructions: extra[7] is the place of the member mask.
uint32_t member_mask(const Warp& warp, const Inst& inst, int lane) { return in<uint32_t>(warp, inst.extra[7])[lane]; }

void check_membership(Warp& warp, const Inst& inst) {
  if (!warp.grid->check || inst.extra[7] == kEveryLane || inst.extra[7] == kNoLane) return;
  each(warp.mask, [&](int lane) {
    if (member_mask(warp, inst, lane) >> lane & 1) return;
    report(warp, inst, lane, {"shuffle", 0, 0, "", false}, [&] {
      return "executes " + warp.grid->program->places[inst.where].opcode + " with the mask " +
             hex(member_mask(warp, inst, lane)) + ", which does not name its own lane " + std::to_string(lane);
    });
  });
}

enum Mode : int64_t { Up, Down, Bfly, Idx };

int source_lane(int64_t mode, int lane, uint32_t b, uint32_t c, bool* valid) {
  int bval = int(b & 31), cval = int(c & 31), segment = int(c >> 8 & 31);
  int low = lane & segment, high = low | (cval & ~segment), source = lane;
  switch (mode) {
    case Up:
      source = lane - bval;
      *valid = source >= high;
      break;
    case Down:
      source = lane + bval;
      *valid = source <= high;
      break;
    case Bfly:
      source = lane ^ bval;
      *valid = source <= high;
      break;
    default:
      source = low | (bval & ~segment);
      *valid = source <= high;
      break;
  }
  return *valid ? source : lane;
}

void shfl(Warp& warp, const Inst& inst) {
  check_membership(warp, inst);
  uint32_t value[32];
  std::memcpy(value, in<uint32_t>(warp, inst.a), sizeof value);
  const uint32_t *b = in<uint32_t>(warp, inst.b), *c = in<uint32_t>(warp, inst.c);
  uint32_t result[32] = {}, found = 0;
  each(warp.mask, [&](int lane) {
    bool valid = false;
    int source = source_lane(inst.imm, lane, b[lane], c[lane], &valid);
    found |= uint32_t(valid) << lane;
    result[lane] = value[source];
    if (!warp.grid->check || (warp.mask >> source & 1)) return;
    report(warp, inst, lane, {"shuffle", 0, 0, "", false}, [&] {
      return "reads lane " + std::to_string(source) + " by " + warp.grid->program->places[inst.where].opcode +
             ", but that lane " + (warp.live >> source & 1 ? "does not take part" : "has exited or never was");
    });
  });
  lanes<uint32_t>(warp, inst.d, [&](int lane) { return result[lane]; });
  if (inst.count == 2) pred_out(warp, inst.extra[0], found);
}

template <int Kind>  // all, any, uni, ballot
void vote(Warp& warp, const Inst& inst) {
  check_membership(warp, inst);
  uint32_t chosen = pred_in(warp, inst.a, inst.flags & 1);
  uint32_t result[32] = {}, bits = 0;
  each(warp.mask, [&](int lane) {
    uint32_t members = (inst.extra[7] < kNoLane + 1 ? warp.mask : member_mask(warp, inst, lane)) & warp.mask,
             yes = chosen & members;
    if (Kind == 3) result[lane] = yes;
    else bits |= uint32_t(Kind == 0 ? yes == members : Kind == 1 ? yes != 0 : yes == members || yes == 0) << lane;
  });
  if (Kind == 3) lanes<uint32_t>(warp, inst.d, [&](int lane) { return result[lane]; });
  else pred_out(warp, inst.d, bits);
}

template <class T, bool All>
void match(Warp& warp, const Inst& inst) {
  check_membership(warp, inst);
  T values[32];
  std::memcpy(values, in<T>(warp, inst.a), sizeof values);
  uint32_t result[32] = {}, same_all = 0;
  each(warp.mask, [&](int lane) {
    uint32_t members = member_mask(warp, inst, lane) & warp.mask, same = 0;
    each(members, [&](int other) { same |= uint32_t(values[other] == values[lane]) << other; });
    if (All) {
      bool all = same == members;
      result[lane] = all ? members : 0;
      same_all |= uint32_t(all) << lane;
    } else result[lane] = same;
  });
  lanes<uint32_t>(warp, inst.d, [&](int lane) { return result[lane]; });
  if (All && inst.count == 2) pred_out(warp, inst.extra[0], same_all);
}

template <class T, class F>
void redux(Warp& warp, const Inst& inst, F combine) {
  check_membership(warp, inst);
  T values[32], result[32] = {};
  std::memcpy(values, in<T>(warp, inst.a), sizeof values);
  each(warp.mask, [&](int lane) {
    uint32_t members = member_mask(warp, inst, lane) & warp.mask;
    bool first = true;
    each(members, [&](int other) {
      result[lane] = first ? values[other] : combine(result[lane], values[other]);
      first = false;
    });
  });
  lanes<T>(warp, inst.d, [&](int lane) { return result[lane]; });
}
void redux_add(Warp& warp, const Inst& inst) {
  redux<uint32_t>(warp, inst, [](uint32_t a, uint32_t b) { return a + b; });
}
void redux_and(Warp& warp, const Inst& inst) {
  redux<uint32_t>(warp, inst, [](uint32_t a, uint32_t b) { return a & b; });
}
void redux_or(Warp& warp, const Inst& inst) {
  redux<uint32_t>(warp, inst, [](uint32_t a, uint32_t b) { return a | b; });
}
void redux_xor(Warp& warp, const Inst& inst) {
  redux<uint32_t>(warp, inst, [](uint32_t a, uint32_t b) { return a ^ b; });
}
template <class T>
void redux_min(Warp& warp, const Inst& inst) {
  redux<T>(warp, inst, [](T a, T b) { return std::min(a, b); });
}
template <class T>
void redux_max(Warp& warp, const Inst& inst) {
  redux<T>(warp, inst, [](T a, T b) { return std::max(a, b); });
}

void activemask(Warp& warp, const Inst& inst) {
  uint32_t mask = warp.mask;
  lanes<uint32_t>(warp, inst.d, [mask](int) { return mask; });
}
void sync_warp(Warp& warp, const Inst& inst) { check_membership(warp, inst); }

void elect(Warp& warp, const Inst& inst) {
  uint32_t result[32] = {}, bits = 0;
  each(warp.mask, [&](int lane) {
    uint32_t members = member_mask(warp, inst, lane) & warp.mask;
    int leader = members ? __builtin_ctz(members) : lane;
    result[lane] = uint32_t(leader);
    bits |= uint32_t(leader == lane) << lane;
  });
  if (inst.count) lanes<uint32_t>(warp, inst.d, [&](int lane) { return result[lane]; });
  pred_out(warp, inst.extra[0], bits);
}

bool lower_shfl(Lowering& lowering) {
  lowering.kind = Class::Warp;
  if (!lowering.has("sync") || lowering.operands() != 5) return false;
  const ptx::Operand& target = lowering.operand(0);
  int32_t a = lowering.source(1, 4), b = lowering.source(2, 4), c = lowering.source(3, 4),
          membermask = lowering.source(4, 4), d = lowering.target(target, 4),
          predicate = target.paired ? lowering.predicate(target.parts[0]) : 0;
  Inst& inst = lowering.emit(shfl);
  inst.a = a;
  inst.b = b;
  inst.c = c;
  inst.d = d;
  inst.extra[0] = predicate;
  inst.extra[7] = membermask;
  inst.count = target.paired ? 2 : 1;
  inst.imm = lowering.has("up") ? Up : lowering.has("down") ? Down : lowering.has("bfly") ? Bfly : Idx;
  return true;
}

bool lower_vote(Lowering& lowering) {
  lowering.kind = Class::Warp;
  if (!lowering.has("sync") || lowering.operands() != 3) return false;
  bool negated = false;
  int32_t predicate = lowering.predicate_source(lowering.operand(1), &negated), membermask = lowering.source(2, 4);
  bool ballot = lowering.has("ballot");
  int32_t d = ballot ? lowering.target(size_t(0), 4) : lowering.predicate(lowering.operand(0));
  Inst& inst = lowering.emit(ballot                ? vote<3>
                             : lowering.has("all") ? vote<0>
                             : lowering.has("any") ? vote<1>
                                                   : vote<2>);
  inst.a = predicate;
  inst.flags = negated;
  inst.d = d;
  inst.extra[7] = membermask;
  return true;
}

bool lower_match(Lowering& lowering) {
  lowering.kind = Class::Warp;
  int width = type_width(lowering.type());
  if (lowering.operands() != 3) return false;
  bool all = lowering.has("all");
  int32_t a = lowering.source(1, width), membermask = lowering.source(2, 4),
          d = lowering.target(lowering.operand(0), 4);
  const ptx::Operand& target = lowering.operand(0);
  Inst& inst = lowering.emit(width == 8 ? (all ? match<uint64_t, true> : match<uint64_t, false>)
                             : all      ? match<uint32_t, true>
                                        : Handler(match<uint32_t, false>));
  inst.a = a;
  inst.d = d;
  inst.extra[7] = membermask;
  inst.count = target.paired ? 2 : 1;
  if (target.paired) inst.extra[0] = lowering.predicate(target.parts[0]);
  return true;
}

bool lower_redux(Lowering& lowering) {
  lowering.kind = Class::Warp;
  std::string type = lowering.type();
  if (type != "u32" && type != "s32" && type != "b32") return false;
  bool is_signed = type == "s32";
  Handler fn = lowering.has("add")   ? redux_add
               : lowering.has("and") ? redux_and
               : lowering.has("or")  ? redux_or
               : lowering.has("xor") ? redux_xor
               : lowering.has("min") ? (is_signed ? redux_min<int32_t> : redux_min<uint32_t>)
               : lowering.has("max") ? (is_signed ? redux_max<int32_t> : redux_max<uint32_t>)
                                     : nullptr;
  int32_t a = lowering.source(1, 4), membermask = lowering.source(2, 4), d = lowering.target(size_t(0), 4);
  Inst& inst = lowering.emit(fn);
  inst.a = a;
  inst.d = d;
  inst.extra[7] = membermask;
  return true;
}

bool lower_activemask(Lowering& lowering) {
  lowering.kind = Class::Warp;
  int32_t d = lowering.target(size_t(0), 4);
  Inst& inst = lowering.emit(activemask);
  inst.d = d;
  inst.extra[7] = kNoLane;
  return true;
}

bool lower_elect(Lowering& lowering) {
  lowering.kind = Class::Warp;
  const ptx::Operand& target = lowering.operand(0);
  if (!target.paired || lowering.operands() != 2) return false;
  int32_t membermask = lowering.source(1, 4);
  bool sink = target.kind == ptx::Operand::Sink;
  int32_t d = sink ? 0 : lowering.target(target, 4), predicate = lowering.predicate(target.parts[0]);
  Inst& inst = lowering.emit(elect);
  inst.d = d;
  inst.count = !sink;
  inst.extra[0] = predicate;
  inst.extra[7] = membermask;
  return true;
}

// bar and barrier: the loop of the warp executes them; control.h lists the fields.
void nothing(Warp&, const Inst&) {}

bool lower_bar(Lowering& lowering) {
  lowering.kind = Class::Sync;
  if (lowering.has("warp")) {
    int32_t membermask = lowering.source(size_t(0), 4);
    lowering.emit(sync_warp).extra[7] = membermask;
    return true;
  }
  if (lowering.has("cluster")) {
    bool arrives = lowering.has("arrive");
    if (!arrives && !lowering.has("wait")) return false;
    lowering.emit(arrives ? arrive_cluster : nothing).flags = lowering.has("relaxed") ? kRelaxed : 0;
    return true;
  }
  bool red = lowering.has("red"), arrive = lowering.has("arrive"), barrier = lowering.parts[0] == "barrier";
  size_t at = red ? 1 : 0, count = lowering.operands() - at - (red ? 1 : 0);
  if (lowering.operands() <= at || count < 1 || count > 2 || (arrive && count != 2)) return false;
  int32_t number = lowering.source(at, 4), threads = count == 2 ? lowering.source(at + 1, 4) : kNoLane, predicate = 0,
          d = 0;
  bool negated = false, popc = lowering.has("popc");
  if (red) {
    predicate = lowering.predicate_source(lowering.operand(lowering.operands() - 1), &negated);
    d = popc ? lowering.target(size_t(0), 4) : lowering.predicate(lowering.operand(0));
  }
  Inst& inst = lowering.emit(nothing);
  inst.a = number;
  inst.b = threads;
  inst.c = predicate;
  inst.d = d;
  inst.negated = negated;
  inst.flags = arrive ? kArrive : !red ? kSync : popc ? kRedPopc : lowering.has("and") ? kRedAnd : kRedOr;
  inst.imm = barrier && !lowering.has("aligned") ? kUnaligned : 0;
  return true;
}

}  // namespace

const LowerEntry kWarpOps[] = {{"shfl", lower_shfl, "idx b32"},
                               {"vote", lower_vote, "uni pred b32"},
                               {"match", lower_match, "any"},
                               {"redux", lower_redux, ""},
                               {"activemask", lower_activemask, "b32"},
                               {"elect", lower_elect},
                               {"bar", lower_bar, "cta pred u32 or"},
                               {"barrier", lower_bar, "cta pred u32 or acquire release"},
                               {nullptr, nullptr}};

}  // namespace vgpu
