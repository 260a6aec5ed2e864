// mov, cvta, isspacep, mapa and instructions that do nothing here.
#include "access.h"
#include "alu.h"
#include "cluster.h"
#include "control.h"

namespace vgpu {

void unknown_instruction(Warp& warp, const Inst& inst) {
  stop(warp, inst, Status::UnknownInstruction, warp.grid->program->places[inst.where].opcode);
}

namespace {

template <class T>
struct Same {
  static T apply(T a) { return a; }
};

void mov_pred(Warp& warp, const Inst& inst) { pred_out(warp, inst.d, pred_in(warp, inst.a, inst.flags)); }

// {a, b} to one register, and the reverse.
template <class Whole, class Part>
void join(Warp& warp, const Inst& inst) {
  constexpr int count = sizeof(Whole) / sizeof(Part);
  const Part* parts[count];
  for (int k = 0; k < count; ++k) parts[k] = in<Part>(warp, inst.extra[k]);
  lanes<Whole>(warp, inst.d, [&parts](int lane) {
    Whole result = 0;
    for (int k = 0; k < count; ++k) result = Whole(result | Whole(parts[k][lane]) << (8 * sizeof(Part) * unsigned(k)));
    return result;
  });
}

template <class Whole, class Part>
void break_up(Warp& warp, const Inst& inst) {
  constexpr int count = sizeof(Whole) / sizeof(Part);
  Whole copy[32];
  std::memcpy(copy, in<Whole>(warp, inst.a), sizeof copy);
  for (int k = 0; k < count; ++k)
    lanes<Part>(warp, inst.extra[k], [&](int lane) { return Part(copy[lane] >> (8 * sizeof(Part) * unsigned(k))); });
}

int vector_width(Lowering& lowering, const ptx::Operand& operand, int whole) {
  (void)lowering;
  return operand.parts.empty() ? 0 : whole / int(operand.parts.size());
}

bool lower_join(Lowering& lowering, int width) {
  const ptx::Operand& operand = lowering.operand(1);
  int part = vector_width(lowering, operand, width);
  Handler fn = width == 4 && part == 2   ? join<uint32_t, uint16_t>
               : width == 8 && part == 4 ? join<uint64_t, uint32_t>
               : width == 8 && part == 2 ? join<uint64_t, uint16_t>
                                         : nullptr;
  if (!fn) return false;
  int32_t sources[4] = {};
  for (size_t k = 0; k < operand.parts.size(); ++k) sources[k] = lowering.source(operand.parts[k], part);
  int32_t d = lowering.target(size_t(0), width);
  Inst& inst = lowering.emit(fn);
  inst.d = d;
  for (size_t k = 0; k < operand.parts.size(); ++k) inst.extra[k] = sources[k];
  return true;
}

bool lower_break(Lowering& lowering, int width) {
  const ptx::Operand& operand = lowering.operand(0);
  int part = vector_width(lowering, operand, width);
  Handler fn = width == 4 && part == 2   ? break_up<uint32_t, uint16_t>
               : width == 8 && part == 4 ? break_up<uint64_t, uint32_t>
               : width == 8 && part == 2 ? break_up<uint64_t, uint16_t>
                                         : nullptr;
  if (!fn) return false;
  int32_t a = lowering.source(1, width), d[4] = {};
  for (size_t k = 0; k < operand.parts.size(); ++k) d[k] = lowering.target(operand.parts[k], part);
  Inst& inst = lowering.emit(fn);
  inst.a = a;
  for (size_t k = 0; k < operand.parts.size(); ++k) inst.extra[k] = d[k];
  return true;
}

bool lower_mov(Lowering& lowering) {
  lowering.kind = Class::Move;
  if (lowering.operands() != 2) return false;
  if (lowering.has("pred")) {
    bool negated = false;
    int32_t a = lowering.predicate_source(lowering.operand(1), &negated), d = lowering.predicate(lowering.operand(0));
    Inst& inst = lowering.emit(mov_pred);
    inst.a = a;
    inst.d = d;
    inst.flags = negated;
    return true;
  }
  int width = type_width(lowering.type());
  if (lowering.operand(1).kind == ptx::Operand::Vector) return lower_join(lowering, width);
  if (lowering.operand(0).kind == ptx::Operand::Vector) return lower_break(lowering, width);
  Handler fn = width == 2   ? unary<uint16_t, Same<uint16_t>>
               : width == 4 ? unary<uint32_t, Same<uint32_t>>
               : width == 8 ? Handler(unary<uint64_t, Same<uint64_t>>)
                            : nullptr;
  if (lowering.operand(1).kind == ptx::Operand::Special && lowering.operand(0).kind == ptx::Operand::Reg) {
    int natural = 4;
    Handler special = special_register(lowering.operand(1).name, &natural);
    if (special && natural == width && lowering.register_width(lowering.operand(0)) == width) {
      int32_t d = lowering.target(size_t(0), width);
      lowering.emit(special).d = d;
      return true;
    }
  }
  return emit_sources(lowering, fn, width, 1);
}

uint64_t window_of(const Lowering& lowering) {
  if (lowering.has("shared") || lowering.has("shared::cta") || lowering.has("shared::cluster")) return kSharedWindow;
  if (lowering.has("local")) return kLocalWindow;
  if (lowering.has("param") || lowering.has("param::entry")) return kParamWindow;
  return 0;
}

void add_window(Warp& warp, const Inst& inst) {
  const uint64_t* a = in<uint64_t>(warp, inst.a);
  uint64_t base = uint64_t(inst.imm);
  lanes<uint64_t>(warp, inst.d, [=](int lane) { return a[lane] + base; });
}

bool lower_cvta(Lowering& lowering) {
  if (lowering.type() != "u64" || lowering.operands() != 2) return false;
  uint64_t window = window_of(lowering);
  int32_t a = lowering.source(1, 8), d = lowering.target(size_t(0), 8);
  Inst& inst = lowering.emit(window ? add_window : unary<uint64_t, Same<uint64_t>>);
  inst.a = a;
  inst.d = d;
  inst.imm = int64_t(lowering.has("to") ? 0 - window : window);
  return true;
}

void isspacep(Warp& warp, const Inst& inst) {
  const uint64_t* a = in<uint64_t>(warp, inst.a);
  uint32_t result = 0;
  each(warp.mask, [&](int lane) {
    bool own = !inst.count || owner_of(warp, a[lane] & (kWindowBytes - 1)) == warp.block;
    result |= uint32_t(generic_space(a[lane]) == ptx::Space(inst.imm) && own) << lane;
  });
  pred_out(warp, inst.d, result);
}

bool lower_isspacep(Lowering& lowering) {
  uint64_t window = window_of(lowering);
  int32_t a = lowering.source(1, 8), d = lowering.predicate(lowering.operand(0));
  Inst& inst = lowering.emit(lowering.has("const") ? nullptr : isspacep);
  inst.a = a;
  inst.d = d;
  inst.count = window == kSharedWindow && !lowering.has("shared::cluster");
  inst.imm = int64_t(window == kSharedWindow  ? ptx::Space::Shared
                     : window == kLocalWindow ? ptx::Space::Local
                     : window == kParamWindow ? ptx::Space::Param
                                              : ptx::Space::Global);
  return true;
}

template <class T>
void mapa(Warp& warp, const Inst& inst) {
  const T* a = in<T>(warp, inst.a);
  const uint32_t* rank = in<uint32_t>(warp, inst.b);
  lanes<T>(warp, inst.d, [&](int lane) {
    T window = sizeof(T) == 8 ? T(a[lane] & ~T(kWindowBytes - 1)) : T(0);
    return T(window | T(in_block(warp, a[lane], rank[lane])));
  });
}

bool lower_mapa(Lowering& lowering) {
  int width = type_width(lowering.type());
  int32_t a = lowering.source(1, width), b = lowering.source(2, 4), d = lowering.target(size_t(0), width);
  Inst& inst = lowering.emit(width == 8 ? mapa<uint64_t> : mapa<uint32_t>);
  inst.a = a;
  inst.b = b;
  inst.d = d;
  return true;
}

// Returns the rank of the block that owns an address of shared memory.
void rank_of(Warp& warp, const Inst& inst) {
  const uint64_t* a = in<uint64_t>(warp, inst.a);
  uint32_t own = rank_in_cluster(warp);
  lanes<uint32_t>(warp, inst.d, [=](int lane) {
    uint32_t rank = uint32_t(a[lane] >> kRankShift) & 0xff;
    return rank ? rank - 1 : own;
  });
}

bool lower_rank(Lowering& lowering) {
  int32_t a = lowering.source(1, 8), d = lowering.target(size_t(0), 4);
  Inst& inst = lowering.emit(rank_of);
  inst.a = a;
  inst.d = d;
  return true;
}

void nothing(Warp&, const Inst&) {}
bool lower_nothing(Lowering& lowering) {
  lowering.kind = Class::Control;
  lowering.emit(nothing);
  return true;
}

void constant_policy(Warp& warp, const Inst& inst) {
  lanes<uint64_t>(warp, inst.d, [](int) { return uint64_t(0); });
}
bool lower_policy(Lowering& lowering) {
  int32_t d = lowering.target(size_t(0), 8);
  lowering.emit(constant_policy).d = d;
  return true;
}

void nanosleep(Warp& warp, const Inst&) {
  warp.quantum = 0;
  warp.grid->clock += 100;
  warp.grid->stalled = true;
}
bool lower_nanosleep(Lowering& lowering) {
  lowering.kind = Class::Control;
  lowering.emit(nanosleep);
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
