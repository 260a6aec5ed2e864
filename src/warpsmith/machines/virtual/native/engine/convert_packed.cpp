// cvt of packed and odd formats: pairs of 16-bit reals, tf32, fp8, packed integers.
#include "convert.h"

namespace vgpu {

Rounding rounding(const Lowering& l) {
  if (l.has("rni")) return {Round::Nearest, true};
  if (l.has("rzi")) return {Round::Zero, true};
  if (l.has("rmi")) return {Round::Down, true};
  if (l.has("rpi")) return {Round::Up, true};
  if (l.has("rz")) return {Round::Zero, false};
  if (l.has("rm")) return {Round::Down, false};
  if (l.has("rp")) return {Round::Up, false};
  if (l.has("rna")) return {Round::Away, false};
  return {Round::Nearest, false};
}

namespace {

// ---- packed and odd formats ----

template <class D>
void pack_pair(Warp& w, const Inst& i) {  // d = {a in the high half, b in the low half}
  const float *a = in<float>(w, i.a), *b = in<float>(w, i.b);
  Round mode = mode_of(i);
  bool relu = i.imm & kReluBit;
  auto one = [&](float v) {
    if (relu && v < 0) v = 0;
    return finite<D>(Narrow<D>::f(v, mode), i.imm & kFiniteBit);
  };
  lanes<uint32_t>(w, i.d, [&](int l) { return uint32_t(one(a[l])) << 16 | one(b[l]); });
}

void to_tf32(Warp& w, const Inst& i) {
  const float* a = in<float>(w, i.a);
  Round mode = mode_of(i);
  bool relu = i.imm & kReluBit, bounded = i.imm & kFiniteBit;
  lanes<uint32_t>(w, i.d, [=](int l) {
    float v = a[l];
    if (relu && v < 0) v = 0;
    uint32_t b = bit_copy<uint32_t>(v);
    if ((b & 0x7fffffff) > 0x7f800000) return kNan32;
    uint32_t half = mode == Round::Away ? 0x1000 : mode == Round::Nearest ? 0xfff + (b >> 13 & 1) : 0;
    uint32_t r = (b & 0x7fffffff) == 0x7f800000 ? b : (b + half) & ~uint32_t(0x1fff);
    return bounded && (r & 0x7fffffff) == 0x7f800000 ? r - 0x2000 : r;
  });
}

uint8_t to_fp8(float v, bool e5m2, bool relu) {
  if (relu && v < 0) v = 0;
  if (v != v) return 0x7f;
  uint8_t sign = std::signbit(v) ? 0x80 : 0;
  float m = std::fabs(v);
  if (e5m2) {
    if (m >= 57344.0f) return sign | 0x7b;
    return uint8_t(sign | (narrow<5, 2>(m, Round::Nearest) & 0x7f));
  }
  if (m >= 448.0f) return sign | 0x7e;
  // e4m3 has no infinity: its top exponent holds numbers, so round as with one more exponent bit and shift the bias.
  int e;
  std::frexp(m, &e);
  int step = std::max(e - 4, -9);
  float q = std::nearbyint(std::ldexp(m, -step));
  float r = std::ldexp(q, step);
  if (r == 0) return sign;
  std::frexp(r, &e);
  int biased = e - 1 + 7;
  uint32_t mantissa = biased >= 1 ? uint32_t(std::ldexp(r, 3 - (e - 1))) & 7 : uint32_t(std::ldexp(r, 9));
  return uint8_t(sign | (biased >= 1 ? uint32_t(biased) << 3 : 0) | mantissa);
}

float from_fp8(uint8_t b, bool e5m2) {
  if (e5m2) return to_float(Half{uint16_t(uint16_t(b) << 8)});
  int e = b >> 3 & 15, m = b & 7;
  if (e == 15 && m == 7) return bit_copy<float>(kNan32);
  float v = e ? std::ldexp(float(8 + m), e - 10) : std::ldexp(float(m), -9);
  return b & 0x80 ? -v : v;
}

template <bool E5>
void pack_fp8(Warp& w, const Inst& i) {
  const float *a = in<float>(w, i.a), *b = in<float>(w, i.b);
  bool relu = i.imm & kReluBit;
  lanes<uint16_t>(w, i.d, [=](int l) { return uint16_t(to_fp8(a[l], E5, relu) << 8 | to_fp8(b[l], E5, relu)); });
}
template <bool E5>
void pack_fp8_from_half(Warp& w, const Inst& i) {
  const uint32_t* a = in<uint32_t>(w, i.a);
  bool relu = i.imm & kReluBit;
  lanes<uint16_t>(w, i.d, [=](int l) {
    return uint16_t(to_fp8(to_float(Half{uint16_t(a[l] >> 16)}), E5, relu) << 8 |
                    to_fp8(to_float(Half{uint16_t(a[l])}), E5, relu));
  });
}
template <bool E5>
void unpack_fp8(Warp& w, const Inst& i) {
  const uint16_t* a = in<uint16_t>(w, i.a);
  lanes<uint32_t>(w, i.d, [=](int l) {
    return uint32_t(to_half(from_fp8(uint8_t(a[l] >> 8), E5)).bits) << 16 | to_half(from_fp8(uint8_t(a[l]), E5)).bits;
  });
}

bool lower_fp8(Lowering& l, const std::string& d, const std::string& a) {
  bool e5 = d == "e5m2x2" || a == "e5m2x2";
  Handler fn = nullptr;
  bool two = false;
  int from = 4, to = 2;
  if (d == "f16x2") {
    fn = e5 ? unpack_fp8<true> : unpack_fp8<false>;
    from = 2;
    to = 4;
  } else if (a == "f16x2") fn = e5 ? pack_fp8_from_half<true> : pack_fp8_from_half<false>;
  else if (a == "f32") {
    fn = e5 ? pack_fp8<true> : pack_fp8<false>;
    two = true;
  }
  if (to == 2 && !l.has("satfinite")) return false;  // there is no other form
  int32_t x = l.source(1, from), y = two ? l.source(2, from) : 0, t = l.target(size_t(0), to);
  Inst& i = l.emit(fn);
  i.a = x;
  i.b = y;
  i.d = t;
  i.imm = l.has("relu") ? kReluBit : 0;
  return true;
}

bool lower_packed(Lowering& l, const std::string& d) {
  Rounding r = rounding(l);
  if (l.operands() != 3) return false;
  int32_t a = l.source(1, 4, 'f'), b = l.source(2, 4, 'f'), t = l.target(size_t(0), 4);
  Inst& i = l.emit(d == "f16x2" ? pack_pair<Half> : pack_pair<Brain>);
  i.a = a;
  i.b = b;
  i.d = t;
  i.imm = int64_t(r.mode) | (l.has("relu") ? kReluBit : 0) | (l.has("satfinite") ? kFiniteBit : 0);
  return true;
}

// cvt.pack.sat: two s32 to 16-bit or 8-bit fields, and the rest of c.
void pack_integers(Warp& w, const Inst& i) {
  const int32_t *a = in<int32_t>(w, i.a), *b = in<int32_t>(w, i.b);
  const uint32_t* c = in<uint32_t>(w, i.c);
  int bits = int(i.imm & 31);
  bool is_signed = i.imm & 32, with_c = i.n == 3;
  lanes<uint32_t>(w, i.d, [=](int l) {
    int64_t low = is_signed ? -(int64_t(1) << (bits - 1)) : 0,
            high = is_signed ? (int64_t(1) << (bits - 1)) - 1 : (int64_t(1) << bits) - 1;
    auto sat = [&](int32_t v) { return uint32_t(v < low ? low : v > high ? high : v) & ((1u << bits) - 1); };
    uint32_t r = sat(a[l]) << bits | sat(b[l]);
    return with_c ? c[l] << (2 * bits) | r : r;
  });
}
bool lower_pack(Lowering& l) {
  auto t = l.types();
  if (t.size() < 2 || t[1] != "s32" || !l.has("sat")) return false;
  bool three = l.operands() == 4;
  int bits = type_bytes(t[0]) * 8;
  int32_t a = l.source(1, 4), b = l.source(2, 4), c = three ? l.source(3, 4) : 0, d = l.target(size_t(0), 4);
  Inst& i = l.emit(pack_integers);
  i.a = a;
  i.b = b;
  i.c = c;
  i.d = d;
  i.n = three ? 3 : 2;
  i.imm = bits | (t[0][0] == 's' ? 32 : 0);
  return true;
}

bool lower_tf32(Lowering& l) {
  int32_t x = l.source(1, 4, 'f'), t = l.target(size_t(0), 4);
  Inst& i = l.emit(to_tf32);
  i.a = x;
  i.d = t;
  i.imm = int64_t(rounding(l).mode) | (l.has("relu") ? kReluBit : 0) | (l.has("satfinite") ? kFiniteBit : 0);
  return true;
}

bool is_fp8(const std::string& t) { return t == "e4m3x2" || t == "e5m2x2"; }

}  // namespace

bool lower_packed_convert(Lowering& l, bool* known) {
  *known = true;
  if (l.has("pack")) return lower_pack(l);
  auto types = l.types();
  if (types.size() != 2) return false;
  if (is_fp8(types[0]) || is_fp8(types[1])) return lower_fp8(l, types[0], types[1]);
  if (types[0] == "f16x2" || types[0] == "bf16x2") return lower_packed(l, types[0]);
  if (types[0] == "tf32") return lower_tf32(l);
  *known = false;
  return false;
}

}  // namespace vgpu
