// Matrix instructions on fragments with documented layouts: ldmatrix, stmatrix, movmatrix, mma.sync.
#include "matrix.h"

#include <algorithm>

#include "alu.h"
#include "control.h"
#include "real.h"
#include "transfer.h"

namespace vgpu {

const std::vector<uint32_t>& places_of(const Inst& i) { return *static_cast<const std::vector<uint32_t>*>(i.table); }

Inst& emit_matrix(Lowering& l, Handler fn, std::vector<uint32_t> places) {
  Inst& i = l.emit(fn);
  l.program.tables.push_back(std::make_unique<std::vector<uint32_t>>(std::move(places)));
  i.table = l.program.tables.back().get();
  i.v[7] = kEveryLane;
  l.kind = Class::Tensor;
  return i;
}

bool fragment_sources(Lowering& l, const ptx::Operand& o, int width, size_t count, std::vector<uint32_t>* places) {
  const std::vector<ptx::Operand> one{o};
  const auto& parts = o.kind == ptx::Operand::Vector ? o.parts : one;
  if (parts.size() != count) return false;
  for (const ptx::Operand& part : parts) places->push_back(uint32_t(l.source(part, width)));
  return true;
}

bool fragment_targets(Lowering& l, const ptx::Operand& o, int width, size_t count, std::vector<uint32_t>* places) {
  const std::vector<ptx::Operand> one{o};
  const auto& parts = o.kind == ptx::Operand::Vector ? o.parts : one;
  if (parts.size() != count) return false;
  for (const ptx::Operand& part : parts) places->push_back(uint32_t(l.target(part, width)));
  return true;
}

bool whole_warp(Warp& w, const Inst& i) {
  if (w.mask == UINT32_MAX) return true;
  stop(w, i, Status::Faulted, w.grid->program->places[i.where].opcode + " by part of a warp");
  report(w, i, __builtin_ctz(w.mask | 1), {"barrier", 0, 0, "", true}, [&] {
    return w.grid->program->places[i.where].opcode + " is executed by part of a warp; all 32 threads must";
  });
  return false;
}

namespace {

// ---- 8x8 matrices of 16-bit elements in shared memory ----

using Tile = uint16_t[4][8][8];

void rows(Warp& w, const Inst& i, int matrices, bool write, Tile tile) {
  uint32_t mask = w.mask, users = matrices == 4 ? mask : mask & ((1u << (8 * matrices)) - 1);
  set_mask(w, users);
  Request r;
  r.bytes = 16;
  r.write = write;
  addresses(w, i, &r);
  in_spaces(w, i, r, [&](const Access& access) {
    each(access.mask, [&](int lane) {
      uint8_t* p = access.base + access.delta[lane];
      if (write) std::memcpy(p, tile[lane / 8][lane % 8], 16);
      else std::memcpy(tile[lane / 8][lane % 8], p, 16);
    });
  });
  set_mask(w, mask);
}

template <bool Trans>
void ldmatrix(Warp& w, const Inst& i) {
  if (!whole_warp(w, i)) return;
  Tile tile = {};
  rows(w, i, i.n, false, tile);
  for (int m = 0; m < i.n; ++m)
    lanes<uint32_t>(w, int32_t(places_of(i)[size_t(m)]), [&](int t) {
      int a = t / 4, b = t % 4 * 2;
      return Trans ? uint32_t(tile[m][b][a]) | uint32_t(tile[m][b + 1][a]) << 16
                   : uint32_t(tile[m][a][b]) | uint32_t(tile[m][a][b + 1]) << 16;
    });
}

template <bool Trans>
void stmatrix(Warp& w, const Inst& i) {
  if (!whole_warp(w, i)) return;
  Tile tile = {};
  for (int m = 0; m < i.n; ++m) {
    const uint32_t* s = in<uint32_t>(w, int32_t(places_of(i)[size_t(m)]));
    for (int t = 0; t < 32; ++t) {
      int a = t / 4, b = t % 4 * 2;
      (Trans ? tile[m][b][a] : tile[m][a][b]) = uint16_t(s[t]);
      (Trans ? tile[m][b + 1][a] : tile[m][a][b + 1]) = uint16_t(s[t] >> 16);
    }
  }
  rows(w, i, i.n, true, tile);
}

void movmatrix(Warp& w, const Inst& i) {
  if (!whole_warp(w, i)) return;
  uint16_t m[8][8];
  const uint32_t* s = in<uint32_t>(w, i.a);
  for (int t = 0; t < 32; ++t) {
    m[t / 4][t % 4 * 2] = uint16_t(s[t]);
    m[t / 4][t % 4 * 2 + 1] = uint16_t(s[t] >> 16);
  }
  lanes<uint32_t>(w, i.d,
                  [&](int t) { return uint32_t(m[t % 4 * 2][t / 4]) | uint32_t(m[t % 4 * 2 + 1][t / 4]) << 16; });
}

bool lower_xmatrix(Lowering& l, bool load) {
  int n = l.has("x4") ? 4 : l.has("x2") ? 2 : l.has("x1") ? 1 : 0;
  if (!n || !l.has("m8n8") || !l.has("b16") || l.operands() != 2) return false;
  std::vector<uint32_t> places;
  AddressForm a;
  if (!address_form(l, l.operand(load ? 1 : 0), &a)) return false;
  bool ok = load ? fragment_targets(l, l.operand(0), 4, size_t(n), &places)
                 : fragment_sources(l, l.operand(1), 4, size_t(n), &places);
  if (!ok) return false;
  bool trans = l.has("trans");
  Inst& i = emit_matrix(l,
                        load    ? (trans ? ldmatrix<true> : ldmatrix<false>)
                        : trans ? stmatrix<true>
                                : stmatrix<false>,
                        places);
  i.n = uint8_t(n);
  i.a = a.base;
  i.imm = a.imm;
  i.c = int32_t(a.space);
  i.flags = a.flags;
  i.memo = l.memo();
  l.kind = Class::Shared;
  return true;
}
bool lower_ldmatrix(Lowering& l) { return lower_xmatrix(l, true); }
bool lower_stmatrix(Lowering& l) { return lower_xmatrix(l, false); }

bool lower_movmatrix(Lowering& l) {
  if (!l.has("trans") || !l.has("m8n8")) return false;
  int32_t a = l.source(1, 4), d = l.target(size_t(0), 4);
  Inst& i = emit_matrix(l, movmatrix, {});
  i.a = a;
  i.d = d;
  return true;
}

// ---- mma.sync ----

// Elements of A (16 rows) and B (8 columns) by lane, register and position in it.
struct Shape {
  int k = 0, per = 2;
  size_t a_regs = 0, b_regs = 0;
};

template <class V, class F>
void gather_a(const Warp& w, const Shape& s, const uint32_t* regs, V (*a)[32], F element) {
  for (int t = 0; t < 32; ++t)
    for (size_t r = 0; r < s.a_regs; ++r) {
      uint32_t bits = in<uint32_t>(w, int32_t(regs[r]))[t];
      int row = t / 4 + (r & 1 ? 8 : 0), col = t % 4 * s.per + int(r / 2) * 4 * s.per;
      for (int e = 0; e < s.per; ++e) a[row][col + e] = element(bits, e);
    }
}

template <class V, class F>
void gather_b(const Warp& w, const Shape& s, const uint32_t* regs, V (*b)[8], F element) {
  for (int t = 0; t < 32; ++t)
    for (size_t r = 0; r < s.b_regs; ++r) {
      uint32_t bits = in<uint32_t>(w, int32_t(regs[r]))[t];
      int row = t % 4 * s.per + int(r) * 4 * s.per;
      for (int e = 0; e < s.per; ++e) b[row + e][t / 4] = element(bits, e);
    }
}

template <class V, class Acc>
void multiply(const Shape& s, const V (*a)[32], const V (*b)[8], Acc (*c)[8]) {
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < s.k; ++k)
      for (int n = 0; n < 8; ++n) c[m][n] += Acc(a[m][k]) * Acc(b[k][n]);
}

float half_element(uint32_t bits, int e) { return to_float(Half{uint16_t(bits >> (16 * e))}); }
float brain_element(uint32_t bits, int e) { return to_float(Brain{uint16_t(bits >> (16 * e))}); }
float tf32_element(uint32_t bits, int) {
  return bit_copy<float>(bits & ~uint32_t(0x1fff));
}  // hardware drops the low 13 bits
int32_t s8_element(uint32_t bits, int e) { return int8_t(bits >> (8 * e)); }
int32_t u8_element(uint32_t bits, int e) { return uint8_t(bits >> (8 * e)); }

Shape shape_of(const Inst& i) {
  Shape s;
  s.k = int(i.imm & 0xff);
  s.per = int(i.imm >> 8 & 0xff);
  s.b_regs = size_t(s.k / (4 * s.per));
  s.a_regs = 2 * s.b_regs;
  return s;
}

// The products of one instruction are summed in double precision and rounded once to the accumulator.
template <float (*Element)(uint32_t, int), bool HalfAcc>
void mma_real(Warp& w, const Inst& i) {
  if (!whole_warp(w, i)) return;
  Shape s = shape_of(i);
  const uint32_t* p = places_of(i).data();
  size_t accumulators = HalfAcc ? 2 : 4;
  const uint32_t *pd = p, *pa = p + accumulators, *pb = pa + s.a_regs, *pc = pb + s.b_regs;
  float a[16][32], b[32][8];
  double c[16][8];
  gather_a(w, s, pa, a, Element);
  gather_b(w, s, pb, b, Element);
  for (int t = 0; t < 32; ++t)
    for (int r = 0; r < 4; ++r) {
      int row = t / 4 + (r & 2 ? 8 : 0), col = t % 4 * 2 + (r & 1);
      c[row][col] = HalfAcc ? to_float(Half{uint16_t(in<uint32_t>(w, int32_t(pc[r / 2]))[t] >> (16 *(r& 1)))})
                            : in<float>(w, int32_t(pc[r]))[t];
    }
  multiply(s, a, b, c);
  for (int t = 0; t < 32; ++t)
    for (int r = 0; r < 4; ++r) {
      double v = c[t / 4 + (r & 2 ? 8 : 0)][t % 4 * 2 + (r & 1)];
      if (!HalfAcc) {
        out<float>(w, int32_t(pd[r]))[t] = canonical(float(v));
        continue;
      }
      uint32_t& word = out<uint32_t>(w, int32_t(pd[r / 2]))[t];
      uint32_t half = to_half(to_odd(v)).bits;
      word = r & 1 ? (word & 0xffff) | half << 16 : (word & 0xffff0000) | half;
    }
}

template <int32_t (*A)(uint32_t, int), int32_t (*B)(uint32_t, int)>
void mma_integer(Warp& w, const Inst& i) {
  if (!whole_warp(w, i)) return;
  Shape s = shape_of(i);
  const uint32_t* p = places_of(i).data();
  const uint32_t *pa = p + 4, *pb = pa + s.a_regs, *pc = pb + s.b_regs;
  int32_t a[16][32], b[32][8];
  int64_t c[16][8];
  gather_a(w, s, pa, a, A);
  gather_b(w, s, pb, b, B);
  auto at = [](int64_t (*m)[8], int t, int r) -> int64_t& { return m[t / 4 + (r & 2 ? 8 : 0)][t % 4 * 2 + (r & 1)]; };
  for (int t = 0; t < 32; ++t)
    for (int r = 0; r < 4; ++r) at(c, t, r) = in<int32_t>(w, int32_t(pc[r]))[t];
  multiply(s, a, b, c);
  bool sat = i.flags & 1;
  for (int t = 0; t < 32; ++t)
    for (int r = 0; r < 4; ++r) {
      int64_t v = at(c, t, r);
      out<int32_t>(w, int32_t(p[r]))[t] = sat ? int32_t(std::clamp<int64_t>(v, INT32_MIN, INT32_MAX)) : int32_t(v);
    }
}

Handler mma_handler(const std::vector<std::string>& t) {  // d, a, b, c
  if (t[1] == "f16" && t[2] == "f16")
    return t[0] == "f32" && t[3] == "f32"   ? mma_real<half_element, false>
           : t[0] == "f16" && t[3] == "f16" ? mma_real<half_element, true>
                                            : nullptr;
  if (t[1] == "bf16" && t[2] == "bf16")
    return t[0] == "f32" && t[3] == "f32" ? mma_real<brain_element, false> : nullptr;
  if (t[1] == "tf32" && t[2] == "tf32") return t[0] == "f32" && t[3] == "f32" ? mma_real<tf32_element, false> : nullptr;
  if (t[0] != "s32" || t[3] != "s32") return nullptr;
  if (t[1] == "s8")
    return t[2] == "s8"   ? mma_integer<s8_element, s8_element>
           : t[2] == "u8" ? mma_integer<s8_element, u8_element>
                          : nullptr;
  if (t[1] == "u8")
    return t[2] == "s8"   ? mma_integer<u8_element, s8_element>
           : t[2] == "u8" ? mma_integer<u8_element, u8_element>
                          : nullptr;
  return nullptr;
}

bool lower_mma(Lowering& l) {
  auto t = l.types();
  if (t.size() != 4 || l.operands() != 4 || !l.has("row") || !l.has("col") || l.has("sp") || l.has_prefix("sp::"))
    return false;
  int k = l.has("m16n8k16") ? 16 : l.has("m16n8k8") ? 8 : l.has("m16n8k4") ? 4 : l.has("m16n8k32") ? 32 : 0;
  int per = t[1] == "tf32" ? 1 : t[1] == "s8" || t[1] == "u8" ? 4 : 2;
  Handler fn = mma_handler(t);
  bool known =
      (per == 1 && (k == 4 || k == 8)) || (per == 2 && (k == 8 || k == 16)) || (per == 4 && (k == 16 || k == 32));
  if (!fn || !known) return false;
  size_t b_regs = size_t(k / (4 * per)), acc = t[0] == "f16" ? 2 : 4;
  std::vector<uint32_t> places;
  if (!fragment_targets(l, l.operand(0), 4, acc, &places) ||
      !fragment_sources(l, l.operand(1), 4, 2 * b_regs, &places) ||
      !fragment_sources(l, l.operand(2), 4, b_regs, &places) || !fragment_sources(l, l.operand(3), 4, acc, &places))
    return false;
  Inst& i = emit_matrix(l, fn, places);
  i.imm = k | per << 8;
  i.flags = l.has("satfinite");
  return true;
}

}  // namespace

bool lower_wmma(Lowering& l);
bool lower_wgmma(Lowering& l);

const LowerEntry kMatrixOps[] = {{"ldmatrix", lower_ldmatrix},
                                 {"stmatrix", lower_stmatrix},
                                 {"movmatrix", lower_movmatrix},
                                 {"mma", lower_mma},
                                 {"wmma", lower_wmma, "col"},
                                 {"wgmma", lower_wgmma},
                                 {nullptr, nullptr}};

}  // namespace vgpu
