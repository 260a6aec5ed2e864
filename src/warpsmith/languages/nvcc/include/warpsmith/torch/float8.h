// c10::Float8_e4m3fn and c10::Float8_e5m2: types that numbers are stored in and computed with as float. Knows no tensors.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace c10 {

namespace detail {

template <class To, class From>
__host__ __device__ inline To eight_bits_as(From value) {
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}

// Mantissa bits, bias of the exponent, the largest number, what is beyond it, and the first that is no number.
template <int Mantissa, unsigned Bias, unsigned Largest, unsigned Beyond, unsigned Nan>
struct Eight {
  static constexpr int shift = 23 - Mantissa;

  __host__ __device__ static uint8_t of(float value) {
    const unsigned bits = eight_bits_as<unsigned>(value), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return uint8_t(sign | 0x7fu);
    if (magnitude < (128u - Bias) << 23) {  // below the smallest normal: the sum leaves the rounded bits at the end
      const unsigned aligned = (151u - Bias - Mantissa) << 23;
      const float sum = eight_bits_as<float>(magnitude) + eight_bits_as<float>(aligned);
      return uint8_t(sign | (eight_bits_as<unsigned>(sum) - aligned));
    }
    const unsigned odd = magnitude >> shift & 1u;
    const unsigned rounded = (magnitude - ((127u - Bias) << 23) + (1u << (shift - 1)) - 1u + odd) >> shift;
    return uint8_t(sign | (rounded > Largest ? Beyond : rounded));
  }

  __host__ __device__ static float to_float(uint8_t raw) {
    const unsigned sign = (raw & 0x80u) << 24, magnitude = raw & 0x7fu;
    if (magnitude >= Nan) return eight_bits_as<float>(sign | 0x7fc00000u);
    if (magnitude > Largest) return eight_bits_as<float>(sign | 0x7f800000u);
    if (magnitude >> Mantissa == 0) {  // a small whole number of the smallest step
      const float small = float(magnitude) * eight_bits_as<float>((128u - Bias - Mantissa) << 23);
      return sign ? -small : small;
    }
    return eight_bits_as<float>(sign | ((magnitude << shift) + ((127u - Bias) << 23)));
  }
};

}  // namespace detail

#define WARPSMITH_FLOAT8(NAME, ...)                                                            \
  struct alignas(1) NAME {                                                                     \
    struct from_bits_t {};                                                                     \
    static constexpr __host__ __device__ from_bits_t from_bits() { return {}; }                \
    uint8_t x;                                                                                 \
    NAME() = default;                                                                          \
    constexpr __host__ __device__ NAME(uint8_t bits, from_bits_t) : x(bits) {}                 \
    template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>                     \
    __host__ __device__ NAME(T value) : x(__VA_ARGS__::of(static_cast<float>(value))) {}       \
    __host__ __device__ operator float() const { return __VA_ARGS__::to_float(x); }            \
  };
// As torch converts: e4m3fn has no infinity, and what is beyond its largest number is that number.
WARPSMITH_FLOAT8(Float8_e4m3fn, detail::Eight<3, 7, 0x7e, 0x7e, 0x7f>)
WARPSMITH_FLOAT8(Float8_e5m2, detail::Eight<2, 15, 0x7b, 0x7c, 0x7d>)
#undef WARPSMITH_FLOAT8

}  // namespace c10
