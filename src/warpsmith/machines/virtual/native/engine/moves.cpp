// mov and address conversions.
#include "access.h"
#include "alu.h"
#include "cluster.h"
#include "control.h"

namespace vgpu {

void unknown_instruction(Warp& w, const Inst& inst) {
  stop(w, inst, Status::UnknownInstruction, w.grid->program->places[inst.where].opcode);
}

namespace {

template <class T>
struct Same {
  static T f(T a) { return a; }
};

void mov_pred(Warp& w, const Inst& i) { pred_out(w, i.d, pred_in(w, i.a, i.flags)); }

// {a, b} to one register, and back.
template <class Whole, class Part>
void join(Warp& w, const Inst& i) {
  constexpr int n = sizeof(Whole) / sizeof(Part);
  const Part* p[n];
  for (int k = 0; k < n; ++k) p[k] = in<Part>(w, i.v[k]);
  lanes<Whole>(w, i.d, [&p](int l) {
    Whole r = 0;
    for (int k = 0; k < n; ++k) r = Whole(r | Whole(p[k][l]) << (8 * sizeof(Part) * unsigned(k)));
    return r;
  });
}

template <class Whole, class Part>
void break_up(Warp& w, const Inst& i) {
  constexpr int n = sizeof(Whole) / sizeof(Part);
  Whole copy[32];
  std::memcpy(copy, in<Whole>(w, i.a), sizeof copy);
  for (int k = 0; k < n; ++k)
    lanes<Part>(w, i.v[k], [&](int l) { return Part(copy[l] >> (8 * sizeof(Part) * unsigned(k))); });
}

int vector_width(Lowering& l, const ptx::Operand& v, int whole) {
  (void)l;
  return v.parts.empty() ? 0 : whole / int(v.parts.size());
}

bool lower_join(Lowering& l, int width) {
  const ptx::Operand& v = l.operand(1);
  int part = vector_width(l, v, width);
  Handler fn = width == 4 && part == 2   ? join<uint32_t, uint16_t>
               : width == 8 && part == 4 ? join<uint64_t, uint32_t>
               : width == 8 && part == 2 ? join<uint64_t, uint16_t>
                                         : nullptr;
  if (!fn) return false;
  int32_t s[4] = {};
  for (size_t k = 0; k < v.parts.size(); ++k) s[k] = l.source(v.parts[k], part);
  int32_t d = l.target(size_t(0), width);
  Inst& i = l.emit(fn);
  i.d = d;
  for (size_t k = 0; k < v.parts.size(); ++k) i.v[k] = s[k];
  return true;
}

bool lower_break(Lowering& l, int width) {
  const ptx::Operand& v = l.operand(0);
  int part = vector_width(l, v, width);
  Handler fn = width == 4 && part == 2   ? break_up<uint32_t, uint16_t>
               : width == 8 && part == 4 ? break_up<uint64_t, uint32_t>
               : width == 8 && part == 2 ? break_up<uint64_t, uint16_t>
                                         : nullptr;
  if (!fn) return false;
  int32_t a = l.source(1, width), d[4] = {};
  for (size_t k = 0; k < v.parts.size(); ++k) d[k] = l.target(v.parts[k], part);
  Inst& i = l.emit(fn);
  i.a = a;
  for (size_t k = 0; k < v.parts.size(); ++k) i.v[k] = d[k];
  return true;
}

bool lower_mov(Lowering& l) {
  l.kind = Class::Move;
  if (l.operands() != 2) return false;
  if (l.has("pred")) {
    bool negated = false;
    int32_t a = l.predicate_source(l.operand(1), &negated), d = l.predicate(l.operand(0));
    Inst& i = l.emit(mov_pred);
    i.a = a;
    i.d = d;
    i.flags = negated;
    return true;
  }
  int width = type_width(l.type());
  if (l.operand(1).kind == ptx::Operand::Vector) return lower_join(l, width);
  if (l.operand(0).kind == ptx::Operand::Vector) return lower_break(l, width);
  Handler fn = width == 2   ? unary<uint16_t, Same<uint16_t>>
               : width == 4 ? unary<uint32_t, Same<uint32_t>>
               : width == 8 ? Handler(unary<uint64_t, Same<uint64_t>>)
                            : nullptr;
  if (l.operand(1).kind == ptx::Operand::Special && l.operand(0).kind == ptx::Operand::Reg) {
    int natural = 4;
    Handler special = special_register(l.operand(1).name, &natural);
    if (special && natural == width && l.register_width(l.operand(0)) == width) {
      int32_t d = l.target(size_t(0), width);
      l.emit(special).d = d;
      return true;
    }
  }
  return emit_sources(l, fn, width, 1);
}

uint64_t window_of(const Lowering& l) {
  if (l.has("shared") || l.has("shared::cta") || l.has("shared::cluster")) return kSharedWindow;
  if (l.has("local")) return kLocalWindow;
  if (l.has("param") || l.has("param::entry")) return kParamWindow;
  return 0;
}

void add_window(Warp& w, const Inst& i) {
  const uint64_t* a = in<uint64_t>(w, i.a);
  uint64_t base = uint64_t(i.imm);
  lanes<uint64_t>(w, i.d, [=](int l) { return a[l] + base; });
}

bool lower_cvta(Lowering& l) {
  if (l.type() != "u64" || l.operands() != 2) return false;
  uint64_t window = window_of(l);
  int32_t a = l.source(1, 8), d = l.target(size_t(0), 8);
  Inst& i = l.emit(window ? add_window : unary<uint64_t, Same<uint64_t>>);
  i.a = a;
  i.d = d;
  i.imm = int64_t(l.has("to") ? 0 - window : window);
  return true;
}

void isspacep(Warp& w, const Inst& i) {
  const uint64_t* a = in<uint64_t>(w, i.a);
  uint32_t r = 0;
  each(w.mask, [&](int l) {
    bool own = !i.n || owner_of(w, a[l] & (kWindowBytes - 1)) == w.block;
    r |= uint32_t(generic_space(a[l]) == ptx::Space(i.imm) && own) << l;
  });
  pred_out(w, i.d, r);
}

bool lower_isspacep(Lowering& l) {
  uint64_t window = window_of(l);
  int32_t a = l.source(1, 8), d = l.predicate(l.operand(0));
  Inst& i = l.emit(l.has("const") ? nullptr : isspacep);
  i.a = a;
  i.d = d;
  i.n = window == kSharedWindow && !l.has("shared::cluster");
  i.imm = int64_t(window == kSharedWindow  ? ptx::Space::Shared
                  : window == kLocalWindow ? ptx::Space::Local
                  : window == kParamWindow ? ptx::Space::Param
                                           : ptx::Space::Global);
  return true;
}

template <class T>
void mapa(Warp& w, const Inst& i) {
  const T* a = in<T>(w, i.a);
  const uint32_t* rank = in<uint32_t>(w, i.b);
  lanes<T>(w, i.d, [&](int l) {
    T window = sizeof(T) == 8 ? T(a[l] & ~T(kWindowBytes - 1)) : T(0);
    return T(window | T(in_block(w, a[l], rank[l])));
  });
}

bool lower_mapa(Lowering& l) {
  int width = type_width(l.type());
  int32_t a = l.source(1, width), b = l.source(2, 4), d = l.target(size_t(0), width);
  Inst& i = l.emit(width == 8 ? mapa<uint64_t> : mapa<uint32_t>);
  i.a = a;
  i.b = b;
  i.d = d;
  return true;
}

// The rank of the block that an address of shared memory lies in.
void rank_of(Warp& w, const Inst& i) {
  const uint64_t* a = in<uint64_t>(w, i.a);
  uint32_t own = rank_in_cluster(w);
  lanes<uint32_t>(w, i.d, [=](int l) {
    uint32_t rank = uint32_t(a[l] >> kRankShift) & 0xff;
    return rank ? rank - 1 : own;
  });
}

bool lower_rank(Lowering& l) {
  int32_t a = l.source(1, 8), d = l.target(size_t(0), 4);
  Inst& i = l.emit(rank_of);
  i.a = a;
  i.d = d;
  return true;
}

void nothing(Warp&, const Inst&) {}
bool lower_nothing(Lowering& l) {
  l.kind = Class::Control;
  l.emit(nothing);
  return true;
}

void constant_policy(Warp& w, const Inst& i) {
  lanes<uint64_t>(w, i.d, [](int) { return uint64_t(0); });
}
bool lower_policy(Lowering& l) {
  int32_t d = l.target(size_t(0), 8);
  l.emit(constant_policy).d = d;
  return true;
}

void nanosleep(Warp& w, const Inst&) {
  w.quantum = 0;
  w.grid->clock += 100;
  w.grid->stalled = true;
}
bool lower_nanosleep(Lowering& l) {
  l.kind = Class::Control;
  l.emit(nanosleep);
  return true;
}

}  // namespace

const LowerEntry kMoveOps[] = {{"mov", lower_mov},
                               {"cvta", lower_cvta, "global const"},
                               {"isspacep", lower_isspacep, "global"},
                               {"mapa", lower_mapa, "shared::cluster"},
                               {"getctarank", lower_rank, "shared::cluster u32 u64"},
                               {"prefetch", lower_nothing, "*"},
                               {"prefetchu", lower_nothing, "*"},
                               {"discard", lower_nothing, "*"},
                               {"applypriority", lower_nothing, "*"},
                               {"createpolicy", lower_policy, "*"},
                               {"nanosleep", lower_nanosleep, "u32"},
                               {"brkpt", lower_nothing, "*"},
                               {"pmevent", lower_nothing, "*"},
                               {"griddepcontrol", lower_nothing, "*"},
                               {"setmaxnreg", lower_nothing, "*"},
                               {nullptr, nullptr}};

}  // namespace vgpu
