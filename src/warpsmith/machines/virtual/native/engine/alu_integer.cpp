// Integer arithmetic: wrap-around, wide and high products, saturation, carries, division. PTX leaves division by zero
// unspecified; the results here are those of hardware.
#include "alu.h"

namespace vgpu {

namespace {

template <class T>
using U = std::make_unsigned_t<T>;
template <class T>
struct Wide;
template <>
struct Wide<int16_t> {
  using type = int32_t;
};
template <>
struct Wide<uint16_t> {
  using type = uint32_t;
};
template <>
struct Wide<int32_t> {
  using type = int64_t;
};
template <>
struct Wide<uint32_t> {
  using type = uint64_t;
};
template <>
struct Wide<int64_t> {
  using type = __int128;
};
template <>
struct Wide<uint64_t> {
  using type = unsigned __int128;
};
template <class T>
using W = typename Wide<T>::type;

template <class T>
struct Add {
  static T apply(T a, T b) { return T(U<T>(a) + U<T>(b)); }
};
template <class T>
struct Sub {
  static T apply(T a, T b) { return T(U<T>(a) - U<T>(b)); }
};
template <class T>
struct MulLo {
  static T apply(T a, T b) { return T(W<T>(a) * W<T>(b)); }
};
template <>
struct MulLo<int32_t> {
  static int32_t apply(int32_t a, int32_t b) { return int32_t(uint32_t(a) * uint32_t(b)); }
};
template <>
struct MulLo<uint32_t> {
  static uint32_t apply(uint32_t a, uint32_t b) { return a * b; }
};
template <>
struct MulLo<int64_t> {
  static int64_t apply(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
};
template <>
struct MulLo<uint64_t> {
  static uint64_t apply(uint64_t a, uint64_t b) { return a * b; }
};
template <class T>
struct MulHi {
  static T apply(T a, T b) { return T((W<T>(a) * W<T>(b)) >> (8 * sizeof(T))); }
};
template <class T>
struct MadLo {
  static T apply(T a, T b, T c) { return Add<T>::apply(MulLo<T>::apply(a, b), c); }
};
template <class T>
struct MadHi {
  static T apply(T a, T b, T c) { return Add<T>::apply(MulHi<T>::apply(a, b), c); }
};
template <class T>
struct Div {
  static T apply(T a, T b) {
    if (b == 0) return T(-1);
    if (std::is_signed_v<T> && b == T(-1)) return T(U<T>(0) - U<T>(a));
    return T(a / b);
  }
};
template <class T>
struct Rem {
  static T apply(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == T(-1)) return 0;
    return T(a % b);
  }
};
template <class T>
struct Abs {
  static T apply(T a) { return a < 0 ? T(U<T>(0) - U<T>(a)) : a; }
};
template <class T>
struct Neg {
  static T apply(T a) { return T(U<T>(0) - U<T>(a)); }
};
template <class T>
struct Min {
  static T apply(T a, T b) { return a < b ? a : b; }
};
template <class T>
struct Max {
  static T apply(T a, T b) { return a > b ? a : b; }
};
template <class T>
struct MinRelu {
  static T apply(T a, T b) {
    T chosen = a < b ? a : b;
    return chosen < 0 ? T(0) : chosen;
  }
};
template <class T>
struct MaxRelu {
  static T apply(T a, T b) {
    T chosen = a > b ? a : b;
    return chosen < 0 ? T(0) : chosen;
  }
};
template <class T>
struct Sad {
  static T apply(T a, T b, T c) { return T(U<T>(c) + (a < b ? U<T>(b) - U<T>(a) : U<T>(a) - U<T>(b))); }
};

int32_t saturated(int64_t value) {
  return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : int32_t(value);
}
template <class T>
struct AddSat {
  static T apply(T a, T b) { return T(saturated(int64_t(a) + int64_t(b))); }
};
template <class T>
struct SubSat {
  static T apply(T a, T b) { return T(saturated(int64_t(a) - int64_t(b))); }
};
template <class T>
struct MadHiSat {
  static T apply(T a, T b, T c) { return T(saturated((int64_t(a) * int64_t(b) >> 32) + c)); }
};

template <class T>
struct MulWide {
  static W<T> apply(T a, T b) { return W<T>(a) * W<T>(b); }
};
template <class T>
struct MadWide {
  static W<T> apply(T a, T b, W<T> c) { return W<T>(U<W<T>>(W<T>(a) * W<T>(b)) + U<W<T>>(c)); }
};

template <class T>
T low24(T value) {
  return std::is_signed_v<T> ? T(T(U<T>(value) << 8) >> 8) : T(value & T(0xffffff));
}
template <class T>
struct Mul24Lo {
  static T apply(T a, T b) { return T(int64_t(low24(a)) * int64_t(low24(b))); }
};
template <class T>
struct Mul24Hi {
  static T apply(T a, T b) { return T((int64_t(low24(a)) * int64_t(low24(b))) >> 16); }
};
template <class T>
struct Mad24Lo {
  static T apply(T a, T b, T c) { return Add<T>::apply(Mul24Lo<T>::apply(a, b), c); }
};
template <class T>
struct Mad24Hi {
  static T apply(T a, T b, T c) { return Add<T>::apply(Mul24Hi<T>::apply(a, b), c); }
};
struct Mad24HiSat {
  static int32_t apply(int32_t a, int32_t b, int32_t c) {
    return saturated(int64_t(Mul24Hi<int32_t>::apply(a, b)) + c);
  }
};

// Pairs of 16-bit integers in one register.
template <class T, template <class> class Op>
struct Pair {
  static uint32_t apply(uint32_t a, uint32_t b) {
    uint16_t lo = uint16_t(Op<T>::apply(T(a), T(b))), hi = uint16_t(Op<T>::apply(T(a >> 16), T(b >> 16)));
    return uint32_t(lo) | uint32_t(hi) << 16;
  }
};

// add.cc, addc, sub.cc, subc: the carry flag (CC.CF) is one bit a lane.
template <class T, bool Subtract, bool Use, bool Set>
void carry_op(Warp& warp, const Inst& inst) {
  const T *a = in<T>(warp, inst.a), *b = in<T>(warp, inst.b);
  T* d = out<T>(warp, inst.d);
  uint32_t carry = warp.carry;
  each(warp.mask, [&](int lane) {
    T in_bit = Use ? T(warp.carry >> lane & 1) : T(0);
    unsigned __int128 result =
        Subtract ? (unsigned __int128)a[lane] - b[lane] - in_bit : (unsigned __int128)a[lane] + b[lane] + in_bit;
    bool out_bit = (result >> (8 * sizeof(T))) & 1;
    d[lane] = T(result);
    carry = (carry & ~(1u << lane)) | uint32_t(out_bit) << lane;
  });
  if (Set) warp.carry = carry;
}

template <class T, bool Hi, bool Use, bool Set>
void mad_carry(Warp& warp, const Inst& inst) {
  const T *a = in<T>(warp, inst.a), *b = in<T>(warp, inst.b), *c = in<T>(warp, inst.c);
  T* d = out<T>(warp, inst.d);
  uint32_t carry = warp.carry;
  each(warp.mask, [&](int lane) {
    W<T> product = W<T>(a[lane]) * W<T>(b[lane]);
    U<T> part = U<T>(Hi ? product >> (8 * sizeof(T)) : product);
    unsigned __int128 result = (unsigned __int128)part + U<T>(c[lane]) + (Use ? warp.carry >> lane & 1 : 0);
    d[lane] = T(result);
    carry = (carry & ~(1u << lane)) | uint32_t((result >> (8 * sizeof(T))) & 1) << lane;
  });
  if (Set) warp.carry = carry;
}

template <bool Subtract>
Handler carry_handler(const std::string& type, bool use, bool set) {
  bool wide = type_width(type) == 8;
  if (wide)
    return use ? (set ? carry_op<uint64_t, Subtract, true, true> : carry_op<uint64_t, Subtract, true, false>)
               : carry_op<uint64_t, Subtract, false, true>;
  return use ? (set ? carry_op<uint32_t, Subtract, true, true> : carry_op<uint32_t, Subtract, true, false>)
             : carry_op<uint32_t, Subtract, false, true>;
}

template <class T, bool Hi>
Handler mad_handler(bool use, bool set) {
  return use ? (set ? mad_carry<T, Hi, true, true> : mad_carry<T, Hi, true, false>) : mad_carry<T, Hi, false, true>;
}

Handler mad_carry_handler(const std::string& type, bool hi, bool use, bool set) {
  return find_handler({{"s32", hi ? mad_handler<int32_t, true>(use, set) : mad_handler<int32_t, false>(use, set)},
                       {"u32", hi ? mad_handler<uint32_t, true>(use, set) : mad_handler<uint32_t, false>(use, set)},
                       {"s64", hi ? mad_handler<int64_t, true>(use, set) : mad_handler<int64_t, false>(use, set)},
                       {"u64", hi ? mad_handler<uint64_t, true>(use, set) : mad_handler<uint64_t, false>(use, set)}},
                      type);
}

template <template <class> class Op>
Handler pair_handler(const std::string& type) {
  if (type == "u16x2") return binary<uint32_t, Pair<uint16_t, Op>>;
  if (type == "s16x2") return binary<uint32_t, Pair<int16_t, Op>>;
  return nullptr;
}

bool lower_wide(Lowering& lowering, const std::string& type, bool add) {
  int from = type_width(type), to = from * 2;
  Handler fn = nullptr;
  if (type == "s16")
    fn = add ? Handler(map3<int32_t, int16_t, int16_t, int32_t, MadWide<int16_t>>)
             : map2<int32_t, int16_t, int16_t, MulWide<int16_t>>;
  if (type == "u16")
    fn = add ? Handler(map3<uint32_t, uint16_t, uint16_t, uint32_t, MadWide<uint16_t>>)
             : map2<uint32_t, uint16_t, uint16_t, MulWide<uint16_t>>;
  if (type == "s32")
    fn = add ? Handler(map3<int64_t, int32_t, int32_t, int64_t, MadWide<int32_t>>)
             : map2<int64_t, int32_t, int32_t, MulWide<int32_t>>;
  if (type == "u32")
    fn = add ? Handler(map3<uint64_t, uint32_t, uint32_t, uint64_t, MadWide<uint32_t>>)
             : map2<uint64_t, uint32_t, uint32_t, MulWide<uint32_t>>;
  if (!fn || to > 8) return false;
  int32_t a = lowering.source(1, from, type[0]), b = lowering.source(2, from, type[0]),
          c = add ? lowering.source(3, to, type[0]) : 0;
  int32_t d = lowering.target(size_t(0), to, type[0] == 's');
  Inst& inst = lowering.emit(fn);
  inst.d = d;
  inst.a = a;
  inst.b = b;
  inst.c = c;
  return true;
}

bool lower_mul(Lowering& lowering) {
  std::string type = lowering.type();
  if (lowering.has("wide")) return lower_wide(lowering, type, false);
  int width = type_width(type);
  return emit_sources(lowering,
                      lowering.has("hi") ? VGPU_BY_INTEGER(type, binary, MulHi) : VGPU_BY_INTEGER(type, binary, MulLo),
                      width, 2, type[0]);
}

bool lower_mad(Lowering& lowering) {
  std::string type = lowering.type();
  if (lowering.has("wide")) return lower_wide(lowering, type, true);
  int width = type_width(type);
  if (lowering.has("cc"))
    return emit_sources(lowering, mad_carry_handler(type, lowering.has("hi"), false, true), width, 3, type[0]);
  if (lowering.has("sat"))
    return type == "s32" && lowering.has("hi") &&
           emit_sources(lowering, ternary<int32_t, MadHiSat<int32_t>>, 4, 3, 's');
  return emit_sources(
      lowering, lowering.has("hi") ? VGPU_BY_INTEGER(type, ternary, MadHi) : VGPU_BY_INTEGER(type, ternary, MadLo),
      width, 3, type[0]);
}

bool lower_madc(Lowering& lowering) {
  std::string type = lowering.type();
  lowering.kind = Class::Int;
  return emit_sources(lowering, mad_carry_handler(type, lowering.has("hi"), true, lowering.has("cc")), type_width(type),
                      3, type[0]);
}

bool lower_add_sub(Lowering& lowering, bool subtract) {
  std::string type = lowering.type();
  int width = type_width(type);
  if (type == "u16x2" || type == "s16x2")
    return emit_sources(lowering, subtract ? pair_handler<Sub>(type) : pair_handler<Add>(type), 4, 2);
  if (lowering.has("cc"))
    return emit_sources(lowering,
                        subtract ? carry_handler<true>(type, false, true) : carry_handler<false>(type, false, true),
                        width, 2, type[0]);
  if (lowering.has("sat"))
    return type == "s32" &&
           emit_sources(lowering,
                        subtract ? Handler(binary<int32_t, SubSat<int32_t>>) : binary<int32_t, AddSat<int32_t>>, 4, 2,
                        's');
  return emit_sources(lowering, subtract ? VGPU_BY_INTEGER(type, binary, Sub) : VGPU_BY_INTEGER(type, binary, Add),
                      width, 2, type[0]);
}

bool lower_addc(Lowering& lowering) {
  std::string type = lowering.type();
  return emit_sources(lowering, carry_handler<false>(type, true, lowering.has("cc")), type_width(type), 2, type[0]);
}
bool lower_subc(Lowering& lowering) {
  std::string type = lowering.type();
  return emit_sources(lowering, carry_handler<true>(type, true, lowering.has("cc")), type_width(type), 2, type[0]);
}

bool lower_min_max(Lowering& lowering, bool max) {
  std::string type = lowering.type();
  bool relu = lowering.has("relu");
  if (type == "u16x2" || type == "s16x2") {
    Handler fn = max ? (relu ? pair_handler<MaxRelu>(type) : pair_handler<Max>(type))
                     : (relu ? pair_handler<MinRelu>(type) : pair_handler<Min>(type));
    return emit_sources(lowering, fn, 4, 2);
  }
  Handler fn = max ? VGPU_BY_INTEGER(type, binary, Max) : VGPU_BY_INTEGER(type, binary, Min);
  if (relu)
    fn = type != "s32" ? nullptr : max ? Handler(binary<int32_t, MaxRelu<int32_t>>) : binary<int32_t, MinRelu<int32_t>>;
  return emit_sources(lowering, fn, type_width(type), 2, type[0]);
}

bool lower_24(Lowering& lowering) {
  std::string type = lowering.type();
  bool hi = lowering.has("hi"), mad = lowering.parts[0] == "mad24";
  if (mad && hi && type == "s32" && lowering.has("sat"))
    return emit_sources(lowering, ternary<int32_t, Mad24HiSat>, 4, 3, 's');
  if (type == "s32")
    return emit_sources(lowering,
                        mad  ? (hi ? Handler(ternary<int32_t, Mad24Hi<int32_t>>) : ternary<int32_t, Mad24Lo<int32_t>>)
                        : hi ? Handler(binary<int32_t, Mul24Hi<int32_t>>)
                             : binary<int32_t, Mul24Lo<int32_t>>,
                        4, mad ? 3 : 2, 's');
  if (type == "u32")
    return emit_sources(
        lowering,
        mad  ? (hi ? Handler(ternary<uint32_t, Mad24Hi<uint32_t>>) : ternary<uint32_t, Mad24Lo<uint32_t>>)
        : hi ? Handler(binary<uint32_t, Mul24Hi<uint32_t>>)
             : binary<uint32_t, Mul24Lo<uint32_t>>,
        4, mad ? 3 : 2, 'u');
  return false;
}

bool lower_sad(Lowering& lowering) {
  std::string type = lowering.type();
  return emit_sources(lowering, VGPU_BY_INTEGER(type, ternary, Sad), type_width(type), 3, type[0]);
}
bool lower_division(Lowering& lowering, Handler fn) {
  std::string type = lowering.type();
  lowering.times = type_width(type) == 8 ? 80 : 22;  // instructions that ptxas emits for it on compute capability 9.0
  return emit_sources(lowering, fn, type_width(type), 2, type[0]);
}
bool lower_rem(Lowering& lowering) { return lower_division(lowering, VGPU_BY_INTEGER(lowering.type(), binary, Rem)); }

}  // namespace

bool lower_integer(Lowering& lowering) {
  std::string type = lowering.type();
  std::string_view op = lowering.parts[0];
  int width = type_width(type);
  if (op == "add") return lower_add_sub(lowering, false);
  if (op == "sub") return lower_add_sub(lowering, true);
  if (op == "mul") return lower_mul(lowering);
  if (op == "mad") return lower_mad(lowering);
  if (op == "div") return lower_division(lowering, VGPU_BY_INTEGER(type, binary, Div));
  if (op == "abs") return emit_sources(lowering, VGPU_BY_INTEGER(type, unary, Abs), width, 1, type[0]);
  if (op == "neg") return emit_sources(lowering, VGPU_BY_INTEGER(type, unary, Neg), width, 1, type[0]);
  if (op == "min") return lower_min_max(lowering, false);
  if (op == "max") return lower_min_max(lowering, true);
  return false;
}

const LowerEntry kIntegerOps[] = {{"addc", lower_addc}, {"subc", lower_subc}, {"madc", lower_madc}, {"mul24", lower_24},
                                  {"mad24", lower_24},  {"sad", lower_sad},   {"rem", lower_rem},   {nullptr, nullptr}};

}  // namespace vgpu
