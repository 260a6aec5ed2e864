// atom and red (PTX ISA, "Parallel Synchronization and Communication Instructions").
#include <algorithm>
#include <cmath>

#include "alu.h"
#include "real.h"
#include "transfer.h"

namespace vgpu {

namespace {

enum Op : int { Add, Min, Max, And, Or, Xor, Exch, Cas, Inc, Dec };

template <class T, int O>
T apply(T old, T b, T c) {
  if constexpr (O == Exch) return b;
  else if constexpr (O == Cas) return old == b ? c : old;
  else if constexpr (O == Add) {
    if constexpr (std::is_floating_point_v<T>) return canonical(old + b);
    else return T(std::make_unsigned_t<T>(old) + std::make_unsigned_t<T>(b));
  } else if constexpr (O == Min) return b < old ? b : old;
  else if constexpr (O == Max) return b > old ? b : old;
  else if constexpr (std::is_floating_point_v<T>) return old;
  else if constexpr (O == And) return old & b;
  else if constexpr (O == Or) return old | b;
  else if constexpr (O == Xor) return old ^ b;
  else if constexpr (O == Inc) return old >= b ? T(0) : T(old + 1);
  else return old == 0 || old > b ? b : T(old - 1);
}

struct HalfAdd {
  static uint16_t apply(uint16_t a, uint16_t b) { return to_half(to_float(Half{a}) + to_float(Half{b})).bits; }
};
struct BrainAdd {
  static uint16_t apply(uint16_t a, uint16_t b) {
    return to_brain(to_odd(add_odd(to_float(Brain{a}), to_float(Brain{b})))).bits;
  }
};
template <class One>
uint32_t add_pair(uint32_t a, uint32_t b) {
  return uint32_t(One::apply(uint16_t(a), uint16_t(b))) | uint32_t(One::apply(uint16_t(a >> 16), uint16_t(b >> 16)))
                                                              << 16;
}

// Fields: extra[0] is the target (count is 0 for red), extra[1] is operand b, extra[2] is operand c.
template <class T, class F>
void atomic(Warp& warp, const Inst& inst, F combine, Strength strength = Strength::Atomic) {
  Request request;
  request.bytes = sizeof(T);
  request.write = true;
  request.strength = strength;
  compute_addresses(warp, inst, &request);
  warp.grid->counters.atomics += uint64_t(__builtin_popcount(warp.mask));
  T old[32] = {}, b[32], c[32];
  std::memcpy(b, in<T>(warp, inst.extra[1]), sizeof b);
  std::memcpy(c, in<T>(warp, inst.extra[2]), sizeof c);
  in_spaces(warp, inst, request, [&](const Access& access) {
    if (warp.grid->check && access.space != ptx::Space::Local) {
      each(access.mask,
           [&](int lane) { warp.grid->races->acquire(warp, location(warp, access.space, request.address[lane])); });
      before_strong_store(warp, inst, access.space, request, access.mask);
    }
    each(access.mask, [&](int lane) {
      uint8_t* place = access.base + access.delta[lane];
      std::memcpy(&old[lane], place, sizeof(T));
      T next = combine(access.space, old[lane], b[lane], c[lane]);
      std::memcpy(place, &next, sizeof(T));
    });
  });
  after_release(warp);
  ++warp.spins;
  warp.quantum -= 16;
  if (inst.count) lanes<T>(warp, inst.extra[0], [&](int i) { return old[i]; });
}

template <class T, int O>
void atomic_op(Warp& warp, const Inst& inst) {
  // An exchange does not read the earlier value for its result in memory, so unwritten memory is no fault.
  Strength strength = O == Exch ? Strength::Strong : Strength::Atomic;
  atomic<T>(warp, inst, [](ptx::Space, T old, T b, T c) { return apply<T, O>(old, b, c); }, strength);
}
// PTX ISA, atom.add.f32: sums in global memory flush denormals, whatever .ftz says; sums in shared memory do not.
template <>
void atomic_op<float, Add>(Warp& warp, const Inst& inst) {
  atomic<float>(warp, inst, [](ptx::Space space, float old, float b, float) {
    return space == ptx::Space::Global ? canonical(flush(flush(old) + flush(b))) : canonical(old + b);
  });
}
template <class One>
void atomic_half(Warp& warp, const Inst& inst) {
  atomic<uint16_t>(warp, inst, [](ptx::Space, uint16_t old, uint16_t b, uint16_t) { return One::apply(old, b); });
}
template <class One>
void atomic_pair(Warp& warp, const Inst& inst) {
  atomic<uint32_t>(warp, inst, [](ptx::Space, uint32_t old, uint32_t b, uint32_t) { return add_pair<One>(old, b); });
}

template <class T>
Handler pick(int op) {
  switch (op) {
    case Add: return atomic_op<T, Add>;
    case Min: return atomic_op<T, Min>;
    case Max: return atomic_op<T, Max>;
    case Exch: return atomic_op<T, Exch>;
    case Cas: return atomic_op<T, Cas>;
    default: break;
  }
  if constexpr (std::is_integral_v<T>) switch (op) {
      case And: return atomic_op<T, And>;
      case Or: return atomic_op<T, Or>;
      case Xor: return atomic_op<T, Xor>;
      case Inc: return atomic_op<T, Inc>;
      case Dec: return atomic_op<T, Dec>;
      default: break;
    }
  return nullptr;
}

Handler by_type(const std::string& type, int op) {
  if (type == "u32" || type == "b32") return pick<uint32_t>(op);
  if (type == "s32") return pick<int32_t>(op);
  if (type == "u64" || type == "b64") return pick<uint64_t>(op);
  if (type == "s64") return pick<int64_t>(op);
  if (type == "f32") return op == Add || op == Exch ? pick<float>(op) : nullptr;
  if (type == "f64") return op == Add || op == Exch ? pick<double>(op) : nullptr;
  if (type == "b16" || type == "u16")
    return op == Cas ? atomic_op<uint16_t, Cas> : op == Exch ? atomic_op<uint16_t, Exch> : nullptr;
  if (op != Add) return nullptr;
  return find_handler({{"f16", atomic_half<HalfAdd>},
                       {"bf16", atomic_half<BrainAdd>},
                       {"f16x2", atomic_pair<HalfAdd>},
                       {"bf16x2", atomic_pair<BrainAdd>}},
                      type);
}

int operation(const Lowering& lowering) {
  static const char* names[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};
  for (int k = 0; k < 10; ++k)
    if (lowering.has(names[k])) return k;
  return -1;
}

// Each element is added by itself, but the vector must be aligned as a whole. extra[4] is its size in bytes.
void vector_aligned(Warp& warp, const Inst& inst) {
  Request request;
  compute_addresses(warp, inst, &request);
  each(warp.mask, [&](int lane) {
    if (request.address[lane] % uint32_t(inst.extra[4]) == 0) return;
    report(warp, inst, lane, {"misaligned", request.address[lane], uint32_t(inst.extra[4]), "global", true}, [&] {
      return "adds " + std::to_string(inst.extra[4]) + " bytes to global memory at " + hex(request.address[lane]) +
             ", which is not a multiple of " + std::to_string(inst.extra[4]);
    });
  });
}

// red of two, four or eight elements: one element after the other.
bool lower_vector_red(Lowering& lowering) {
  std::string type = lowering.type();
  AddressForm address;
  if (lowering.operands() < 2 || !address_form(lowering, lowering.operand(0), &address) ||
      address.space != ptx::Space::Global)
    return false;
  Handler fn = by_type(type, operation(lowering));
  const auto& parts = lowering.operand(1).parts;
  if (!fn || operation(lowering) != Add || parts.size() < 2) return false;
  lowering.kind = Class::Atomic;
  Inst form;
  form.a = address.base;
  form.imm = address.imm;
  form.c = int32_t(address.space);
  form.flags = uint8_t(address.flags | strength_flags(lowering) | kStrong);
  form.bytes = uint8_t(type_bytes(type));
  form.count = 0;
  form.extra[4] = int32_t(parts.size()) * type_bytes(type);
  form.fn = vector_aligned;
  form.memo = lowering.memo();
  lowering.emit(vector_aligned) = form;
  for (const ptx::Operand& part : parts) {
    form.fn = fn;
    form.extra[1] = form.extra[2] = lowering.source(part, type_width(type), type[0]);
    form.memo = lowering.memo();
    lowering.emit(fn) = form;
    form.imm += type_bytes(type);
  }
  return true;
}

bool lower_atomic(Lowering& lowering, bool returns) {
  std::string type = lowering.type();
  int op = operation(lowering), width = type_width(type);
  size_t at = returns ? 1 : 0;
  AddressForm form;
  if (op < 0 || type.empty() || lowering.has("v2") || lowering.has("v4") || lowering.has("async") ||
      lowering.operands() < at + 2 || !address_form(lowering, lowering.operand(at), &form))
    return false;
  Handler fn = by_type(type, op);
  if (!fn) return false;
  lowering.kind = Class::Atomic;
  int32_t b = lowering.source(at + 1, width, type[0]), c = op == Cas ? lowering.source(at + 2, width, type[0]) : b;
  int32_t d = returns ? lowering.target(size_t(0), width) : 0;
  Inst& inst = lowering.emit(fn);
  inst.extra[0] = d;
  inst.extra[1] = b;
  inst.extra[2] = c;
  inst.count = returns;
  inst.a = form.base;
  inst.imm = form.imm;
  inst.c = int32_t(form.space);
  inst.flags = uint8_t(form.flags | strength_flags(lowering) | kStrong);
  inst.bytes = uint8_t(type_bytes(type));
  inst.memo = lowering.memo();
  note_narrow_shared(lowering, form.space, uint32_t(type_bytes(type)));
  return true;
}

bool lower_atom(Lowering& lowering) { return lower_atomic(lowering, true); }
bool lower_red(Lowering& lowering) {
  bool vector = lowering.has("v2") || lowering.has("v4") || lowering.has("v8");
  return vector && !lowering.has("async") ? lower_vector_red(lowering) : lower_atomic(lowering, false);
}

}  // namespace

const LowerEntry kAtomicOps[] = {{"atom", lower_atom}, {"red", lower_red}, {nullptr, nullptr}};

}  // namespace vgpu
