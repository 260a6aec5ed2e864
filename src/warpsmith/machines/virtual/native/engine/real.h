// Floating point as PTX defines it: canonical NaN, flushing of denormals (.ftz), saturation (.sat), directed rounding,
// and 16-bit formats without double rounding.
#pragma once

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace vgpu {

template <class To, class From>
inline To bit_copy(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To target;
  std::memcpy(&target, &value, sizeof target);
  return target;
}

constexpr uint32_t kNan32 = 0x7fffffff;

// An f32 instruction returns the canonical NaN 0x7fffffff; an f64 instruction keeps the payload (PTX ISA, "Floating
// Point Instructions").
inline float canonical(float value) { return bit_copy<float>(value != value ? kNan32 : bit_copy<uint32_t>(value)); }
inline double canonical(double value) { return value; }

inline float flush(float value) {
  uint32_t bits = bit_copy<uint32_t>(value);
  return bit_copy<float>((bits & 0x7f800000) ? bits : bits & 0x80000000);
}

inline double flush(double value) {
  uint64_t bits = bit_copy<uint64_t>(value);
  return bit_copy<double>((bits & 0x7ff0000000000000) ? bits : bits & 0x8000000000000000);
}

template <class T>
inline T saturate(T value) {
  return value > T(0) ? (value < T(1) ? value : T(1)) : T(0);
}  // NaN becomes +0

// f16 and bf16 as bits.
struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};

inline float to_float(Half half) {
  uint32_t sign = uint32_t(half.bits & 0x8000) << 16, rest = half.bits & 0x7fff;
  float scaled = bit_copy<float>(rest << 13) * 0x1p112f;  // exact: the product moves the exponent, for denormals too
  uint32_t bits = rest >= 0x7c00 ? 0x7f800000 | rest << 13 : bit_copy<uint32_t>(scaled);
  return bit_copy<float>(bits | sign);
}
inline float to_float(Brain brain) { return bit_copy<float>(uint32_t(brain.bits) << 16); }

inline Half flushed(Half half) { return {uint16_t(half.bits & 0x7c00 ? half.bits : half.bits & 0x8000)}; }
inline Brain flushed(Brain brain) { return {uint16_t(brain.bits & 0x7f80 ? brain.bits : brain.bits & 0x8000)}; }

enum class Round { Nearest, Zero, Down, Up, Away };  // Away: ties away from zero

// Rounds a float to a 16-bit or 8-bit format, once: going through an intermediate format would round twice.
template <int Exponent, int Fraction, bool Saturate = false>
inline uint16_t narrow(float value, Round mode) {
  constexpr int bias = (1 << (Exponent - 1)) - 1;
  constexpr uint32_t infinity = uint32_t((1 << Exponent) - 1) << Fraction;
  uint32_t bits = bit_copy<uint32_t>(value), sign = bits >> 31, mag = bits & 0x7fffffff;
  uint16_t sign_bits = uint16_t(sign << (Exponent + Fraction));
  if (mag > 0x7f800000) return 0x7fff;
  if (mag == 0x7f800000) return uint16_t(Saturate ? sign_bits | (infinity - 1) : sign_bits | infinity);
  int exponent = int(mag >> 23) - 127;
  uint64_t significand = (mag & 0x7fffff) | (mag >> 23 ? 0x800000 : 0);
  if (!(mag >> 23)) exponent = -126;
  int lowest = 1 - bias;
  int drop = 23 - Fraction + (exponent < lowest ? lowest - exponent : 0);
  if (drop > 40) drop = 40;
  uint64_t kept = significand >> drop, rest = significand & ((uint64_t(1) << drop) - 1),
           half = uint64_t(1) << (drop - 1);
  bool up = mode == Round::Nearest ? rest > half || (rest == half && (kept & 1))
            : mode == Round::Away  ? rest >= half
            : mode == Round::Up    ? rest && !sign
            : mode == Round::Down  ? rest && sign
                                   : false;
  kept += up;
  uint32_t result = exponent < lowest ? uint32_t(kept) : uint32_t((uint64_t(exponent + bias - 1) << Fraction) + kept);
  if (result >= infinity) {
    bool to_infinity = !Saturate && (mode == Round::Nearest || mode == Round::Away || (mode == Round::Up && !sign) ||
                                     (mode == Round::Down && sign));
    result = to_infinity ? infinity : infinity - 1;
  }
  return uint16_t(sign_bits | result);
}

inline Half to_half(float value, Round mode = Round::Nearest) { return {narrow<5, 10>(value, mode)}; }
inline Brain to_brain(float value, Round mode = Round::Nearest) { return {narrow<8, 7>(value, mode)}; }

inline Brain nearest_brain(float value) {  // to_brain for the default rounding, vectorizable
  uint32_t bits = bit_copy<uint32_t>(value);
  uint32_t result = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return {uint16_t((bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : result)};
}

// Rounds a double to a float with round-to-odd: an inexact result gets an odd last bit. Rounding this float to 16 bits
// then gives the same result as rounding the double, because the odd bit marks inexact values.
inline float to_odd(double value) {
  float single = static_cast<float>(value);
  double back = single;
  uint32_t bits = bit_copy<uint32_t>(single);
  bool inexact = back != value && value == value, above = std::fabs(back) > std::fabs(value);
  uint32_t odd = (bits - uint32_t(above)) | 1;
  return bit_copy<float>(inexact ? odd : bits);
}

// Adds two doubles with round-to-odd.
inline double add_odd(double a, double b) {
  double sum = a + b;
  double bb = sum - a, err = (a - (sum - bb)) + (b - bb);
  uint64_t bits = bit_copy<uint64_t>(sum);
  bool fix = err != 0 && err == err && std::fabs(sum) <= 0x1.fffffffffffffp1023 && !(bits & 1);
  bool away = (err > 0) == (sum > 0);
  uint64_t odd = away ? bits + 1 : bits - 1;
  return bit_copy<double>(fix ? odd : bits);
}

// a * b + c of 16-bit operands: the product is exact in a double, the sum is rounded to odd and then once to the
// format.
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
