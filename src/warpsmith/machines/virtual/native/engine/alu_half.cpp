// f16 and bf16 arithmetic, single and in pairs, rounded once; and the approximate functions of f32 and of halves.
#include "alu.h"
#include "real.h"

namespace vgpu {

namespace {

template <class H>
H narrowed(float value);
template <>
Half narrowed<Half>(float value) {
  return to_half(value);
}
template <>
Brain narrowed<Brain>(float value) {
  return nearest_brain(value);
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

enum Modifier : int { kPlain = 0, kFtz = 1, kSat = 2, kRelu = 4 };

template <class H>
float flush_input(float value, int modifiers) {
  return (modifiers & kFtz) && std::fabs(value) < Smallest<H>::normal ? std::copysign(0.0f, value) : value;
}

template <class H>
H finish_output(float value, int modifiers) {
  if (modifiers & kSat) value = saturate(value);
  if ((modifiers & kRelu) && (value < 0)) value = 0;
  H half = narrowed<H>(value);
  if ((modifiers & kFtz) && std::fabs(to_float(half)) < Smallest<H>::normal) half.bits &= 0x8000;
  return half;
}

struct Add {
  static float apply(float a, float b, float) { return to_odd(add_odd(a, b)); }
};
struct Sub {
  static float apply(float a, float b, float) { return to_odd(add_odd(a, -double(b))); }
};
struct Mul {
  static float apply(float a, float b, float) { return to_odd(double(a) * double(b)); }
};
struct Fma {
  static float apply(float a, float b, float c) { return fma_16(a, b, c); }
};

inline bool below(float a, float b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); }
template <bool Max, bool Nan, bool Xor>
struct Extreme {
  static float apply(float a, float b, float) {
    bool sign = Xor && std::signbit(a) != std::signbit(b);
    if (Xor) {
      a = std::fabs(a);
      b = std::fabs(b);
    }
    float result = (Max ? below(b, a) : below(a, b)) ? a : b;
    if (a != a) result = Nan ? a : b;
    if (b != b) result = Nan ? b : a;
    return sign && result == result ? -result : result;
  }
};

// The approximate functions in halves.
struct Ex2 {
  static float apply(float a, float, float) { return std::exp2(a); }
};
struct Tanh {
  static float apply(float a, float, float) { return std::tanh(a); }
};

template <class H, class Op, int Lanes16>
void half_op(Warp& warp, const Inst& inst) {
  int modifiers = int(inst.imm);
  if constexpr (Lanes16 == 1) {
    const uint16_t *a = in<uint16_t>(warp, inst.a), *b = in<uint16_t>(warp, inst.b), *c = in<uint16_t>(warp, inst.c);
    lanes<uint16_t>(warp, inst.d, [=](int lane) {
      float x = flush_input<H>(to_float(H{a[lane]}), modifiers), y = flush_input<H>(to_float(H{b[lane]}), modifiers),
            z = flush_input<H>(to_float(H{c[lane]}), modifiers);
      return finish_output<H>(Op::apply(x, y, z), modifiers).bits;
    });
  } else {
    const uint32_t *a = in<uint32_t>(warp, inst.a), *b = in<uint32_t>(warp, inst.b), *c = in<uint32_t>(warp, inst.c);
    lanes<uint32_t>(warp, inst.d, [=](int lane) {
      uint32_t result = 0;
      for (int k = 0; k < 32; k += 16) {
        float x = flush_input<H>(to_float(H{uint16_t(a[lane] >> k)}), modifiers),
              y = flush_input<H>(to_float(H{uint16_t(b[lane] >> k)}), modifiers),
              z = flush_input<H>(to_float(H{uint16_t(c[lane] >> k)}), modifiers);
        result |= uint32_t(finish_output<H>(Op::apply(x, y, z), modifiers).bits) << k;
      }
      return result;
    });
  }
}

// neg and abs change the sign bit only: NaN keeps its payload, as on hardware.
template <class T, bool Negate>
struct SignBits {
  static T apply(T a) {
    constexpr T sign_bits = sizeof(T) == 2 ? T(0x8000) : T(0x80008000);
    return Negate ? T(a ^ sign_bits) : T(a & T(~sign_bits));
  }
};

template <class Op>
Handler pick(const std::string& type) {
  return type == "f16"      ? half_op<Half, Op, 1>
         : type == "f16x2"  ? half_op<Half, Op, 2>
         : type == "bf16"   ? half_op<Brain, Op, 1>
         : type == "bf16x2" ? half_op<Brain, Op, 2>
                            : nullptr;
}

template <bool Max>
Handler pick_extreme(const Lowering& lowering, const std::string& type) {
  bool nan = lowering.has("NaN");
  if (lowering.has("xorsign") && lowering.has("abs"))
    return nan ? pick<Extreme<Max, true, true>>(type) : pick<Extreme<Max, false, true>>(type);
  return nan ? pick<Extreme<Max, true, false>>(type) : pick<Extreme<Max, false, false>>(type);
}

int modifiers_of(const Lowering& lowering) {
  return (lowering.has("ftz") ? kFtz : 0) | (lowering.has("sat") ? kSat : 0) | (lowering.has("relu") ? kRelu : 0);
}

// ---- single precision approximations, vectorisable ----

// Computes 2^x: x is split into an integer and a rest in [-0.5, 0.5], whose power a polynomial gives with relative
// error 2^-25. The scaling takes two factors, so that a denormal result is rounded once.
inline float exp2_approx(float x) {
  float clamped = x < -150.0f ? -150.0f : x > 129.0f ? 129.0f : x;
  float whole = std::nearbyint(clamped), rest = clamped - whole;
  float power = 1.5353362e-4f;
  power = std::fma(power, rest, 1.3398874e-3f);
  power = std::fma(power, rest, 9.6184373e-3f);
  power = std::fma(power, rest, 5.5503324e-2f);
  power = std::fma(power, rest, 2.4022648e-1f);
  power = std::fma(power, rest, 6.9314718e-1f);
  power = std::fma(power, rest, 1.0f);
  int32_t exponent = int32_t(whole), k1 = exponent >> 1, k2 = exponent - k1;
  float s1 = bit_copy<float>(uint32_t(k1 + 127) << 23), s2 = bit_copy<float>(uint32_t(k2 + 127) << 23);
  float value = power * s1 * s2;
  return bit_copy<float>(x != x ? kNan32 : bit_copy<uint32_t>(value));
}

struct Ex2Approx {
  static float apply(float a) { return exp2_approx(a); }
};
struct Lg2Approx {
  static float apply(float a) { return float(std::log2(double(a))); }
};
struct SinApprox {
  static float apply(float a) { return float(std::sin(double(a))); }
};
struct CosApprox {
  static float apply(float a) { return float(std::cos(double(a))); }
};
struct TanhApprox {
  static float apply(float a) { return std::tanh(a); }
};

template <class Op, bool Ftz>
struct Approx {
  static float apply(float a) {
    float result = Op::apply(Ftz ? flush(a) : a);
    return canonical(Ftz ? flush(result) : result);
  }
};

template <class Op>
bool lower_approx(Lowering& lowering) {
  lowering.kind = Class::Sfu;
  if (lowering.type() != "f32") return false;
  return emit_sources(lowering, lowering.has("ftz") ? unary<float, Approx<Op, true>> : unary<float, Approx<Op, false>>,
                      4, 1, 'f');
}

template <class Half16>
bool lower_half_function(Lowering& lowering) {
  std::string type = lowering.type();
  Handler fn = pick<Half16>(type);
  lowering.kind = Class::Sfu;
  if (!emit_sources(lowering, fn, type_width(type), 1, 'f')) return false;
  lowering.emitted.back().imm = modifiers_of(lowering);
  return true;
}

bool lower_ex2(Lowering& lowering) {
  return lowering.type() == "f32" ? lower_approx<Ex2Approx>(lowering) : lower_half_function<Ex2>(lowering);
}
bool lower_tanh(Lowering& lowering) {
  return lowering.type() == "f32" ? lower_approx<TanhApprox>(lowering) : lower_half_function<Tanh>(lowering);
}

}  // namespace

bool lower_half(Lowering& lowering) {
  std::string type = lowering.type();
  std::string_view op = lowering.parts[0];
  int width = type_width(type), sources = op == "fma" ? 3 : op == "abs" || op == "neg" ? 1 : 2;
  lowering.kind = Class::Fp16;
  if (sources == 1) {
    if (lowering.has("ftz")) return false;
    Handler fn = op == "neg"  ? (width == 2 ? unary<uint16_t, SignBits<uint16_t, true>>
                                            : Handler(unary<uint32_t, SignBits<uint32_t, true>>))
                 : width == 2 ? unary<uint16_t, SignBits<uint16_t, false>>
                              : Handler(unary<uint32_t, SignBits<uint32_t, false>>);
    return emit_sources(lowering, fn, width, 1, 'f');
  }
  Handler fn = op == "add"   ? pick<Add>(type)
               : op == "sub" ? pick<Sub>(type)
               : op == "mul" ? pick<Mul>(type)
               : op == "fma" ? pick<Fma>(type)
               : op == "min" ? pick_extreme<false>(lowering, type)
               : op == "max" ? pick_extreme<true>(lowering, type)
                             : nullptr;
  if (lowering.operands() != size_t(sources) + 1 || !emit_sources(lowering, fn, width, sources, 'f')) return false;
  lowering.emitted.back().imm = modifiers_of(lowering);
  return true;
}

const LowerEntry kHalfOps[] = {{"ex2", lower_ex2, "approx"},
                               {"lg2", lower_approx<Lg2Approx>, "approx"},
                               {"sin", lower_approx<SinApprox>, "approx"},
                               {"cos", lower_approx<CosApprox>, "approx"},
                               {"tanh", lower_tanh, "approx"},
                               {nullptr, nullptr}};

}  // namespace vgpu
