// The 16-bit formats without CUDA's headers of them, which are a tenth of the text of a kernel file. Used where the source
// names neither __half nor __nv_bfloat16; the conversions are the same instructions.
#pragma once

#include <cuda_runtime.h>

#include <cstring>

namespace warpsmith {

template <class To, class From>
__host__ __device__ inline To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To made;
  memcpy(&made, &value, sizeof made);
  return made;
}

// Round to nearest, ties to even, on the host.
inline unsigned short half_of(float value) {
  const unsigned bits = bits_as<unsigned>(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u) return static_cast<unsigned short>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {  // below the smallest normal: the sum with 0.5 leaves the rounded bits at the end
    const float shifted = bits_as<float>(magnitude) + 0.5f;
    return static_cast<unsigned short>(sign | (bits_as<unsigned>(shifted) - 0x3f000000u));
  }
  const unsigned odd = (magnitude >> 13) & 1;
  return static_cast<unsigned short>(sign | ((magnitude - 0x38000000u + 0xfff + odd) >> 13));
}

inline float half_value(unsigned short half) {
  const unsigned sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits_as<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude >= 0x400u) return bits_as<float>(sign | ((magnitude << 13) + 0x38000000u));
  const float small = static_cast<float>(magnitude) * 5.9604644775390625e-8f;  // 2^-24
  return sign ? -small : small;
}

struct HalfBits {
  struct Raw {
    unsigned short x;
  };
  unsigned short x;

  HalfBits() = default;
  constexpr __host__ __device__ explicit HalfBits(Raw raw) : x(raw.x) {}
  __host__ __device__ operator float() const {
#ifdef __CUDA_ARCH__
    float value;
    asm("{cvt.f32.f16 %0, %1;}" : "=f"(value) : "h"(x));
    return value;
#else
    return half_value(x);
#endif
  }
};

struct BFloat16Bits {
  struct Raw {
    unsigned short x;
  };
  unsigned short x;

  BFloat16Bits() = default;
  constexpr __host__ __device__ explicit BFloat16Bits(Raw raw) : x(raw.x) {}
  __host__ __device__ operator float() const { return bits_as<float>(static_cast<unsigned>(x) << 16); }
};

__host__ __device__ inline HalfBits to_half(float value) {
#ifdef __CUDA_ARCH__
  HalfBits::Raw raw;
  asm("{cvt.rn.f16.f32 %0, %1;}" : "=h"(raw.x) : "f"(value));
  return HalfBits(raw);
#else
  return HalfBits(HalfBits::Raw{half_of(value)});
#endif
}

__host__ __device__ inline BFloat16Bits to_bfloat16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  BFloat16Bits::Raw raw;
  asm("{cvt.rn.bf16.f32 %0, %1;}" : "=h"(raw.x) : "f"(value));
  return BFloat16Bits(raw);
#else
  const unsigned bits = bits_as<unsigned>(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const unsigned rounded = nan ? 0x7fffu : (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  return BFloat16Bits(BFloat16Bits::Raw{static_cast<unsigned short>(rounded)});
#endif
}

}  // namespace warpsmith
