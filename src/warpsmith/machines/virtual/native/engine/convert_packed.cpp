// cvt of packed and alternate formats: pairs of 16-bit reals, tf32, fp8 pairs, packed integers.
#include "convert.h"

namespace vgpu {

Rounding rounding(const Lowering& lowering) {
  if (lowering.has("rni")) return {Round::Nearest, true};
  if (lowering.has("rzi")) return {Round::Zero, true};
  if (lowering.has("rmi")) return {Round::Down, true};
  if (lowering.has("rpi")) return {Round::Up, true};
  if (lowering.has("rz")) return {Round::Zero, false};
  if (lowering.has("rm")) return {Round::Down, false};
  if (lowering.has("rp")) return {Round::Up, false};
  if (lowering.has("rna")) return {Round::Away, false};
  return {Round::Nearest, false};
}

namespace {

// ---- packed and odd formats ----

template <class D>
void pack_pair(Warp& warp, const Inst& inst) {  // d = {a in the high half, b in the low half}
  const float *a = in<float>(warp, inst.a), *b = in<float>(warp, inst.b);
  Round mode = mode_of(inst);
  bool relu = inst.imm & kReluBit;
  auto one = [&](float value) {
    if (relu && value < 0) value = 0;
    return finite<D>(Narrow<D>::apply(value, mode), inst.imm & kFiniteBit);
  };
  lanes<uint32_t>(warp, inst.d, [&](int lane) { return uint32_t(one(a[lane])) << 16 | one(b[lane]); });
}

void to_tf32(Warp& warp, const Inst& inst) {
  const float* a = in<float>(warp, inst.a);
  Round mode = mode_of(inst);
  bool relu = inst.imm & kReluBit, bounded = inst.imm & kFiniteBit;
  lanes<uint32_t>(warp, inst.d, [=](int lane) {
    float value = a[lane];
    if (relu && value < 0) value = 0;
    uint32_t bits = bit_copy<uint32_t>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return kNan32;
    uint32_t half = mode == Round::Away ? 0x1000 : mode == Round::Nearest ? 0xfff + (bits >> 13 & 1) : 0;
    uint32_t result = (bits & 0x7fffffff) == 0x7f800000 ? bits : (bits + half) & ~uint32_t(0x1fff);
    return bounded && (result & 0x7fffffff) == 0x7f800000 ? result - 0x2000 : result;
  });
}

uint8_t to_fp8(float value, bool e5m2, bool relu) {
  if (relu && value < 0) value = 0;
  if (value != value) return 0x7f;
  uint8_t sign = std::signbit(value) ? 0x80 : 0;
  float magnitude = std::fabs(value);
  if (e5m2) {
    if (magnitude >= 57344.0f) return sign | 0x7b;
    return uint8_t(sign | (narrow<5, 2>(magnitude, Round::Nearest) & 0x7f));
  }
  if (magnitude >= 448.0f) return sign | 0x7e;
  // e4m3 has no infinity: its largest exponent encodes numbers. The value is therefore rounded by scaling, not by
  // narrow().
  int exponent;
  std::frexp(magnitude, &exponent);
  int step = std::max(exponent - 4, -9);
  float quotient = std::nearbyint(std::ldexp(magnitude, -step));
  float result = std::ldexp(quotient, step);
  if (result == 0) return sign;
  std::frexp(result, &exponent);
  int biased = exponent - 1 + 7;
  uint32_t mantissa =
      biased >= 1 ? uint32_t(std::ldexp(result, 3 - (exponent - 1))) & 7 : uint32_t(std::ldexp(result, 9));
  return uint8_t(sign | (biased >= 1 ? uint32_t(biased) << 3 : 0) | mantissa);
}

float from_fp8(uint8_t b, bool e5m2) {
  if (e5m2) return to_float(Half{uint16_t(uint16_t(b) << 8)});
  int exponent = b >> 3 & 15, mantissa = b & 7;
  if (exponent == 15 && mantissa == 7) return bit_copy<float>(kNan32);
  float value = exponent ? std::ldexp(float(8 + mantissa), exponent - 10) : std::ldexp(float(mantissa), -9);
  return b & 0x80 ? -value : value;
}

template <bool E5>
void pack_fp8(Warp& warp, const Inst& inst) {
  const float *a = in<float>(warp, inst.a), *b = in<float>(warp, inst.b);
  bool relu = inst.imm & kReluBit;
  lanes<uint16_t>(warp, inst.d,
                  [=](int lane) { return uint16_t(to_fp8(a[lane], E5, relu) << 8 | to_fp8(b[lane], E5, relu)); });
}
template <bool E5>
void pack_fp8_from_half(Warp& warp, const Inst& inst) {
  const uint32_t* a = in<uint32_t>(warp, inst.a);
  bool relu = inst.imm & kReluBit;
  lanes<uint16_t>(warp, inst.d, [=](int lane) {
    return uint16_t(to_fp8(to_float(Half{uint16_t(a[lane] >> 16)}), E5, relu) << 8 |
                    to_fp8(to_float(Half{uint16_t(a[lane])}), E5, relu));
  });
}
template <bool E5>
void unpack_fp8(Warp& warp, const Inst& inst) {
  const uint16_t* a = in<uint16_t>(warp, inst.a);
  lanes<uint32_t>(warp, inst.d, [=](int lane) {
    return uint32_t(to_half(from_fp8(uint8_t(a[lane] >> 8), E5)).bits) << 16 |
           to_half(from_fp8(uint8_t(a[lane]), E5)).bits;
  });
}

bool lower_fp8(Lowering& lowering, const std::string& to_type, const std::string& from_type) {
  bool e5 = to_type == "e5m2x2" || from_type == "e5m2x2";
  Handler fn = nullptr;
  bool two = false;
  int from = 4, to = 2;
  if (to_type == "f16x2") {
    fn = e5 ? unpack_fp8<true> : unpack_fp8<false>;
    from = 2;
    to = 4;
  } else if (from_type == "f16x2") fn = e5 ? pack_fp8_from_half<true> : pack_fp8_from_half<false>;
  else if (from_type == "f32") {
    fn = e5 ? pack_fp8<true> : pack_fp8<false>;
    two = true;
  }
  if (to == 2 && !lowering.has("satfinite")) return false;  // PTX has no form without .satfinite
  int32_t x = lowering.source(1, from), y = two ? lowering.source(2, from) : 0, target = lowering.target(size_t(0), to);
  Inst& inst = lowering.emit(fn);
  inst.a = x;
  inst.b = y;
  inst.d = target;
  inst.imm = lowering.has("relu") ? kReluBit : 0;
  return true;
}

bool lower_packed(Lowering& lowering, const std::string& to) {
  Rounding round = rounding(lowering);
  if (lowering.operands() != 3) return false;
  int32_t a = lowering.source(1, 4, 'f'), b = lowering.source(2, 4, 'f'), target = lowering.target(size_t(0), 4);
  Inst& inst = lowering.emit(to == "f16x2" ? pack_pair<Half> : pack_pair<Brain>);
  inst.a = a;
  inst.b = b;
  inst.d = target;
  inst.imm = int64_t(round.mode) | (lowering.has("relu") ? kReluBit : 0) | (lowering.has("satfinite") ? kFiniteBit : 0);
  return true;
}

// cvt.pack.sat: two s32 values saturated to fields of 16 bits or less; c supplies the upper bits.
void pack_integers(Warp& warp, const Inst& inst) {
  const int32_t *a = in<int32_t>(warp, inst.a), *b = in<int32_t>(warp, inst.b);
  const uint32_t* c = in<uint32_t>(warp, inst.c);
  int bits = int(inst.imm & 31);
  bool is_signed = inst.imm & 32, with_c = inst.count == 3;
  lanes<uint32_t>(warp, inst.d, [=](int lane) {
    int64_t low = is_signed ? -(int64_t(1) << (bits - 1)) : 0,
            high = is_signed ? (int64_t(1) << (bits - 1)) - 1 : (int64_t(1) << bits) - 1;
    auto sat = [&](int32_t value) {
      return uint32_t(value < low ? low : value > high ? high : value) & ((1u << bits) - 1);
    };
    uint32_t result = sat(a[lane]) << bits | sat(b[lane]);
    return with_c ? c[lane] << (2 * bits) | result : result;
  });
}
bool lower_pack(Lowering& lowering) {
  auto types = lowering.types();
  if (types.size() < 2 || types[1] != "s32" || !lowering.has("sat")) return false;
  bool three = lowering.operands() == 4;
  int bits = type_bytes(types[0]) * 8;
  int32_t a = lowering.source(1, 4), b = lowering.source(2, 4), c = three ? lowering.source(3, 4) : 0,
          d = lowering.target(size_t(0), 4);
  Inst& inst = lowering.emit(pack_integers);
  inst.a = a;
  inst.b = b;
  inst.c = c;
  inst.d = d;
  inst.count = three ? 3 : 2;
  inst.imm = bits | (types[0][0] == 's' ? 32 : 0);
  return true;
}

bool lower_tf32(Lowering& lowering) {
  int32_t x = lowering.source(1, 4, 'f'), target = lowering.target(size_t(0), 4);
  Inst& inst = lowering.emit(to_tf32);
  inst.a = x;
  inst.d = target;
  inst.imm = int64_t(rounding(lowering).mode) | (lowering.has("relu") ? kReluBit : 0) |
             (lowering.has("satfinite") ? kFiniteBit : 0);
  return true;
}

bool is_fp8(const std::string& type) { return type == "e4m3x2" || type == "e5m2x2"; }

}  // namespace

bool lower_packed_convert(Lowering& lowering, bool* known) {
  *known = true;
  if (lowering.has("pack")) return lower_pack(lowering);
  auto types = lowering.types();
  if (types.size() != 2) return false;
  if (is_fp8(types[0]) || is_fp8(types[1])) return lower_fp8(lowering, types[0], types[1]);
  if (types[0] == "f16x2" || types[0] == "bf16x2") return lower_packed(lowering, types[0]);
  if (types[0] == "tf32") return lower_tf32(lowering);
  *known = false;
  return false;
}

}  // namespace vgpu
