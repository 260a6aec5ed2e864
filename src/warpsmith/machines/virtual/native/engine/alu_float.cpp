// f32 and f64 arithmetic.
#include "alu.h"
#include "real.h"

namespace vgpu {

namespace {

template <class T>
struct Add {
  static T f(T a, T b) { return a + b; }
};
template <class T>
struct Sub {
  static T f(T a, T b) { return a - b; }
};
template <class T>
struct Mul {
  static T f(T a, T b) { return a * b; }
};
template <class T>
struct Div {
  static T f(T a, T b) { return a / b; }
};
template <class T>
struct Fma {
  static T f(T a, T b, T c) { return std::fma(a, b, c); }
};
template <class T>
struct Sqrt {
  static T f(T a) { return std::sqrt(a); }
};
template <class T>
struct Rcp {
  static T f(T a) { return T(1) / a; }
};
template <class T>
struct Rsqrt {
  static T f(T a) { return T(1.0 / std::sqrt(double(a))); }
};

template <class T>
T flushed(T v, bool ftz) {
  return ftz ? flush(v) : v;
}

template <class Op, bool Ftz, bool Sat, class T>
struct Dressed {  // an operation with its modifiers
  static T finish(T r) {
    r = flushed(r, Ftz);
    return Sat ? saturate(r) : canonical(r);
  }
  static T f(T a) { return finish(Op::f(flushed(a, Ftz))); }
  static T f(T a, T b) { return finish(Op::f(flushed(a, Ftz), flushed(b, Ftz))); }
  static T f(T a, T b, T c) { return finish(Op::f(flushed(a, Ftz), flushed(b, Ftz), flushed(c, Ftz))); }
};

// Directed rounding: the mode is set around scalar code that the compiler may not move.
template <class T>
T pinned(T v) {
  asm volatile("" : "+x"(v));
  return v;
}

template <class T, class Op, int N, bool Ftz, bool Sat>
void directed(Warp& w, const Inst& i) {
  const T *a = in<T>(w, i.a), *b = in<T>(w, i.b), *c = in<T>(w, i.c);
  T* d = out<T>(w, i.d);
  RoundingMode mode(static_cast<Round>(i.imm));
  each(w.mask, [&](int l) {
    T x = pinned(flushed(a[l], Ftz)), r;
    if constexpr (N == 1) r = Op::f(x);
    if constexpr (N == 2) r = Op::f(x, pinned(flushed(b[l], Ftz)));
    if constexpr (N == 3) r = Op::f(x, pinned(flushed(b[l], Ftz)), pinned(flushed(c[l], Ftz)));
    r = flushed(pinned(r), Ftz);
    d[l] = Sat ? saturate(r) : canonical(r);
  });
}

Round rounding(const Lowering& l) {
  return l.has("rz") ? Round::Zero : l.has("rm") ? Round::Down : l.has("rp") ? Round::Up : Round::Nearest;
}

template <class T, class Op, int N, bool Ftz, bool Sat>
Handler nearest() {
  if constexpr (N == 1) return unary<T, Dressed<Op, Ftz, Sat, T>>;
  else if constexpr (N == 2) return binary<T, Dressed<Op, Ftz, Sat, T>>;
  else return ternary<T, Dressed<Op, Ftz, Sat, T>>;
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
bool lower_real(Lowering& l) {
  std::string t = l.type();
  Round r = rounding(l);
  Handler fn = nullptr;
  if (t == "f32") fn = form<float, Op<float>, N>(l.has("ftz"), l.has("sat"), r == Round::Nearest);
  if (t == "f64")
    fn = r != Round::Nearest ? directed<double, Op<double>, N, false, false>
         : l.has("ftz")      ? nearest<double, Op<double>, N, true, false>()  // the approximate forms
                             : nearest<double, Op<double>, N, false, false>();
  l.kind = t == "f64" ? Class::Fp64 : Class::Fp32;
  if (!emit_sources(l, fn, type_width(t), N, 'f')) return false;
  l.emitted.back().imm = int64_t(r);
  return true;
}

template <class T>
struct Abs {
  static T f(T a) { return std::fabs(a); }
};
template <class T>
struct Neg {
  static T f(T a) { return -a; }
};

template <class T>
bool below(T a, T b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

// min and max: a NaN loses against a number, -0 is below +0.
template <class T, bool Max, bool Nan, bool Ftz, bool Xor>
struct Extreme {
  static T f(T a, T b) {
    a = flushed(a, Ftz);
    b = flushed(b, Ftz);
    bool sign = Xor && (std::signbit(a) != std::signbit(b));
    if (Xor) {
      a = std::fabs(a);
      b = std::fabs(b);
    }
    T r = (Max ? below(b, a) : below(a, b)) ? a : b;
    if (a != a) r = Nan ? a : b;
    if (b != b) r = Nan ? b : a;
    r = (r != r) ? (sizeof(T) == 4 ? T(bit_copy<float>(kNan32)) : r) : r;
    return Xor && r == r ? (sign ? -r : r) : r;
  }
  static T f(T a, T b, T c) { return f(f(a, b), c); }
};

template <bool Max>
bool lower_extreme(Lowering& l) {
  std::string t = l.type();
  bool nan = l.has("NaN"), ftz = l.has("ftz"), x = l.has("xorsign") && l.has("abs"), three = l.operands() == 4;
  Handler fn = nullptr;
  if (t == "f64") fn = binary<double, Extreme<double, Max, false, false, false>>;
  else if (three)
    fn = x     ? nullptr
         : nan ? (ftz ? ternary<float, Extreme<float, Max, true, true, false>>
                      : ternary<float, Extreme<float, Max, true, false, false>>)
         : ftz ? ternary<float, Extreme<float, Max, false, true, false>>
               : ternary<float, Extreme<float, Max, false, false, false>>;
  else if (x)
    fn = nan   ? (ftz ? binary<float, Extreme<float, Max, true, true, true>>
                      : binary<float, Extreme<float, Max, true, false, true>>)
         : ftz ? binary<float, Extreme<float, Max, false, true, true>>
               : binary<float, Extreme<float, Max, false, false, true>>;
  else
    fn = nan   ? (ftz ? binary<float, Extreme<float, Max, true, true, false>>
                      : binary<float, Extreme<float, Max, true, false, false>>)
         : ftz ? binary<float, Extreme<float, Max, false, true, false>>
               : binary<float, Extreme<float, Max, false, false, false>>;
  l.kind = t == "f64" ? Class::Fp64 : Class::Fp32;
  return emit_sources(l, fn, type_width(t), three ? 3 : 2, 'f');
}

template <class T>
struct Copysign {
  static T f(T a, T b) { return std::copysign(b, a); }
};

bool is_real(const std::string& t) { return t == "f32" || t == "f64"; }
bool is_half(const std::string& t) { return t == "f16" || t == "bf16" || t == "f16x2" || t == "bf16x2"; }

template <template <class> class Op, int N>
bool lower_any(Lowering& l) {
  std::string t = l.type();
  if (t == "f32x2") return false;
  return is_half(t) ? lower_half(l) : is_real(t) ? lower_real<Op, N>(l) : lower_integer(l);
}

template <bool Max>
bool lower_min_max(Lowering& l) {
  std::string t = l.type();
  return is_half(t) ? lower_half(l) : is_real(t) ? lower_extreme<Max>(l) : lower_integer(l);
}

template <template <class> class Op>
bool lower_sign(Lowering& l) {
  std::string t = l.type();
  if (is_half(t)) return lower_half(l);
  if (!is_real(t)) return lower_integer(l);
  l.kind = t == "f64" ? Class::Fp64 : Class::Fp32;
  if (t == "f64") return emit_sources(l, unary<double, Op<double>>, 8, 1, 'f');
  return emit_sources(l, l.has("ftz") ? unary<float, Dressed<Op<float>, true, false, float>> : unary<float, Op<float>>,
                      4, 1, 'f');
}

bool lower_copysign(Lowering& l) {
  bool wide = l.type() == "f64";
  l.kind = wide ? Class::Fp64 : Class::Fp32;
  return emit_sources(l, wide ? binary<double, Copysign<double>> : binary<float, Copysign<float>>, wide ? 8 : 4, 2,
                      'f');
}

template <template <class> class Op, int N>
bool lower_special(
    Lowering& l) {  // div, sqrt, rcp: approximate forms are computed exactly, which is within their error
  std::string t = l.type();
  if (!is_real(t)) return N == 2 ? lower_integer(l) : false;
  bool ok = lower_real<Op, N>(l);
  if (l.has("approx") || l.has("full")) l.kind = Class::Sfu;
  else l.times = t == "f64" ? 16 : N == 2 ? 12 : 8;  // what ptxas writes for it on compute capability 9.0
  return ok;
}

bool lower_rsqrt(Lowering& l) {
  bool ok = lower_real<Rsqrt, 1>(l);
  l.kind = Class::Sfu;
  return ok;
}

// testp
template <class T>
bool test(T v, int what) {
  bool nan = v != v, inf = std::isinf(v), normal = std::isnormal(v) || v == 0;  // PTX calls zero normal
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
void testp(Warp& w, const Inst& i) {
  const T* a = in<T>(w, i.a);
  uint32_t r = 0;
  each(w.mask, [&](int l) { r |= uint32_t(test(a[l], int(i.imm))) << l; });
  pred_out(w, i.d, r);
}
bool lower_testp(Lowering& l) {
  static const char* names[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  bool wide = l.type() == "f64";
  int32_t a = l.source(1, wide ? 8 : 4, 'f'), d = l.predicate(l.operand(0));
  Inst& i = l.emit(wide ? testp<double> : testp<float>);
  i.a = a;
  i.d = d;
  i.imm = -1;
  for (int n = 0; n < 6; ++n)
    if (l.has(names[n])) i.imm = n;
  l.kind = Class::Fp32;
  return i.imm >= 0;
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
