// cvt between integers and reals: every pair of types, roundings, saturation.
#include "convert.h"

#include <limits>

namespace vgpu {

namespace {

// ---- integer to integer ----

template <class D, class A, bool Sat>
struct IntToInt {
  static D f(A a) {
    if (!Sat) return D(a);
    using L = std::numeric_limits<D>;
    __int128 v = a;
    return v < __int128(L::min()) ? L::min() : v > __int128(L::max()) ? L::max() : D(a);
  }
};

// ---- real to integer ----

template <class D>
D to_integer(double v, Round mode, bool away) {
  (void)away;
  if (v != v) return sizeof(D) == 8 ? D(uint64_t(1) << 63) : D(0);
  double r = mode == Round::Zero   ? std::trunc(v)
             : mode == Round::Down ? std::floor(v)
             : mode == Round::Up   ? std::ceil(v)
                                   : std::nearbyint(v);
  double low = double(std::numeric_limits<D>::min());
  double high = double(std::numeric_limits<D>::max());
  if (r <= low) return std::numeric_limits<D>::min();
  if (r >= high) return std::numeric_limits<D>::max();
  return D(r);
}

template <class S>
struct RealIn;
template <>
struct RealIn<float> {
  using stored = float;
  static float of(float v) { return v; }
};
template <>
struct RealIn<double> {
  using stored = double;
  static double of(double v) { return v; }
};
template <>
struct RealIn<Half> {
  using stored = uint16_t;
  static float of(uint16_t v) { return to_float(Half{v}); }
};
template <>
struct RealIn<Brain> {
  using stored = uint16_t;
  static float of(uint16_t v) { return to_float(Brain{v}); }
};

template <class D, class A>
void real_to_int(Warp& w, const Inst& i) {
  const auto* a = in<typename RealIn<A>::stored>(w, i.a);
  Round mode = mode_of(i);
  bool ftz = i.imm & kFtzBit;
  using Stored = std::conditional_t<sizeof(D) == 1, std::conditional_t<std::is_signed_v<D>, int16_t, uint16_t>, D>;
  Stored* d = out<Stored>(w, i.d);
  each(w.mask, [&](int l) {
    auto v = RealIn<A>::of(a[l]);
    if (ftz && sizeof(v) == 4) v = flush(float(v));
    // 64-bit targets give 2^63 for NaN; narrower ones give 0.
    d[l] = Stored(to_integer<D>(double(v), mode, false));
  });
}

// float to s32 and s64 is what kernels do most: a form that vectorises.
template <bool Nearest>
struct FloatToS32 {
  static int32_t f(float a) {
    float r = Nearest ? std::nearbyint(a) : std::trunc(a);
    float c = r < -2147483648.0f ? -2147483648.0f : r;
    int32_t v = int32_t(c >= 2147483648.0f ? 0.0f : c);
    v = c >= 2147483648.0f ? INT32_MAX : v;
    return a != a ? 0 : v;
  }
};

// ---- integer to real ----

template <class T>
T pinned(T v) {
  asm volatile("" : "+x"(v));
  return v;
}

// An integer to a float, inexact results made odd: for 16-bit targets.
template <class A>
float odd_float(A a) {
  double big = double(a);  // exact below 2^53; f16 and bf16 need the sticky bit beyond it
  if (sizeof(A) == 8 && big == big) {
    __int128 back = __int128(big), exact = a;
    if (back != exact) {
      uint64_t bits = bit_copy<uint64_t>(big);
      bool above = (back < 0 ? -back : back) > (exact < 0 ? -exact : exact);
      big = bit_copy<double>((bits - uint64_t(above)) | 1);
    }
  }
  return to_odd(big);
}

template <class D, class A>
void int_to_real(Warp& w, const Inst& i) {
  const A* a = in<A>(w, i.a);
  Round mode = mode_of(i);
  if constexpr (std::is_same_v<D, Half> || std::is_same_v<D, Brain>) {
    uint16_t* d = out<uint16_t>(w, i.d);
    each(w.mask, [&](int l) {
      float v = odd_float(a[l]);
      d[l] = Narrow<D>::f(i.imm & kSatBit ? saturate(v) : v, mode);
    });
  } else if (mode == Round::Nearest) {
    lanes<D>(w, i.d, [a](int l) { return D(a[l]); });
  } else {
    D* d = out<D>(w, i.d);
    RoundingMode guard(mode);
    each(w.mask, [&](int l) {
      A v = a[l];
      asm volatile("" : "+r"(v));
      d[l] = pinned(D(v));
    });
  }
  if (i.imm & kSatBit) {
    if constexpr (std::is_floating_point_v<D>) {
      D* d = out<D>(w, i.d);
      each(w.mask, [&](int l) { d[l] = saturate(d[l]); });
    }
  }
}

// ---- real to real ----

template <class T>
T rounded(T v, Round mode) {
  return mode == Round::Zero   ? std::trunc(v)
         : mode == Round::Down ? std::floor(v)
         : mode == Round::Up   ? std::ceil(v)
                               : std::nearbyint(v);
}

constexpr int64_t kIntegralBit = 128;  // .rni and kin between reals

template <class D, class A>
void real_to_real(Warp& w, const Inst& i) {
  const auto* a = in<typename RealIn<A>::stored>(w, i.a);
  Round mode = mode_of(i);
  bool ftz = i.imm & kFtzBit, sat = i.imm & kSatBit, relu = i.imm & kReluBit, integral = i.imm & kIntegralBit;
  auto source = [&](int l) {
    auto v = RealIn<A>::of(a[l]);
    if constexpr (std::is_same_v<A, float>)
      if (ftz) v = flush(v);
    if (integral) v = rounded(v, mode);
    return v;
  };
  if constexpr (std::is_same_v<D, Half> || std::is_same_v<D, Brain>) {
    uint16_t* d = out<uint16_t>(w, i.d);
    each(w.mask, [&](int l) {
      auto v = source(l);
      if (relu && v < 0) v = 0;
      if (sat) v = saturate(v);
      float f;
      if constexpr (std::is_same_v<A, double>) f = to_odd(v);
      else f = v;
      d[l] = finite<D>(Narrow<D>::f(f, integral ? Round::Nearest : mode), i.imm & kFiniteBit);
    });
  } else {
    D* d = out<D>(w, i.d);
    bool directed = sizeof(D) < sizeof(source(0)) && mode != Round::Nearest && !integral;
    RoundingMode guard(directed ? mode : Round::Nearest);
    each(w.mask, [&](int l) {
      D v = D(pinned(source(l)));
      v = pinned(v);
      if constexpr (sizeof(D) == 4)
        if (ftz) v = flush(v);
      d[l] = sat ? saturate(v) : canonical(v);
    });
  }
}

// ---- tables ----

template <class D, class A>
Handler int_pair(bool sat) {
  return sat ? Handler(map1<D, A, IntToInt<D, A, true>>) : Handler(map1<D, A, IntToInt<D, A, false>>);
}

template <class A>
Handler int_from(const std::string& d, bool sat) {
  if (d == "u16") return int_pair<uint16_t, A>(sat);
  if (d == "s16") return int_pair<int16_t, A>(sat);
  if (d == "u32") return int_pair<uint32_t, A>(sat);
  if (d == "s32") return int_pair<int32_t, A>(sat);
  if (d == "u64") return int_pair<uint64_t, A>(sat);
  if (d == "s64") return int_pair<int64_t, A>(sat);
  return nullptr;
}

// 8-bit targets live in 16-bit registers.
template <class D8, class D16, class A, bool Sat>
struct ToByte {
  static D16 f(A a) { return D16(IntToInt<D8, A, Sat>::f(a)); }
};
template <class A>
Handler byte_from(bool is_signed, bool sat) {
  if (is_signed)
    return sat ? Handler(map1<int16_t, A, ToByte<int8_t, int16_t, A, true>>)
               : Handler(map1<int16_t, A, ToByte<int8_t, int16_t, A, false>>);
  return sat ? Handler(map1<uint16_t, A, ToByte<uint8_t, uint16_t, A, true>>)
             : Handler(map1<uint16_t, A, ToByte<uint8_t, uint16_t, A, false>>);
}

// 8-bit sources: the low byte of a register of 16 bits.
template <class A8>
void low_byte(Warp& w, const Inst& i) {
  const uint16_t* a = in<uint16_t>(w, i.a);
  using R = std::conditional_t<std::is_signed_v<A8>, int16_t, uint16_t>;
  lanes<R>(w, i.d, [a](int l) { return R(A8(a[l])); });
}

Handler int_to_int(const std::string& d, const std::string& a, bool sat) {
  bool byte = d == "u8" || d == "s8";
  if (a == "u16") return byte ? byte_from<uint16_t>(d == "s8", sat) : int_from<uint16_t>(d, sat);
  if (a == "s16") return byte ? byte_from<int16_t>(d == "s8", sat) : int_from<int16_t>(d, sat);
  if (a == "u32") return byte ? byte_from<uint32_t>(d == "s8", sat) : int_from<uint32_t>(d, sat);
  if (a == "s32") return byte ? byte_from<int32_t>(d == "s8", sat) : int_from<int32_t>(d, sat);
  if (a == "u64") return byte ? byte_from<uint64_t>(d == "s8", sat) : int_from<uint64_t>(d, sat);
  if (a == "s64") return byte ? byte_from<int64_t>(d == "s8", sat) : int_from<int64_t>(d, sat);
  return nullptr;
}

template <class A>
Handler int_from_real(const std::string& d) {
  if (d == "u8") return real_to_int<uint8_t, A>;
  if (d == "s8") return real_to_int<int8_t, A>;
  if (d == "u16") return real_to_int<uint16_t, A>;
  if (d == "s16") return real_to_int<int16_t, A>;
  if (d == "u32") return real_to_int<uint32_t, A>;
  if (d == "s32") return real_to_int<int32_t, A>;
  if (d == "u64") return real_to_int<uint64_t, A>;
  if (d == "s64") return real_to_int<int64_t, A>;
  return nullptr;
}

template <class D>
Handler real_from_int(const std::string& a) {
  if (a == "u16") return int_to_real<D, uint16_t>;
  if (a == "s16") return int_to_real<D, int16_t>;
  if (a == "u32") return int_to_real<D, uint32_t>;
  if (a == "s32") return int_to_real<D, int32_t>;
  if (a == "u64") return int_to_real<D, uint64_t>;
  if (a == "s64") return int_to_real<D, int64_t>;
  return nullptr;
}

template <class D>
Handler real_from_real(const std::string& a) {
  if (a == "f16") return real_to_real<D, Half>;
  if (a == "bf16") return real_to_real<D, Brain>;
  if (a == "f32") return real_to_real<D, float>;
  if (a == "f64") return real_to_real<D, double>;
  return nullptr;
}

bool is_real(const std::string& t) { return t == "f16" || t == "bf16" || t == "f32" || t == "f64"; }

Handler find(const std::string& d, const std::string& a, bool sat) {
  bool dr = is_real(d), ar = is_real(a);
  if (!dr && !ar) return int_to_int(d, a, sat);
  if (!dr)
    return a == "f16"    ? int_from_real<Half>(d)
           : a == "bf16" ? int_from_real<Brain>(d)
           : a == "f32"  ? int_from_real<float>(d)
                         : int_from_real<double>(d);
  if (!ar)
    return d == "f16"    ? real_from_int<Half>(a)
           : d == "bf16" ? real_from_int<Brain>(a)
           : d == "f32"  ? real_from_int<float>(a)
                         : real_from_int<double>(a);
  return d == "f16"    ? real_from_real<Half>(a)
         : d == "bf16" ? real_from_real<Brain>(a)
         : d == "f32"  ? real_from_real<float>(a)
                       : real_from_real<double>(a);
}

// What compute capability 9.0 makes of it: halves are shifted, packed or added to zero, integers to f32 have a fast
// form.
Class kind_of(const std::vector<std::string>& types) {
  if (types.size() != 2) return Class::Int;  // cvt.pack
  const std::string &d = types[0], &a = types[1];
  auto real = [](const std::string& t) { return t[0] == 'f' || t[0] == 'b' || t[0] == 't' || t[0] == 'e'; };
  auto wide = [](const std::string& t) { return t == "f64" || t[0] == 'e'; };
  if (a == "f16" && d == "f32") return Class::Fp16;
  if (!real(a) && !real(d)) return Class::Int;
  bool rounded = a == d && real(a);
  bool fast = real(d) && !wide(a) && !wide(d) && !rounded && (real(a) || (d == "f32" && type_width(a) <= 4));
  return fast ? Class::Int : Class::Convert;
}

bool lower_cvt(Lowering& l) {
  l.kind = kind_of(l.types());
  bool packed = false;
  bool lowered = lower_packed_convert(l, &packed);
  if (packed) return lowered;
  auto types = l.types();
  if (types.size() != 2 || l.operands() < 2) return false;
  std::string d = types[0], a = types[1];
  Rounding r = rounding(l);
  int64_t modifiers =
      int64_t(r.mode) | (l.has("ftz") ? kFtzBit : 0) | (l.has("sat") ? kSatBit : 0) | (l.has("relu") ? kReluBit : 0);
  int aw = type_width(a), dw = type_width(d);
  int32_t x = l.source(1, aw, a[0]);
  if (a == "u8" || a == "s8") {
    Inst& b = l.emit(a == "u8" ? low_byte<uint8_t> : low_byte<int8_t>);
    b.a = x;
    b.d = l.temporary(2);
    x = b.d;
    a = a == "u8" ? "u16" : "s16";
  }
  bool dr = is_real(d), ar = is_real(a);
  Handler fn = find(d, a, l.has("sat"));
  if (dr && ar && r.integral) modifiers |= kIntegralBit;
  if (dr && dw == 2 && ar && l.has("satfinite")) modifiers |= kFiniteBit;
  if (d == "s32" && a == "f32" && !l.has("ftz") && (r.mode == Round::Nearest || r.mode == Round::Zero))
    fn = r.mode == Round::Nearest ? map1<int32_t, float, FloatToS32<true>> : map1<int32_t, float, FloatToS32<false>>;
  int32_t t = l.target(size_t(0), dw, d[0] == 's');
  Inst& i = l.emit(fn);
  i.a = x;
  i.d = t;
  i.imm = modifiers;
  return true;
}

}  // namespace

const LowerEntry kConvertOps[] = {{"cvt", lower_cvt}, {nullptr, nullptr}};

}  // namespace vgpu
