// Instructions of a whole warp, and block barriers' operands.
#include <algorithm>

#include "alu.h"
#include "cluster.h"
#include "control.h"

namespace vgpu {

namespace {

// Fields of all of them: v[7] is the place of the member mask.
uint32_t member_mask(const Warp& w, const Inst& i, int lane) { return in<uint32_t>(w, i.v[7])[lane]; }

void check_membership(Warp& w, const Inst& i) {
  if (!w.grid->check || i.v[7] == kEveryLane || i.v[7] == kNoLane) return;
  each(w.mask, [&](int lane) {
    if (member_mask(w, i, lane) >> lane & 1) return;
    report(w, i, lane, {"shuffle", 0, 0, "", false}, [&] {
      return "executes " + w.grid->program->places[i.where].opcode + " with the mask " + hex(member_mask(w, i, lane)) +
             ", which does not name its own lane " + std::to_string(lane);
    });
  });
}

enum Mode : int64_t { Up, Down, Bfly, Idx };

int source_lane(int64_t mode, int lane, uint32_t b, uint32_t c, bool* valid) {
  int bval = int(b & 31), cval = int(c & 31), segment = int(c >> 8 & 31);
  int low = lane & segment, high = low | (cval & ~segment), j = lane;
  switch (mode) {
    case Up:
      j = lane - bval;
      *valid = j >= high;
      break;
    case Down:
      j = lane + bval;
      *valid = j <= high;
      break;
    case Bfly:
      j = lane ^ bval;
      *valid = j <= high;
      break;
    default:
      j = low | (bval & ~segment);
      *valid = j <= high;
      break;
  }
  return *valid ? j : lane;
}

void shfl(Warp& w, const Inst& i) {
  check_membership(w, i);
  uint32_t value[32];
  std::memcpy(value, in<uint32_t>(w, i.a), sizeof value);
  const uint32_t *b = in<uint32_t>(w, i.b), *c = in<uint32_t>(w, i.c);
  uint32_t result[32] = {}, found = 0;
  each(w.mask, [&](int lane) {
    bool valid = false;
    int j = source_lane(i.imm, lane, b[lane], c[lane], &valid);
    found |= uint32_t(valid) << lane;
    result[lane] = value[j];
    if (!w.grid->check || (w.mask >> j & 1)) return;
    report(w, i, lane, {"shuffle", 0, 0, "", false}, [&] {
      return "reads lane " + std::to_string(j) + " by " + w.grid->program->places[i.where].opcode + ", but that lane " +
             (w.live >> j & 1 ? "does not take part" : "has exited or never was");
    });
  });
  lanes<uint32_t>(w, i.d, [&](int l) { return result[l]; });
  if (i.n == 2) pred_out(w, i.v[0], found);
}

template <int Kind>  // all, any, uni, ballot
void vote(Warp& w, const Inst& i) {
  check_membership(w, i);
  uint32_t p = pred_in(w, i.a, i.flags & 1);
  uint32_t result[32] = {}, bits = 0;
  each(w.mask, [&](int lane) {
    uint32_t members = (i.v[7] < kNoLane + 1 ? w.mask : member_mask(w, i, lane)) & w.mask, yes = p & members;
    if (Kind == 3) result[lane] = yes;
    else bits |= uint32_t(Kind == 0 ? yes == members : Kind == 1 ? yes != 0 : yes == members || yes == 0) << lane;
  });
  if (Kind == 3) lanes<uint32_t>(w, i.d, [&](int l) { return result[l]; });
  else pred_out(w, i.d, bits);
}

template <class T, bool All>
void match(Warp& w, const Inst& i) {
  check_membership(w, i);
  T v[32];
  std::memcpy(v, in<T>(w, i.a), sizeof v);
  uint32_t result[32] = {}, same_all = 0;
  each(w.mask, [&](int lane) {
    uint32_t members = member_mask(w, i, lane) & w.mask, same = 0;
    each(members, [&](int other) { same |= uint32_t(v[other] == v[lane]) << other; });
    if (All) {
      bool all = same == members;
      result[lane] = all ? members : 0;
      same_all |= uint32_t(all) << lane;
    } else result[lane] = same;
  });
  lanes<uint32_t>(w, i.d, [&](int l) { return result[l]; });
  if (All && i.n == 2) pred_out(w, i.v[0], same_all);
}

template <class T, class F>
void redux(Warp& w, const Inst& i, F f) {
  check_membership(w, i);
  T v[32], result[32] = {};
  std::memcpy(v, in<T>(w, i.a), sizeof v);
  each(w.mask, [&](int lane) {
    uint32_t members = member_mask(w, i, lane) & w.mask;
    bool first = true;
    each(members, [&](int other) {
      result[lane] = first ? v[other] : f(result[lane], v[other]);
      first = false;
    });
  });
  lanes<T>(w, i.d, [&](int l) { return result[l]; });
}
void redux_add(Warp& w, const Inst& i) {
  redux<uint32_t>(w, i, [](uint32_t a, uint32_t b) { return a + b; });
}
void redux_and(Warp& w, const Inst& i) {
  redux<uint32_t>(w, i, [](uint32_t a, uint32_t b) { return a & b; });
}
void redux_or(Warp& w, const Inst& i) {
  redux<uint32_t>(w, i, [](uint32_t a, uint32_t b) { return a | b; });
}
void redux_xor(Warp& w, const Inst& i) {
  redux<uint32_t>(w, i, [](uint32_t a, uint32_t b) { return a ^ b; });
}
template <class T>
void redux_min(Warp& w, const Inst& i) {
  redux<T>(w, i, [](T a, T b) { return std::min(a, b); });
}
template <class T>
void redux_max(Warp& w, const Inst& i) {
  redux<T>(w, i, [](T a, T b) { return std::max(a, b); });
}

void activemask(Warp& w, const Inst& i) {
  uint32_t m = w.mask;
  lanes<uint32_t>(w, i.d, [m](int) { return m; });
}
void sync_warp(Warp& w, const Inst& i) { check_membership(w, i); }

void elect(Warp& w, const Inst& i) {
  uint32_t result[32] = {}, bits = 0;
  each(w.mask, [&](int lane) {
    uint32_t members = member_mask(w, i, lane) & w.mask;
    int leader = members ? __builtin_ctz(members) : lane;
    result[lane] = uint32_t(leader);
    bits |= uint32_t(leader == lane) << lane;
  });
  if (i.n) lanes<uint32_t>(w, i.d, [&](int l) { return result[l]; });
  pred_out(w, i.v[0], bits);
}

bool lower_shfl(Lowering& l) {
  l.kind = Class::Warp;
  if (!l.has("sync") || l.operands() != 5) return false;
  const ptx::Operand& target = l.operand(0);
  int32_t a = l.source(1, 4), b = l.source(2, 4), c = l.source(3, 4), m = l.source(4, 4), d = l.target(target, 4),
          p = target.paired ? l.predicate(target.parts[0]) : 0;
  Inst& i = l.emit(shfl);
  i.a = a;
  i.b = b;
  i.c = c;
  i.d = d;
  i.v[0] = p;
  i.v[7] = m;
  i.n = target.paired ? 2 : 1;
  i.imm = l.has("up") ? Up : l.has("down") ? Down : l.has("bfly") ? Bfly : Idx;
  return true;
}

bool lower_vote(Lowering& l) {
  l.kind = Class::Warp;
  if (!l.has("sync") || l.operands() != 3) return false;
  bool negated = false;
  int32_t p = l.predicate_source(l.operand(1), &negated), m = l.source(2, 4);
  bool ballot = l.has("ballot");
  int32_t d = ballot ? l.target(size_t(0), 4) : l.predicate(l.operand(0));
  Inst& i = l.emit(ballot ? vote<3> : l.has("all") ? vote<0> : l.has("any") ? vote<1> : vote<2>);
  i.a = p;
  i.flags = negated;
  i.d = d;
  i.v[7] = m;
  return true;
}

bool lower_match(Lowering& l) {
  l.kind = Class::Warp;
  int width = type_width(l.type());
  if (l.operands() != 3) return false;
  bool all = l.has("all");
  int32_t a = l.source(1, width), m = l.source(2, 4), d = l.target(l.operand(0), 4);
  const ptx::Operand& target = l.operand(0);
  Inst& i = l.emit(width == 8 ? (all ? match<uint64_t, true> : match<uint64_t, false>)
                   : all      ? match<uint32_t, true>
                              : Handler(match<uint32_t, false>));
  i.a = a;
  i.d = d;
  i.v[7] = m;
  i.n = target.paired ? 2 : 1;
  if (target.paired) i.v[0] = l.predicate(target.parts[0]);
  return true;
}

bool lower_redux(Lowering& l) {
  l.kind = Class::Warp;
  std::string t = l.type();
  if (t != "u32" && t != "s32" && t != "b32") return false;
  bool s = t == "s32";
  Handler fn = l.has("add")   ? redux_add
               : l.has("and") ? redux_and
               : l.has("or")  ? redux_or
               : l.has("xor") ? redux_xor
               : l.has("min") ? (s ? redux_min<int32_t> : redux_min<uint32_t>)
               : l.has("max") ? (s ? redux_max<int32_t> : redux_max<uint32_t>)
                              : nullptr;
  int32_t a = l.source(1, 4), m = l.source(2, 4), d = l.target(size_t(0), 4);
  Inst& i = l.emit(fn);
  i.a = a;
  i.d = d;
  i.v[7] = m;
  return true;
}

bool lower_activemask(Lowering& l) {
  l.kind = Class::Warp;
  int32_t d = l.target(size_t(0), 4);
  Inst& i = l.emit(activemask);
  i.d = d;
  i.v[7] = kNoLane;
  return true;
}

bool lower_elect(Lowering& l) {
  l.kind = Class::Warp;
  const ptx::Operand& target = l.operand(0);
  if (!target.paired || l.operands() != 2) return false;
  int32_t m = l.source(1, 4);
  bool sink = target.kind == ptx::Operand::Sink;
  int32_t d = sink ? 0 : l.target(target, 4), p = l.predicate(target.parts[0]);
  Inst& i = l.emit(elect);
  i.d = d;
  i.n = !sink;
  i.v[0] = p;
  i.v[7] = m;
  return true;
}

// bar and barrier: one instruction of the warp's loop; see control.h for the fields.
void nothing(Warp&, const Inst&) {}

bool lower_bar(Lowering& l) {
  l.kind = Class::Sync;
  if (l.has("warp")) {
    int32_t m = l.source(size_t(0), 4);
    l.emit(sync_warp).v[7] = m;
    return true;
  }
  if (l.has("cluster")) {
    bool arrives = l.has("arrive");
    if (!arrives && !l.has("wait")) return false;
    l.emit(arrives ? arrive_cluster : nothing).flags = l.has("relaxed") ? kRelaxed : 0;
    return true;
  }
  bool red = l.has("red"), arrive = l.has("arrive"), barrier = l.parts[0] == "barrier";
  size_t at = red ? 1 : 0, count = l.operands() - at - (red ? 1 : 0);
  if (l.operands() <= at || count < 1 || count > 2 || (arrive && count != 2)) return false;
  int32_t number = l.source(at, 4), threads = count == 2 ? l.source(at + 1, 4) : kNoLane, p = 0, d = 0;
  bool negated = false, popc = l.has("popc");
  if (red) {
    p = l.predicate_source(l.operand(l.operands() - 1), &negated);
    d = popc ? l.target(size_t(0), 4) : l.predicate(l.operand(0));
  }
  Inst& i = l.emit(nothing);
  i.a = number;
  i.b = threads;
  i.c = p;
  i.d = d;
  i.negated = negated;
  i.flags = arrive ? kArrive : !red ? kSync : popc ? kRedPopc : l.has("and") ? kRedAnd : kRedOr;
  i.imm = barrier && !l.has("aligned") ? kUnaligned : 0;
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
