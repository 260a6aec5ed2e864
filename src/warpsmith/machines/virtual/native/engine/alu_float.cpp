// f32 and f64 arithmetic (PTX ISA, "Floating Point Instructions").
#include "alu.h"
#include "real.h"

namespace vgpu {

namespace {

template <class T>
struct Add {
  static T apply(T a, T b) { return a + b; }
};
template <class T>
struct Sub {
  static T apply(T a, T b) { return a - b; }
};
template <class T>
struct Mul {
  static T apply(T a, T b) { return a * b; }
};
template <class T>
struct Div {
  static T apply(T a, T b) { return a / b; }
};
template <class T>
struct Fma {
  static T apply(T a, T b, T c) { return std::fma(a, b, c); }
};
template <class T>
struct Sqrt {
  static T apply(T a) { return std::sqrt(a); }
};
template <class T>
struct Rcp {
  static T apply(T a) { return T(1) / a; }
};
template <class T>
struct Rsqrt {
  static T apply(T a) { return T(1.0 / std::sqrt(double(a))); }
};

template <class T>
T flushed(T value, bool ftz) {
  return ftz ? flush(value) : value;
}

template <class Op, bool Ftz, bool Sat, class T>
// An operation with its modifiers: inputs and result are flushed with .ftz, the result is clamped to [0, 1] with .sat.
struct Modified {
  static T finish(T result) {
    result = flushed(result, Ftz);
    return Sat ? saturate(result) : canonical(result);
  }
  static T apply(T a) { return finish(Op::apply(flushed(a, Ftz))); }
  static T apply(T a, T b) { return finish(Op::apply(flushed(a, Ftz), flushed(b, Ftz))); }
  static T apply(T a, T b, T c) { return finish(Op::apply(flushed(a, Ftz), flushed(b, Ftz), flushed(c, Ftz))); }
};

// Directed rounding: the mode of the processor is set around scalar code. The empty asm statement keeps the compiler
// from moving the operation out of the scope of the mode.
template <class T>
T keep_in_order(T value) {
  asm volatile("" : "+x"(value));
  return value;
}

template <class T, class Op, int N, bool Ftz, bool Sat>
void directed(Warp& warp, const Inst& inst) {
  const T *a = in<T>(warp, inst.a), *b = in<T>(warp, inst.b), *c = in<T>(warp, inst.c);
  T* d = out<T>(warp, inst.d);
  RoundingMode mode(static_cast<Round>(inst.imm));
  each(warp.mask, [&](int lane) {
    T x = keep_in_order(flushed(a[lane], Ftz)), result;
    if constexpr (N == 1) result = Op::apply(x);
    if constexpr (N == 2) result = Op::apply(x, keep_in_order(flushed(b[lane], Ftz)));
    if constexpr (N == 3)
      result = Op::apply(x, keep_in_order(flushed(b[lane], Ftz)), keep_in_order(flushed(c[lane], Ftz)));
    result = flushed(keep_in_order(result), Ftz);
    d[lane] = Sat ? saturate(result) : canonical(result);
  });
}

Round rounding(const Lowering& lowering) {
  return lowering.has("rz")   ? Round::Zero
         : lowering.has("rm") ? Round::Down
         : lowering.has("rp") ? Round::Up
                              : Round::Nearest;
}

template <class T, class Op, int N, bool Ftz, bool Sat>
Handler nearest() {
  if constexpr (N == 1) return unary<T, Modified<Op, Ftz, Sat, T>>;
  else if constexpr (N == 2) return binary<T, Modified<Op, Ftz, Sat, T>>;
  else return ternary<T, Modified<Op, Ftz, Sat, T>>;
}

template <class T, class Op, int N>
Handler form(bool ftz, bool sat, bool plain) {
  if (plain)
    return ftz   ? (sat ? nearest<T, Op, N, true, true>() : nearest<T, Op, N, true, false>())
           : sat ? nearest<T, Op, N, false, true>()
                 : nearest<T, Op, N, false, false>();
  return ftz   ? (sat ? directed<T, Op, N, true, true> : directed<T, Op, N, true, false>)
         : sat ? directed<T, Op, N, false, true>
               : directed<T, Op, N, false, false>;
}

template <template <class> class Op, int N>
bool lower_real(Lowering& lowering) {
  std::string type = lowering.type();
  Round round = rounding(lowering);
  Handler fn = nullptr;
  if (type == "f32") fn = form<float, Op<float>, N>(lowering.has("ftz"), lowering.has("sat"), round == Round::Nearest);
  if (type == "f64")
    fn = round != Round::Nearest ? directed<double, Op<double>, N, false, false>
         : lowering.has("ftz")   ? nearest<double, Op<double>, N, true, false>()  // the approximate forms
                                 : nearest<double, Op<double>, N, false, false>();
  lowering.kind = type == "f64" ? Class::Fp64 : Class::Fp32;
  if (!emit_sources(lowering, fn, type_width(type), N, 'f')) return false;
  lowering.emitted.back().imm = int64_t(round);
  return true;
}

template <class T>
struct Abs {
  static T apply(T a) { return std::fabs(a); }
};
template <class T>
struct Neg {
  static T apply(T a) { return -a; }
};

template <class T>
bool below(T a, T b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

// PTX ISA, min and max: if one input is NaN, the result is the other input, or NaN with .NaN. -0 is below +0.
template <class T, bool Max, bool Nan, bool Ftz, bool Xor>
struct Extreme {
  static T apply(T a, T b) {
    a = flushed(a, Ftz);
    b = flushed(b, Ftz);
    bool sign = Xor && (std::signbit(a) != std::signbit(b));
    if (Xor) {
      a = std::fabs(a);
      b = std::fabs(b);
    }
    T result = (Max ? below(b, a) : below(a, b)) ? a : b;
    if (a != a) result = Nan ? a : b;
    if (b != b) result = Nan ? b : a;
    result = (result != result) ? (sizeof(T) == 4 ? T(bit_copy<float>(kNan32)) : result) : result;
    return Xor && result == result ? (sign ? -result : result) : result;
  }
  static T apply(T a, T b, T c) { return apply(apply(a, b), c); }
};

template <bool Max>
bool lower_extreme(Lowering& lowering) {
  std::string type = lowering.type();
  bool nan = lowering.has("NaN"), ftz = lowering.has("ftz"), xorsign = lowering.has("xorsign") && lowering.has("abs"),
       three = lowering.operands() == 4;
  Handler fn = nullptr;
  if (type == "f64") fn = binary<double, Extreme<double, Max, false, false, false>>;
  else if (three)
    fn = xorsign ? nullptr
         : nan   ? (ftz ? ternary<float, Extreme<float, Max, true, true, false>>
                        : ternary<float, Extreme<float, Max, true, false, false>>)
         : ftz   ? ternary<float, Extreme<float, Max, false, true, false>>
                 : ternary<float, Extreme<float, Max, false, false, false>>;
  else if (xorsign)
    fn = nan   ? (ftz ? binary<float, Extreme<float, Max, true, true, true>>
                      : binary<float, Extreme<float, Max, true, false, true>>)
         : ftz ? binary<float, Extreme<float, Max, false, true, true>>
               : binary<float, Extreme<float, Max, false, false, true>>;
  else
    fn = nan   ? (ftz ? binary<float, Extreme<float, Max, true, true, false>>
                      : binary<float, Extreme<float, Max, true, false, false>>)
         : ftz ? binary<float, Extreme<float, Max, false, true, false>>
               : binary<float, Extreme<float, Max, false, false, false>>;
  lowering.kind = type == "f64" ? Class::Fp64 : Class::Fp32;
  return emit_sources(lowering, fn, type_width(type), three ? 3 : 2, 'f');
}

template <class T>
struct Copysign {
  static T apply(T a, T b) { return std::copysign(b, a); }
};

bool is_real(const std::string& type) { return type == "f32" || type == "f64"; }
bool is_half(const std::string& type) { return type == "f16" || type == "bf16" || type == "f16x2" || type == "bf16x2"; }

template <template <class> class Op, int N>
bool lower_any(Lowering& lowering) {
  std::string type = lowering.type();
  if (type == "f32x2") return false;
  return is_half(type) ? lower_half(lowering) : is_real(type) ? lower_real<Op, N>(lowering) : lower_integer(lowering);
}

template <bool Max>
bool lower_min_max(Lowering& lowering) {
  std::string type = lowering.type();
  return is_half(type) ? lower_half(lowering) : is_real(type) ? lower_extreme<Max>(lowering) : lower_integer(lowering);
}

template <template <class> class Op>
bool lower_sign(Lowering& lowering) {
  std::string type = lowering.type();
  if (is_half(type)) return lower_half(lowering);
  if (!is_real(type)) return lower_integer(lowering);
  lowering.kind = type == "f64" ? Class::Fp64 : Class::Fp32;
  if (type == "f64") return emit_sources(lowering, unary<double, Op<double>>, 8, 1, 'f');
  return emit_sources(
      lowering, lowering.has("ftz") ? unary<float, Modified<Op<float>, true, false, float>> : unary<float, Op<float>>,
      4, 1, 'f');
}

bool lower_copysign(Lowering& lowering) {
  bool wide = lowering.type() == "f64";
  lowering.kind = wide ? Class::Fp64 : Class::Fp32;
  return emit_sources(lowering, wide ? binary<double, Copysign<double>> : binary<float, Copysign<float>>, wide ? 8 : 4,
                      2, 'f');
}

template <template <class> class Op, int N>
bool lower_special(
    // div, sqrt, rcp: the approximate forms are computed exactly, which lies within their error bounds.
    Lowering& lowering) {
  std::string type = lowering.type();
  if (!is_real(type)) return N == 2 ? lower_integer(lowering) : false;
  bool ok = lower_real<Op, N>(lowering);
  if (lowering.has("approx") || lowering.has("full")) lowering.kind = Class::Sfu;
  else
    lowering.times = type == "f64" ? 16
                     : N == 2      ? 12
                                   : 8;  // instructions that ptxas emits for it on compute capability 9.0
  return ok;
}

bool lower_rsqrt(Lowering& lowering) {
  bool ok = lower_real<Rsqrt, 1>(lowering);
  lowering.kind = Class::Sfu;
  return ok;
}

// testp.
template <class T>
bool test(T value, int what) {
  bool nan = value != value, inf = std::isinf(value),
       normal = std::isnormal(value) || value == 0;  // PTX counts zero as normal
  switch (what) {
    case 0: return !nan && !inf;
    case 1: return inf;
    case 2: return !nan;
    case 3: return nan;
    case 4: return normal;
    default: return !nan && !inf && !normal;
  }
}
template <class T>
void testp(Warp& warp, const Inst& inst) {
  const T* a = in<T>(warp, inst.a);
  uint32_t result = 0;
  each(warp.mask, [&](int lane) { result |= uint32_t(test(a[lane], int(inst.imm))) << lane; });
  pred_out(warp, inst.d, result);
}
bool lower_testp(Lowering& lowering) {
  static const char* names[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  bool wide = lowering.type() == "f64";
  int32_t a = lowering.source(1, wide ? 8 : 4, 'f'), d = lowering.predicate(lowering.operand(0));
  Inst& inst = lowering.emit(wide ? testp<double> : testp<float>);
  inst.a = a;
  inst.d = d;
  inst.imm = -1;
  for (int index = 0; index < 6; ++index)
    if (lowering.has(names[index])) inst.imm = index;
  lowering.kind = Class::Fp32;
  return inst.imm >= 0;
}

}  // namespace

const LowerEntry kFloatOps[] = {{"add", lower_any<Add, 2>},       {"sub", lower_any<Sub, 2>},
                                {"mul", lower_any<Mul, 2>},       {"fma", lower_any<Fma, 3>},
                                {"mad", lower_any<Fma, 3>},       {"div", lower_special<Div, 2>},
                                {"sqrt", lower_special<Sqrt, 1>}, {"rcp", lower_special<Rcp, 1>},
                                {"rsqrt", lower_rsqrt, "approx"}, {"min", lower_min_max<false>},
                                {"max", lower_min_max<true>},     {"abs", lower_sign<Abs>},
                                {"neg", lower_sign<Neg>},         {"copysign", lower_copysign},
                                {"testp", lower_testp},           {nullptr, nullptr}};

}  // namespace vgpu
