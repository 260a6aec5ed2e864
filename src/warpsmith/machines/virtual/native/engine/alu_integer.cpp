// Integer arithmetic: wrap-around, wide and high products, saturation, carries, division as hardware gives it.
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
  static T f(T a, T b) { return T(U<T>(a) + U<T>(b)); }
};
template <class T>
struct Sub {
  static T f(T a, T b) { return T(U<T>(a) - U<T>(b)); }
};
template <class T>
struct MulLo {
  static T f(T a, T b) { return T(W<T>(a) * W<T>(b)); }
};
template <>
struct MulLo<int32_t> {
  static int32_t f(int32_t a, int32_t b) { return int32_t(uint32_t(a) * uint32_t(b)); }
};
template <>
struct MulLo<uint32_t> {
  static uint32_t f(uint32_t a, uint32_t b) { return a * b; }
};
template <>
struct MulLo<int64_t> {
  static int64_t f(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
};
template <>
struct MulLo<uint64_t> {
  static uint64_t f(uint64_t a, uint64_t b) { return a * b; }
};
template <class T>
struct MulHi {
  static T f(T a, T b) { return T((W<T>(a) * W<T>(b)) >> (8 * sizeof(T))); }
};
template <class T>
struct MadLo {
  static T f(T a, T b, T c) { return Add<T>::f(MulLo<T>::f(a, b), c); }
};
template <class T>
struct MadHi {
  static T f(T a, T b, T c) { return Add<T>::f(MulHi<T>::f(a, b), c); }
};
template <class T>
struct Div {
  static T f(T a, T b) {
    if (b == 0) return T(-1);
    if (std::is_signed_v<T> && b == T(-1)) return T(U<T>(0) - U<T>(a));
    return T(a / b);
  }
};
template <class T>
struct Rem {
  static T f(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == T(-1)) return 0;
    return T(a % b);
  }
};
template <class T>
struct Abs {
  static T f(T a) { return a < 0 ? T(U<T>(0) - U<T>(a)) : a; }
};
template <class T>
struct Neg {
  static T f(T a) { return T(U<T>(0) - U<T>(a)); }
};
template <class T>
struct Min {
  static T f(T a, T b) { return a < b ? a : b; }
};
template <class T>
struct Max {
  static T f(T a, T b) { return a > b ? a : b; }
};
template <class T>
struct MinRelu {
  static T f(T a, T b) {
    T m = a < b ? a : b;
    return m < 0 ? T(0) : m;
  }
};
template <class T>
struct MaxRelu {
  static T f(T a, T b) {
    T m = a > b ? a : b;
    return m < 0 ? T(0) : m;
  }
};
template <class T>
struct Sad {
  static T f(T a, T b, T c) { return T(U<T>(c) + (a < b ? U<T>(b) - U<T>(a) : U<T>(a) - U<T>(b))); }
};

int32_t saturated(int64_t v) { return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : int32_t(v); }
template <class T>
struct AddSat {
  static T f(T a, T b) { return T(saturated(int64_t(a) + int64_t(b))); }
};
template <class T>
struct SubSat {
  static T f(T a, T b) { return T(saturated(int64_t(a) - int64_t(b))); }
};
template <class T>
struct MadHiSat {
  static T f(T a, T b, T c) { return T(saturated((int64_t(a) * int64_t(b) >> 32) + c)); }
};

template <class T>
struct MulWide {
  static W<T> f(T a, T b) { return W<T>(a) * W<T>(b); }
};
template <class T>
struct MadWide {
  static W<T> f(T a, T b, W<T> c) { return W<T>(U<W<T>>(W<T>(a) * W<T>(b)) + U<W<T>>(c)); }
};

template <class T>
T low24(T v) {
  return std::is_signed_v<T> ? T(T(U<T>(v) << 8) >> 8) : T(v & T(0xffffff));
}
template <class T>
struct Mul24Lo {
  static T f(T a, T b) { return T(int64_t(low24(a)) * int64_t(low24(b))); }
};
template <class T>
struct Mul24Hi {
  static T f(T a, T b) { return T((int64_t(low24(a)) * int64_t(low24(b))) >> 16); }
};
template <class T>
struct Mad24Lo {
  static T f(T a, T b, T c) { return Add<T>::f(Mul24Lo<T>::f(a, b), c); }
};
template <class T>
struct Mad24Hi {
  static T f(T a, T b, T c) { return Add<T>::f(Mul24Hi<T>::f(a, b), c); }
};
struct Mad24HiSat {
  static int32_t f(int32_t a, int32_t b, int32_t c) { return saturated(int64_t(Mul24Hi<int32_t>::f(a, b)) + c); }
};

// Pairs of 16-bit integers in one register.
template <class T, template <class> class Op>
struct Pair {
  static uint32_t f(uint32_t a, uint32_t b) {
    uint16_t lo = uint16_t(Op<T>::f(T(a), T(b))), hi = uint16_t(Op<T>::f(T(a >> 16), T(b >> 16)));
    return uint32_t(lo) | uint32_t(hi) << 16;
  }
};

// add.cc and kin: the carry is one bit a lane.
template <class T, bool Subtract, bool Use, bool Set>
void carry_op(Warp& w, const Inst& i) {
  const T *a = in<T>(w, i.a), *b = in<T>(w, i.b);
  T* d = out<T>(w, i.d);
  uint32_t carry = w.carry;
  each(w.mask, [&](int l) {
    T in_bit = Use ? T(w.carry >> l & 1) : T(0);
    unsigned __int128 r = Subtract ? (unsigned __int128)a[l] - b[l] - in_bit : (unsigned __int128)a[l] + b[l] + in_bit;
    bool out_bit = (r >> (8 * sizeof(T))) & 1;
    d[l] = T(r);
    carry = (carry & ~(1u << l)) | uint32_t(out_bit) << l;
  });
  if (Set) w.carry = carry;
}

template <class T, bool Hi, bool Use, bool Set>
void mad_carry(Warp& w, const Inst& i) {
  const T *a = in<T>(w, i.a), *b = in<T>(w, i.b), *c = in<T>(w, i.c);
  T* d = out<T>(w, i.d);
  uint32_t carry = w.carry;
  each(w.mask, [&](int l) {
    W<T> product = W<T>(a[l]) * W<T>(b[l]);
    U<T> part = U<T>(Hi ? product >> (8 * sizeof(T)) : product);
    unsigned __int128 r = (unsigned __int128)part + U<T>(c[l]) + (Use ? w.carry >> l & 1 : 0);
    d[l] = T(r);
    carry = (carry & ~(1u << l)) | uint32_t((r >> (8 * sizeof(T))) & 1) << l;
  });
  if (Set) w.carry = carry;
}

template <bool Subtract>
Handler carry_handler(const std::string& t, bool use, bool set) {
  bool wide = type_width(t) == 8;
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

Handler mad_carry_handler(const std::string& t, bool hi, bool use, bool set) {
  if (t == "s32") return hi ? mad_handler<int32_t, true>(use, set) : mad_handler<int32_t, false>(use, set);
  if (t == "u32") return hi ? mad_handler<uint32_t, true>(use, set) : mad_handler<uint32_t, false>(use, set);
  if (t == "s64") return hi ? mad_handler<int64_t, true>(use, set) : mad_handler<int64_t, false>(use, set);
  if (t == "u64") return hi ? mad_handler<uint64_t, true>(use, set) : mad_handler<uint64_t, false>(use, set);
  return nullptr;
}

template <template <class> class Op>
Handler pair_handler(const std::string& t) {
  if (t == "u16x2") return binary<uint32_t, Pair<uint16_t, Op>>;
  if (t == "s16x2") return binary<uint32_t, Pair<int16_t, Op>>;
  return nullptr;
}

bool lower_wide(Lowering& l, const std::string& t, bool add) {
  int from = type_width(t), to = from * 2;
  Handler fn = nullptr;
  if (t == "s16")
    fn = add ? Handler(map3<int32_t, int16_t, int16_t, int32_t, MadWide<int16_t>>)
             : map2<int32_t, int16_t, int16_t, MulWide<int16_t>>;
  if (t == "u16")
    fn = add ? Handler(map3<uint32_t, uint16_t, uint16_t, uint32_t, MadWide<uint16_t>>)
             : map2<uint32_t, uint16_t, uint16_t, MulWide<uint16_t>>;
  if (t == "s32")
    fn = add ? Handler(map3<int64_t, int32_t, int32_t, int64_t, MadWide<int32_t>>)
             : map2<int64_t, int32_t, int32_t, MulWide<int32_t>>;
  if (t == "u32")
    fn = add ? Handler(map3<uint64_t, uint32_t, uint32_t, uint64_t, MadWide<uint32_t>>)
             : map2<uint64_t, uint32_t, uint32_t, MulWide<uint32_t>>;
  if (!fn || to > 8) return false;
  int32_t a = l.source(1, from, t[0]), b = l.source(2, from, t[0]), c = add ? l.source(3, to, t[0]) : 0;
  int32_t d = l.target(size_t(0), to, t[0] == 's');
  Inst& i = l.emit(fn);
  i.d = d;
  i.a = a;
  i.b = b;
  i.c = c;
  return true;
}

bool lower_mul(Lowering& l) {
  std::string t = l.type();
  if (l.has("wide")) return lower_wide(l, t, false);
  int width = type_width(t);
  return emit_sources(l, l.has("hi") ? VGPU_BY_INTEGER(t, binary, MulHi) : VGPU_BY_INTEGER(t, binary, MulLo), width, 2,
                      t[0]);
}

bool lower_mad(Lowering& l) {
  std::string t = l.type();
  if (l.has("wide")) return lower_wide(l, t, true);
  int width = type_width(t);
  if (l.has("cc")) return emit_sources(l, mad_carry_handler(t, l.has("hi"), false, true), width, 3, t[0]);
  if (l.has("sat")) return t == "s32" && l.has("hi") && emit_sources(l, ternary<int32_t, MadHiSat<int32_t>>, 4, 3, 's');
  return emit_sources(l, l.has("hi") ? VGPU_BY_INTEGER(t, ternary, MadHi) : VGPU_BY_INTEGER(t, ternary, MadLo), width,
                      3, t[0]);
}

bool lower_madc(Lowering& l) {
  std::string t = l.type();
  l.kind = Class::Int;
  return emit_sources(l, mad_carry_handler(t, l.has("hi"), true, l.has("cc")), type_width(t), 3, t[0]);
}

bool lower_add_sub(Lowering& l, bool subtract) {
  std::string t = l.type();
  int width = type_width(t);
  if (t == "u16x2" || t == "s16x2")
    return emit_sources(l, subtract ? pair_handler<Sub>(t) : pair_handler<Add>(t), 4, 2);
  if (l.has("cc"))
    return emit_sources(l, subtract ? carry_handler<true>(t, false, true) : carry_handler<false>(t, false, true), width,
                        2, t[0]);
  if (l.has("sat"))
    return t == "s32" &&
           emit_sources(l, subtract ? Handler(binary<int32_t, SubSat<int32_t>>) : binary<int32_t, AddSat<int32_t>>, 4,
                        2, 's');
  return emit_sources(l, subtract ? VGPU_BY_INTEGER(t, binary, Sub) : VGPU_BY_INTEGER(t, binary, Add), width, 2, t[0]);
}

bool lower_addc(Lowering& l) {
  std::string t = l.type();
  return emit_sources(l, carry_handler<false>(t, true, l.has("cc")), type_width(t), 2, t[0]);
}
bool lower_subc(Lowering& l) {
  std::string t = l.type();
  return emit_sources(l, carry_handler<true>(t, true, l.has("cc")), type_width(t), 2, t[0]);
}

bool lower_min_max(Lowering& l, bool max) {
  std::string t = l.type();
  bool relu = l.has("relu");
  if (t == "u16x2" || t == "s16x2") {
    Handler fn = max ? (relu ? pair_handler<MaxRelu>(t) : pair_handler<Max>(t))
                     : (relu ? pair_handler<MinRelu>(t) : pair_handler<Min>(t));
    return emit_sources(l, fn, 4, 2);
  }
  Handler fn = max ? VGPU_BY_INTEGER(t, binary, Max) : VGPU_BY_INTEGER(t, binary, Min);
  if (relu)
    fn = t != "s32" ? nullptr : max ? Handler(binary<int32_t, MaxRelu<int32_t>>) : binary<int32_t, MinRelu<int32_t>>;
  return emit_sources(l, fn, type_width(t), 2, t[0]);
}

bool lower_24(Lowering& l) {
  std::string t = l.type();
  bool hi = l.has("hi"), mad = l.parts[0] == "mad24";
  if (mad && hi && t == "s32" && l.has("sat")) return emit_sources(l, ternary<int32_t, Mad24HiSat>, 4, 3, 's');
  if (t == "s32")
    return emit_sources(l,
                        mad  ? (hi ? Handler(ternary<int32_t, Mad24Hi<int32_t>>) : ternary<int32_t, Mad24Lo<int32_t>>)
                        : hi ? Handler(binary<int32_t, Mul24Hi<int32_t>>)
                             : binary<int32_t, Mul24Lo<int32_t>>,
                        4, mad ? 3 : 2, 's');
  if (t == "u32")
    return emit_sources(
        l,
        mad  ? (hi ? Handler(ternary<uint32_t, Mad24Hi<uint32_t>>) : ternary<uint32_t, Mad24Lo<uint32_t>>)
        : hi ? Handler(binary<uint32_t, Mul24Hi<uint32_t>>)
             : binary<uint32_t, Mul24Lo<uint32_t>>,
        4, mad ? 3 : 2, 'u');
  return false;
}

bool lower_sad(Lowering& l) {
  std::string t = l.type();
  return emit_sources(l, VGPU_BY_INTEGER(t, ternary, Sad), type_width(t), 3, t[0]);
}
bool lower_division(Lowering& l, Handler fn) {
  std::string t = l.type();
  l.times = type_width(t) == 8 ? 80 : 22;  // what ptxas writes for it on compute capability 9.0
  return emit_sources(l, fn, type_width(t), 2, t[0]);
}
bool lower_rem(Lowering& l) { return lower_division(l, VGPU_BY_INTEGER(l.type(), binary, Rem)); }

}  // namespace

bool lower_integer(Lowering& l) {
  std::string t = l.type();
  std::string_view op = l.parts[0];
  int width = type_width(t);
  if (op == "add") return lower_add_sub(l, false);
  if (op == "sub") return lower_add_sub(l, true);
  if (op == "mul") return lower_mul(l);
  if (op == "mad") return lower_mad(l);
  if (op == "div") return lower_division(l, VGPU_BY_INTEGER(t, binary, Div));
  if (op == "abs") return emit_sources(l, VGPU_BY_INTEGER(t, unary, Abs), width, 1, t[0]);
  if (op == "neg") return emit_sources(l, VGPU_BY_INTEGER(t, unary, Neg), width, 1, t[0]);
  if (op == "min") return lower_min_max(l, false);
  if (op == "max") return lower_min_max(l, true);
  return false;
}

const LowerEntry kIntegerOps[] = {{"addc", lower_addc}, {"subc", lower_subc}, {"madc", lower_madc}, {"mul24", lower_24},
                                  {"mad24", lower_24},  {"sad", lower_sad},   {"rem", lower_rem},   {nullptr, nullptr}};

}  // namespace vgpu
