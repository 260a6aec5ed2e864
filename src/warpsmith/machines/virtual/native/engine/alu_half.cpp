// f16 and bf16 arithmetic, single and in pairs, rounded once; and the approximate functions.
#include "alu.h"
#include "real.h"

namespace vgpu {

namespace {

template <class H>
H narrowed(float v);
template <>
Half narrowed<Half>(float v) {
  return to_half(v);
}
template <>
Brain narrowed<Brain>(float v) {
  return nearest_brain(v);
}

template <class H>
struct Smallest;
template <>
struct Smallest<Half> {
  static constexpr float normal = 0x1p-14f;
};
template <>
struct Smallest<Brain> {
  static constexpr float normal = 0x1p-126f;
};

enum Dress : int { kPlain = 0, kFtz = 1, kSat = 2, kRelu = 4 };

template <class H>
float dressed_in(float v, int dress) {
  return (dress & kFtz) && std::fabs(v) < Smallest<H>::normal ? std::copysign(0.0f, v) : v;
}

template <class H>
H dressed_out(float v, int dress) {
  if (dress & kSat) v = saturate(v);
  if ((dress & kRelu) && (v < 0)) v = 0;
  H h = narrowed<H>(v);
  if ((dress & kFtz) && std::fabs(to_float(h)) < Smallest<H>::normal) h.bits &= 0x8000;
  return h;
}

struct Add {
  static float f(float a, float b, float) { return to_odd(add_odd(a, b)); }
};
struct Sub {
  static float f(float a, float b, float) { return to_odd(add_odd(a, -double(b))); }
};
struct Mul {
  static float f(float a, float b, float) { return to_odd(double(a) * double(b)); }
};
struct Fma {
  static float f(float a, float b, float c) { return fma_16(a, b, c); }
};

inline bool below(float a, float b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); }
template <bool Max, bool Nan, bool Xor>
struct Extreme {
  static float f(float a, float b, float) {
    bool sign = Xor && std::signbit(a) != std::signbit(b);
    if (Xor) {
      a = std::fabs(a);
      b = std::fabs(b);
    }
    float r = (Max ? below(b, a) : below(a, b)) ? a : b;
    if (a != a) r = Nan ? a : b;
    if (b != b) r = Nan ? b : a;
    return sign && r == r ? -r : r;
  }
};

// The approximate functions, in single precision and in half.
struct Ex2 {
  static float f(float a, float, float) { return std::exp2(a); }
};
struct Tanh {
  static float f(float a, float, float) { return std::tanh(a); }
};

template <class H, class Op, int Lanes16>
void half_op(Warp& w, const Inst& i) {
  int dress = int(i.imm);
  if constexpr (Lanes16 == 1) {
    const uint16_t *a = in<uint16_t>(w, i.a), *b = in<uint16_t>(w, i.b), *c = in<uint16_t>(w, i.c);
    lanes<uint16_t>(w, i.d, [=](int l) {
      float x = dressed_in<H>(to_float(H{a[l]}), dress), y = dressed_in<H>(to_float(H{b[l]}), dress),
            z = dressed_in<H>(to_float(H{c[l]}), dress);
      return dressed_out<H>(Op::f(x, y, z), dress).bits;
    });
  } else {
    const uint32_t *a = in<uint32_t>(w, i.a), *b = in<uint32_t>(w, i.b), *c = in<uint32_t>(w, i.c);
    lanes<uint32_t>(w, i.d, [=](int l) {
      uint32_t r = 0;
      for (int k = 0; k < 32; k += 16) {
        float x = dressed_in<H>(to_float(H{uint16_t(a[l] >> k)}), dress),
              y = dressed_in<H>(to_float(H{uint16_t(b[l] >> k)}), dress),
              z = dressed_in<H>(to_float(H{uint16_t(c[l] >> k)}), dress);
        r |= uint32_t(dressed_out<H>(Op::f(x, y, z), dress).bits) << k;
      }
      return r;
    });
  }
}

// Signs are bits: NaN keeps its payload here, as hardware leaves neg and abs.
template <class T, bool Negate>
struct SignBits {
  static T f(T a) {
    constexpr T m = sizeof(T) == 2 ? T(0x8000) : T(0x80008000);
    return Negate ? T(a ^ m) : T(a & T(~m));
  }
};

template <class Op>
Handler pick(const std::string& t) {
  return t == "f16"      ? half_op<Half, Op, 1>
         : t == "f16x2"  ? half_op<Half, Op, 2>
         : t == "bf16"   ? half_op<Brain, Op, 1>
         : t == "bf16x2" ? half_op<Brain, Op, 2>
                         : nullptr;
}

template <bool Max>
Handler pick_extreme(const Lowering& l, const std::string& t) {
  bool nan = l.has("NaN");
  if (l.has("xorsign") && l.has("abs"))
    return nan ? pick<Extreme<Max, true, true>>(t) : pick<Extreme<Max, false, true>>(t);
  return nan ? pick<Extreme<Max, true, false>>(t) : pick<Extreme<Max, false, false>>(t);
}

int dress_of(const Lowering& l) {
  return (l.has("ftz") ? kFtz : 0) | (l.has("sat") ? kSat : 0) | (l.has("relu") ? kRelu : 0);
}

// ---- single precision approximations, vectorisable ----

// 2^x: rint, a polynomial on [-0.5, 0.5] of relative error 2^-25, and two scalings so that denormal results round once.
inline float exp2_approx(float x) {
  float c = x < -150.0f ? -150.0f : x > 129.0f ? 129.0f : x;
  float n = std::nearbyint(c), r = c - n;
  float p = 1.5353362e-4f;
  p = std::fma(p, r, 1.3398874e-3f);
  p = std::fma(p, r, 9.6184373e-3f);
  p = std::fma(p, r, 5.5503324e-2f);
  p = std::fma(p, r, 2.4022648e-1f);
  p = std::fma(p, r, 6.9314718e-1f);
  p = std::fma(p, r, 1.0f);
  int32_t k = int32_t(n), k1 = k >> 1, k2 = k - k1;
  float s1 = bit_copy<float>(uint32_t(k1 + 127) << 23), s2 = bit_copy<float>(uint32_t(k2 + 127) << 23);
  float v = p * s1 * s2;
  return bit_copy<float>(x != x ? kNan32 : bit_copy<uint32_t>(v));
}

struct Ex2Approx {
  static float f(float a) { return exp2_approx(a); }
};
struct Lg2Approx {
  static float f(float a) { return float(std::log2(double(a))); }
};
struct SinApprox {
  static float f(float a) { return float(std::sin(double(a))); }
};
struct CosApprox {
  static float f(float a) { return float(std::cos(double(a))); }
};
struct TanhApprox {
  static float f(float a) { return std::tanh(a); }
};

template <class Op, bool Ftz>
struct Approx {
  static float f(float a) {
    float r = Op::f(Ftz ? flush(a) : a);
    return canonical(Ftz ? flush(r) : r);
  }
};

template <class Op>
bool lower_approx(Lowering& l) {
  l.kind = Class::Sfu;
  if (l.type() != "f32") return false;
  return emit_sources(l, l.has("ftz") ? unary<float, Approx<Op, true>> : unary<float, Approx<Op, false>>, 4, 1, 'f');
}

template <class Half16>
bool lower_half_function(Lowering& l) {
  std::string t = l.type();
  Handler fn = pick<Half16>(t);
  l.kind = Class::Sfu;
  if (!emit_sources(l, fn, type_width(t), 1, 'f')) return false;
  l.emitted.back().imm = dress_of(l);
  return true;
}

bool lower_ex2(Lowering& l) { return l.type() == "f32" ? lower_approx<Ex2Approx>(l) : lower_half_function<Ex2>(l); }
bool lower_tanh(Lowering& l) { return l.type() == "f32" ? lower_approx<TanhApprox>(l) : lower_half_function<Tanh>(l); }

}  // namespace

bool lower_half(Lowering& l) {
  std::string t = l.type();
  std::string_view op = l.parts[0];
  int width = type_width(t), sources = op == "fma" ? 3 : op == "abs" || op == "neg" ? 1 : 2;
  l.kind = Class::Fp16;
  if (sources == 1) {
    if (l.has("ftz")) return false;
    Handler fn = op == "neg"  ? (width == 2 ? unary<uint16_t, SignBits<uint16_t, true>>
                                            : Handler(unary<uint32_t, SignBits<uint32_t, true>>))
                 : width == 2 ? unary<uint16_t, SignBits<uint16_t, false>>
                              : Handler(unary<uint32_t, SignBits<uint32_t, false>>);
    return emit_sources(l, fn, width, 1, 'f');
  }
  Handler fn = op == "add"   ? pick<Add>(t)
               : op == "sub" ? pick<Sub>(t)
               : op == "mul" ? pick<Mul>(t)
               : op == "fma" ? pick<Fma>(t)
               : op == "min" ? pick_extreme<false>(l, t)
               : op == "max" ? pick_extreme<true>(l, t)
                             : nullptr;
  if (l.operands() != size_t(sources) + 1 || !emit_sources(l, fn, width, sources, 'f')) return false;
  l.emitted.back().imm = dress_of(l);
  return true;
}

const LowerEntry kHalfOps[] = {{"ex2", lower_ex2, "approx"},
                               {"lg2", lower_approx<Lg2Approx>, "approx"},
                               {"sin", lower_approx<SinApprox>, "approx"},
                               {"cos", lower_approx<CosApprox>, "approx"},
                               {"tanh", lower_tanh, "approx"},
                               {nullptr, nullptr}};

}  // namespace vgpu
