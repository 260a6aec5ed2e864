// atom and red.
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
  static uint16_t f(uint16_t a, uint16_t b) { return to_half(to_float(Half{a}) + to_float(Half{b})).bits; }
};
struct BrainAdd {
  static uint16_t f(uint16_t a, uint16_t b) {
    return to_brain(to_odd(add_odd(to_float(Brain{a}), to_float(Brain{b})))).bits;
  }
};
template <class One>
uint32_t add_pair(uint32_t a, uint32_t b) {
  return uint32_t(One::f(uint16_t(a), uint16_t(b))) | uint32_t(One::f(uint16_t(a >> 16), uint16_t(b >> 16))) << 16;
}

// Fields: v[0] target (n is 0 for red), v[1] operand b, v[2] operand c.
template <class T, class F>
void atomic(Warp& w, const Inst& inst, F f, Strength strength = Strength::Atomic) {
  Request r;
  r.bytes = sizeof(T);
  r.write = true;
  r.strength = strength;
  addresses(w, inst, &r);
  w.grid->counters.atomics += uint64_t(__builtin_popcount(w.mask));
  T old[32] = {}, b[32], c[32];
  std::memcpy(b, in<T>(w, inst.v[1]), sizeof b);
  std::memcpy(c, in<T>(w, inst.v[2]), sizeof c);
  in_spaces(w, inst, r, [&](const Access& access) {
    if (w.grid->check && access.space != ptx::Space::Local) {
      each(access.mask, [&](int lane) { w.grid->races->acquire(w, location(w, access.space, r.address[lane])); });
      before_strong_store(w, inst, access.space, r, access.mask);
    }
    each(access.mask, [&](int lane) {
      uint8_t* p = access.base + access.delta[lane];
      std::memcpy(&old[lane], p, sizeof(T));
      T next = f(access.space, old[lane], b[lane], c[lane]);
      std::memcpy(p, &next, sizeof(T));
    });
  });
  after_release(w);
  ++w.spins;
  w.quantum -= 16;
  if (inst.n) lanes<T>(w, inst.v[0], [&](int i) { return old[i]; });
}

template <class T, int O>
void atomic_op(Warp& w, const Inst& i) {
  // An exchange does not depend on what was there before.
  Strength strength = O == Exch ? Strength::Strong : Strength::Atomic;
  atomic<T>(w, i, [](ptx::Space, T old, T b, T c) { return apply<T, O>(old, b, c); }, strength);
}
// Sums of floats in global memory are flushed, whatever the kernel was compiled with; those in shared memory are not.
template <>
void atomic_op<float, Add>(Warp& w, const Inst& i) {
  atomic<float>(w, i, [](ptx::Space space, float old, float b, float) {
    return space == ptx::Space::Global ? canonical(flush(flush(old) + flush(b))) : canonical(old + b);
  });
}
template <class One>
void atomic_half(Warp& w, const Inst& i) {
  atomic<uint16_t>(w, i, [](ptx::Space, uint16_t old, uint16_t b, uint16_t) { return One::f(old, b); });
}
template <class One>
void atomic_pair(Warp& w, const Inst& i) {
  atomic<uint32_t>(w, i, [](ptx::Space, uint32_t old, uint32_t b, uint32_t) { return add_pair<One>(old, b); });
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

Handler by_type(const std::string& t, int op) {
  if (t == "u32" || t == "b32") return pick<uint32_t>(op);
  if (t == "s32") return pick<int32_t>(op);
  if (t == "u64" || t == "b64") return pick<uint64_t>(op);
  if (t == "s64") return pick<int64_t>(op);
  if (t == "f32") return op == Add || op == Exch ? pick<float>(op) : nullptr;
  if (t == "f64") return op == Add || op == Exch ? pick<double>(op) : nullptr;
  if (t == "b16" || t == "u16")
    return op == Cas ? atomic_op<uint16_t, Cas> : op == Exch ? atomic_op<uint16_t, Exch> : nullptr;
  if (op != Add) return nullptr;
  if (t == "f16") return atomic_half<HalfAdd>;
  if (t == "bf16") return atomic_half<BrainAdd>;
  if (t == "f16x2") return atomic_pair<HalfAdd>;
  if (t == "bf16x2") return atomic_pair<BrainAdd>;
  return nullptr;
}

int operation(const Lowering& l) {
  static const char* names[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};
  for (int k = 0; k < 10; ++k)
    if (l.has(names[k])) return k;
  return -1;
}

// n elements, each by itself; together they must be aligned as a whole. v[4]: their bytes.
void vector_aligned(Warp& w, const Inst& i) {
  Request r;
  addresses(w, i, &r);
  each(w.mask, [&](int lane) {
    if (r.address[lane] % uint32_t(i.v[4]) == 0) return;
    report(w, i, lane, {"misaligned", r.address[lane], uint32_t(i.v[4]), "global", true}, [&] {
      return "adds " + std::to_string(i.v[4]) + " bytes to global memory at " + hex(r.address[lane]) +
             ", which is not a multiple of " + std::to_string(i.v[4]);
    });
  });
}

// red of two, four or eight elements: one after the other.
bool lower_vector_red(Lowering& l) {
  std::string t = l.type();
  AddressForm a;
  if (l.operands() < 2 || !address_form(l, l.operand(0), &a) || a.space != ptx::Space::Global) return false;
  Handler fn = by_type(t, operation(l));
  const auto& parts = l.operand(1).parts;
  if (!fn || operation(l) != Add || parts.size() < 2) return false;
  l.kind = Class::Atomic;
  Inst form;
  form.a = a.base;
  form.imm = a.imm;
  form.c = int32_t(a.space);
  form.flags = uint8_t(a.flags | strength_flags(l) | kStrong);
  form.bytes = uint8_t(type_bytes(t));
  form.n = 0;
  form.v[4] = int32_t(parts.size()) * type_bytes(t);
  form.fn = vector_aligned;
  form.memo = l.memo();
  l.emit(vector_aligned) = form;
  for (const ptx::Operand& part : parts) {
    form.fn = fn;
    form.v[1] = form.v[2] = l.source(part, type_width(t), t[0]);
    form.memo = l.memo();
    l.emit(fn) = form;
    form.imm += type_bytes(t);
  }
  return true;
}

bool lower_atomic(Lowering& l, bool returns) {
  std::string t = l.type();
  int op = operation(l), width = type_width(t);
  size_t at = returns ? 1 : 0;
  AddressForm a;
  if (op < 0 || t.empty() || l.has("v2") || l.has("v4") || l.has("async") || l.operands() < at + 2 ||
      !address_form(l, l.operand(at), &a))
    return false;
  Handler fn = by_type(t, op);
  if (!fn) return false;
  l.kind = Class::Atomic;
  int32_t b = l.source(at + 1, width, t[0]), c = op == Cas ? l.source(at + 2, width, t[0]) : b;
  int32_t d = returns ? l.target(size_t(0), width) : 0;
  Inst& i = l.emit(fn);
  i.v[0] = d;
  i.v[1] = b;
  i.v[2] = c;
  i.n = returns;
  i.a = a.base;
  i.imm = a.imm;
  i.c = int32_t(a.space);
  i.flags = uint8_t(a.flags | strength_flags(l) | kStrong);
  i.bytes = uint8_t(type_bytes(t));
  i.memo = l.memo();
  note_narrow_shared(l, a.space, uint32_t(type_bytes(t)));
  return true;
}

bool lower_atom(Lowering& l) { return lower_atomic(l, true); }
bool lower_red(Lowering& l) {
  bool vector = l.has("v2") || l.has("v4") || l.has("v8");
  return vector && !l.has("async") ? lower_vector_red(l) : lower_atomic(l, false);
}

}  // namespace

const LowerEntry kAtomicOps[] = {{"atom", lower_atom}, {"red", lower_red}, {nullptr, nullptr}};

}  // namespace vgpu
