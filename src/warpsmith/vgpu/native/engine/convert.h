// What the conversions share: modifiers in an instruction's imm, and rounding to 16 bits.
#pragma once

#include "alu.h"
#include "real.h"

namespace vgpu {

constexpr int64_t kFtzBit = 16, kSatBit = 32, kReluBit = 64;
inline Round mode_of(const Inst& i) { return Round(i.imm & 15); }

template <class D>
struct Narrow;
template <>
struct Narrow<Half> {
  static uint16_t f(float v, Round m) { return to_half(v, m).bits; }
};
template <>
struct Narrow<Brain> {
  static uint16_t f(float v, Round m) { return to_brain(v, m).bits; }
};

struct Rounding {
  Round mode;
  bool integral;
};
Rounding rounding(const Lowering& l);

// f16x2, bf16x2, tf32, fp8 pairs and cvt.pack; *known is false when the types are none of these.
bool lower_packed_convert(Lowering& l, bool* known);

}  // namespace vgpu
