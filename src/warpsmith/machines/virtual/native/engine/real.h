// Floating point as PTX defines it: canonical NaN, flushing, saturation, directed rounding, 16-bit formats without
// double rounding.
#pragma once

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace vgpu {

template <class To, class From>
inline To bit_copy(From v) {
  static_assert(sizeof(To) == sizeof(From));
  To t;
  std::memcpy(&t, &v, sizeof t);
  return t;
}

constexpr uint32_t kNan32 = 0x7fffffff;

// Single precision gives one NaN; double precision keeps what it is given.
inline float canonical(float v) { return bit_copy<float>(v != v ? kNan32 : bit_copy<uint32_t>(v)); }
inline double canonical(double v) { return v; }

inline float flush(float v) {
  uint32_t b = bit_copy<uint32_t>(v);
  return bit_copy<float>((b & 0x7f800000) ? b : b & 0x80000000);
}

inline double flush(double v) {
  uint64_t b = bit_copy<uint64_t>(v);
  return bit_copy<double>((b & 0x7ff0000000000000) ? b : b & 0x8000000000000000);
}

template <class T>
inline T saturate(T v) {
  return v > T(0) ? (v < T(1) ? v : T(1)) : T(0);
}  // NaN becomes +0

// f16 and bf16 as bits.
struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};

inline float to_float(Half h) {
  uint32_t sign = uint32_t(h.bits & 0x8000) << 16, rest = h.bits & 0x7fff;
  float scaled = bit_copy<float>(rest << 13) * 0x1p112f;  // exact: moves the exponent, denormals too
  uint32_t bits = rest >= 0x7c00 ? 0x7f800000 | rest << 13 : bit_copy<uint32_t>(scaled);
  return bit_copy<float>(bits | sign);
}
inline float to_float(Brain b) { return bit_copy<float>(uint32_t(b.bits) << 16); }

inline Half flushed(Half h) { return {uint16_t(h.bits & 0x7c00 ? h.bits : h.bits & 0x8000)}; }
inline Brain flushed(Brain b) { return {uint16_t(b.bits & 0x7f80 ? b.bits : b.bits & 0x8000)}; }

enum class Round { Nearest, Zero, Down, Up, Away };  // Away: ties away from zero

// The exponent and fraction of a 16-bit format; the value is rounded once, straight from the float.
template <int Exponent, int Fraction, bool Saturate = false>
inline uint16_t narrow(float v, Round mode) {
  constexpr int bias = (1 << (Exponent - 1)) - 1;
  constexpr uint32_t infinity = uint32_t((1 << Exponent) - 1) << Fraction;
  uint32_t b = bit_copy<uint32_t>(v), sign = b >> 31, mag = b & 0x7fffffff;
  uint16_t s = uint16_t(sign << (Exponent + Fraction));
  if (mag > 0x7f800000) return 0x7fff;
  if (mag == 0x7f800000) return uint16_t(Saturate ? s | (infinity - 1) : s | infinity);
  int e = int(mag >> 23) - 127;
  uint64_t m = (mag & 0x7fffff) | (mag >> 23 ? 0x800000 : 0);
  if (!(mag >> 23)) e = -126;
  int lowest = 1 - bias;
  int drop = 23 - Fraction + (e < lowest ? lowest - e : 0);
  if (drop > 40) drop = 40;
  uint64_t kept = m >> drop, rest = m & ((uint64_t(1) << drop) - 1), half = uint64_t(1) << (drop - 1);
  bool up = mode == Round::Nearest ? rest > half || (rest == half && (kept & 1))
            : mode == Round::Away  ? rest >= half
            : mode == Round::Up    ? rest && !sign
            : mode == Round::Down  ? rest && sign
                                   : false;
  kept += up;
  uint32_t result = e < lowest ? uint32_t(kept) : uint32_t((uint64_t(e + bias - 1) << Fraction) + kept);
  if (result >= infinity) {
    bool to_infinity = !Saturate && (mode == Round::Nearest || mode == Round::Away || (mode == Round::Up && !sign) ||
                                     (mode == Round::Down && sign));
    result = to_infinity ? infinity : infinity - 1;
  }
  return uint16_t(s | result);
}

inline Half to_half(float v, Round mode = Round::Nearest) { return {narrow<5, 10>(v, mode)}; }
inline Brain to_brain(float v, Round mode = Round::Nearest) { return {narrow<8, 7>(v, mode)}; }

inline Brain nearest_brain(float v) {  // the fast form of to_brain
  uint32_t b = bit_copy<uint32_t>(v);
  uint32_t r = (b + 0x7fff + (b >> 16 & 1)) >> 16;
  return {uint16_t((b & 0x7fffffff) > 0x7f800000 ? 0x7fff : r)};
}

// A double to a float, inexact results made odd: rounding the float to 16 bits then gives what rounding the double
// would.
inline float to_odd(double v) {
  float f = static_cast<float>(v);
  double back = f;
  uint32_t b = bit_copy<uint32_t>(f);
  bool inexact = back != v && v == v, above = std::fabs(back) > std::fabs(v);
  uint32_t odd = (b - uint32_t(above)) | 1;
  return bit_copy<float>(inexact ? odd : b);
}

// The sum of two doubles, inexact results made odd.
inline double add_odd(double a, double b) {
  double s = a + b;
  double bb = s - a, err = (a - (s - bb)) + (b - bb);
  uint64_t bits = bit_copy<uint64_t>(s);
  bool fix = err != 0 && err == err && std::fabs(s) <= 0x1.fffffffffffffp1023 && !(bits & 1);
  bool away = (err > 0) == (s > 0);
  uint64_t odd = away ? bits + 1 : bits - 1;
  return bit_copy<double>(fix ? odd : bits);
}

// a * b + c of 16-bit operands: the product is exact in a double, the sum is rounded to odd, then once to the format.
inline float fma_16(float a, float b, float c) { return to_odd(add_odd(double(a) * double(b), double(c))); }

class RoundingMode {
 public:
  explicit RoundingMode(Round mode) : before_(std::fegetround()) {
    std::fesetround(mode == Round::Zero   ? FE_TOWARDZERO
                    : mode == Round::Down ? FE_DOWNWARD
                    : mode == Round::Up   ? FE_UPWARD
                                          : FE_TONEAREST);
  }
  ~RoundingMode() { std::fesetround(before_); }

 private:
  int before_;
};

}  // namespace vgpu
