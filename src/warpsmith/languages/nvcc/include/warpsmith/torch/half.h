// c10::Half and c10::BFloat16: CUDA's own 16-bit types by inheritance, with torch's arithmetic. Knows no tensors.
//
// By inheritance, because a conversion to the base is better than every user conversion: `static_cast<__half>(x)`
// stays unambiguous although CUDA's operators and conversions are on, which torch's own build turns off. Without
// WARPSMITH_CUDA_HALF the base is ours: most sources never name CUDA's, and its headers are long.
#pragma once

#include <cuda_runtime.h>

#include <limits>
#include <type_traits>

#ifdef WARPSMITH_CUDA_HALF
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace warpsmith {
using HalfBase = __half;
using HalfRaw = __half_raw;
using BFloat16Base = __nv_bfloat16;
using BFloat16Raw = __nv_bfloat16_raw;
__host__ __device__ inline __half to_half(float value) { return __float2half(value); }
__host__ __device__ inline __nv_bfloat16 to_bfloat16(float value) { return __float2bfloat16(value); }
}  // namespace warpsmith
#else
#include "half_bits.h"

namespace warpsmith {
using HalfBase = HalfBits;
using HalfRaw = HalfBits::Raw;
using BFloat16Base = BFloat16Bits;
using BFloat16Raw = BFloat16Bits::Raw;
}  // namespace warpsmith
#endif

#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__

namespace c10 {

namespace detail {
template <class T>
using if_arithmetic = std::enable_if_t<std::is_arithmetic_v<T>, int>;
template <class T>
using if_integral = std::enable_if_t<std::is_integral_v<T>, int>;
}  // namespace detail

struct alignas(2) Half : warpsmith::HalfBase {
  using HalfBase = warpsmith::HalfBase;
  struct from_bits_t {};
  static constexpr C10_HOST_DEVICE from_bits_t from_bits() { return {}; }

  Half() = default;
  C10_HOST_DEVICE Half(const warpsmith::HalfBase& value) : HalfBase(value) {}
  template <class T, detail::if_arithmetic<T> = 0>
  C10_HOST_DEVICE Half(T value) : HalfBase(warpsmith::to_half(static_cast<float>(value))) {}
  constexpr C10_HOST_DEVICE Half(unsigned short bits, from_bits_t) : HalfBase(warpsmith::HalfRaw{bits}) {}
};

struct alignas(2) BFloat16 : warpsmith::BFloat16Base {
  using BFloat16Base = warpsmith::BFloat16Base;
  struct from_bits_t {};
  static constexpr C10_HOST_DEVICE from_bits_t from_bits() { return {}; }

  BFloat16() = default;
  C10_HOST_DEVICE BFloat16(const warpsmith::BFloat16Base& value) : BFloat16Base(value) {}
  template <class T, detail::if_arithmetic<T> = 0>
  C10_HOST_DEVICE BFloat16(T value) : BFloat16Base(warpsmith::to_bfloat16(static_cast<float>(value))) {}
  constexpr C10_HOST_DEVICE BFloat16(unsigned short bits, from_bits_t) : BFloat16Base(warpsmith::BFloat16Raw{bits}) {}
};

// torch's rules: with its own kind or an integer the result is 16-bit, with float or double it is that.
#define WARPSMITH_ARITHMETIC(T, OP)                                                                             \
  inline C10_HOST_DEVICE T operator OP(const T& a, const T& b) { return T(float(a) OP float(b)); }              \
  inline C10_HOST_DEVICE float operator OP(const T& a, float b) { return float(a) OP b; }                       \
  inline C10_HOST_DEVICE float operator OP(float a, const T& b) { return a OP float(b); }                       \
  inline C10_HOST_DEVICE double operator OP(const T& a, double b) { return double(float(a)) OP b; }             \
  inline C10_HOST_DEVICE double operator OP(double a, const T& b) { return a OP double(float(b)); }             \
  template <class I, detail::if_integral<I> = 0>                                                                \
  inline C10_HOST_DEVICE T operator OP(const T& a, I b) { return T(float(a) OP float(b)); }                     \
  template <class I, detail::if_integral<I> = 0>                                                                \
  inline C10_HOST_DEVICE T operator OP(I a, const T& b) { return T(float(a) OP float(b)); }                     \
  inline C10_HOST_DEVICE T& operator OP##=(T & a, const T & b) { return a = a OP b; }                           \
  template <class N, detail::if_arithmetic<N> = 0>                                                              \
  inline C10_HOST_DEVICE T& operator OP##=(T & a, N b) { return a = T(float(a) OP float(b)); }

#define WARPSMITH_COMPARISON(T, OP)                                                                             \
  inline C10_HOST_DEVICE bool operator OP(const T& a, const T& b) { return float(a) OP float(b); }              \
  template <class N, detail::if_arithmetic<N> = 0>                                                              \
  inline C10_HOST_DEVICE bool operator OP(const T& a, N b) { return float(a) OP float(b); }                     \
  template <class N, detail::if_arithmetic<N> = 0>                                                              \
  inline C10_HOST_DEVICE bool operator OP(N a, const T& b) { return float(a) OP float(b); }

#define WARPSMITH_OPERATORS(T)                                                  \
  WARPSMITH_ARITHMETIC(T, +)                                                    \
  WARPSMITH_ARITHMETIC(T, -)                                                    \
  WARPSMITH_ARITHMETIC(T, *)                                                    \
  WARPSMITH_ARITHMETIC(T, /)                                                    \
  WARPSMITH_COMPARISON(T, <)                                                    \
  WARPSMITH_COMPARISON(T, >)                                                    \
  WARPSMITH_COMPARISON(T, <=)                                                   \
  WARPSMITH_COMPARISON(T, >=)                                                   \
  WARPSMITH_COMPARISON(T, ==)                                                   \
  WARPSMITH_COMPARISON(T, !=)                                                   \
  inline C10_HOST_DEVICE T operator-(const T& a) { return T(-float(a)); }       \
  inline C10_HOST_DEVICE T operator+(const T& a) { return a; }

WARPSMITH_OPERATORS(Half)
WARPSMITH_OPERATORS(BFloat16)

#undef WARPSMITH_OPERATORS
#undef WARPSMITH_COMPARISON
#undef WARPSMITH_ARITHMETIC

}  // namespace c10

namespace std {

template <>
class numeric_limits<c10::Half> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 11, digits10 = 3, max_exponent = 16, min_exponent = -13;
  static constexpr C10_HOST_DEVICE c10::Half bits(unsigned short raw) { return {raw, c10::Half::from_bits()}; }
  static constexpr C10_HOST_DEVICE c10::Half min() { return bits(0x0400); }
  static constexpr C10_HOST_DEVICE c10::Half lowest() { return bits(0xFBFF); }
  static constexpr C10_HOST_DEVICE c10::Half max() { return bits(0x7BFF); }
  static constexpr C10_HOST_DEVICE c10::Half epsilon() { return bits(0x1400); }
  static constexpr C10_HOST_DEVICE c10::Half infinity() { return bits(0x7C00); }
  static constexpr C10_HOST_DEVICE c10::Half quiet_NaN() { return bits(0x7E00); }
  static constexpr C10_HOST_DEVICE c10::Half denorm_min() { return bits(0x0001); }
};

template <>
class numeric_limits<c10::BFloat16> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 8, digits10 = 2, max_exponent = 128, min_exponent = -125;
  static constexpr C10_HOST_DEVICE c10::BFloat16 bits(unsigned short raw) {
    return {raw, c10::BFloat16::from_bits()};
  }
  static constexpr C10_HOST_DEVICE c10::BFloat16 min() { return bits(0x0080); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 lowest() { return bits(0xFF7F); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 max() { return bits(0x7F7F); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 epsilon() { return bits(0x3C00); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 infinity() { return bits(0x7F80); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 quiet_NaN() { return bits(0x7FC0); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 denorm_min() { return bits(0x0001); }
};

}  // namespace std
