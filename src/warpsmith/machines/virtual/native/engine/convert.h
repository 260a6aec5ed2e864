// Declarations that the conversions share: modifiers in an instruction's imm, and rounding to 16 bits.
#pragma once

#include "alu.h"
#include "real.h"

namespace vgpu {

constexpr int64_t kFtzBit = 16, kSatBit = 32, kReluBit = 64, kFiniteBit = 256;
inline Round mode_of(const Inst& inst) { return Round(inst.imm & 15); }

template <class D>
struct Narrow;
template <>
struct Narrow<Half> {
  static uint16_t apply(float value, Round mode) { return to_half(value, mode).bits; }
};
template <>
struct Narrow<Brain> {
  static uint16_t apply(float value, Round mode) { return to_brain(value, mode).bits; }
};

// .satfinite: infinity becomes the largest finite number.
template <class D>
uint16_t finite(uint16_t bits, bool asked) {
  constexpr uint16_t infinity = std::is_same_v<D, Half> ? 0x7c00 : 0x7f80;
  return uint16_t(asked && (bits & 0x7fff) == infinity ? bits - 1 : bits);
}

struct Rounding {
  Round mode;
  bool integral;
};
Rounding rounding(const Lowering& lowering);

// f16x2, bf16x2, tf32, fp8 pairs and cvt.pack. Sets *known to false for other types.
bool lower_packed_convert(Lowering& lowering, bool* known);

}  // namespace vgpu
