// Matrix instructions on fragments with documented layouts: ldmatrix, stmatrix, movmatrix, mma.sync (PTX ISA, "Warp
// Level Matrix Instructions").
#include "matrix.h"

#include <algorithm>

#include "alu.h"
#include "control.h"
#include "real.h"
#include "transfer.h"

namespace vgpu {

const std::vector<uint32_t>& places_of(const Inst& inst) {
  return *static_cast<const std::vector<uint32_t>*>(inst.table);
}

Inst& emit_matrix(Lowering& lowering, Handler fn, std::vector<uint32_t> places) {
  Inst& inst = lowering.emit(fn);
  lowering.program.tables.push_back(std::make_unique<std::vector<uint32_t>>(std::move(places)));
  inst.table = lowering.program.tables.back().get();
  inst.extra[7] = kEveryLane;
  lowering.kind = Class::Tensor;
  return inst;
}

bool fragment_sources(Lowering& lowering, const ptx::Operand& operand, int width, size_t count,
                      std::vector<uint32_t>* places) {
  const std::vector<ptx::Operand> one{operand};
  const auto& parts = operand.kind == ptx::Operand::Vector ? operand.parts : one;
  if (parts.size() != count) return false;
  for (const ptx::Operand& part : parts) places->push_back(uint32_t(lowering.source(part, width)));
  return true;
}

bool fragment_targets(Lowering& lowering, const ptx::Operand& operand, int width, size_t count,
                      std::vector<uint32_t>* places) {
  const std::vector<ptx::Operand> one{operand};
  const auto& parts = operand.kind == ptx::Operand::Vector ? operand.parts : one;
  if (parts.size() != count) return false;
  for (const ptx::Operand& part : parts) places->push_back(uint32_t(lowering.target(part, width)));
  return true;
}

bool whole_warp(Warp& warp, const Inst& inst) {
  if (warp.mask == UINT32_MAX) return true;
  stop(warp, inst, Status::Faulted, warp.grid->program->places[inst.where].opcode + " by part of a warp");
  report(warp, inst, __builtin_ctz(warp.mask | 1), {"barrier", 0, 0, "", true}, [&] {
    return warp.grid->program->places[inst.where].opcode + " is executed by part of a warp; all 32 threads must";
  });
  return false;
}

namespace {

// ---- 8x8 matrices of 16-bit elements in shared memory ----

using Tile = uint16_t[4][8][8];

void rows(Warp& warp, const Inst& inst, int matrices, bool write, Tile tile) {
  uint32_t mask = warp.mask, users = matrices == 4 ? mask : mask & ((1u << (8 * matrices)) - 1);
  set_mask(warp, users);
  Request request;
  request.bytes = 16;
  request.write = write;
  compute_addresses(warp, inst, &request);
  in_spaces(warp, inst, request, [&](const Access& access) {
    each(access.mask, [&](int lane) {
      uint8_t* place = access.base + access.delta[lane];
      if (write) std::memcpy(place, tile[lane / 8][lane % 8], 16);
      else std::memcpy(tile[lane / 8][lane % 8], place, 16);
    });
  });
  set_mask(warp, mask);
}

template <bool Trans>
void ldmatrix(Warp& warp, const Inst& inst) {
  if (!whole_warp(warp, inst)) return;
  Tile tile = {};
  rows(warp, inst, inst.count, false, tile);
  for (int matrix = 0; matrix < inst.count; ++matrix)
    lanes<uint32_t>(warp, int32_t(places_of(inst)[size_t(matrix)]), [&](int thread) {
      int row = thread / 4, column = thread % 4 * 2;
      return Trans ? uint32_t(tile[matrix][column][row]) | uint32_t(tile[matrix][column + 1][row]) << 16
                   : uint32_t(tile[matrix][row][column]) | uint32_t(tile[matrix][row][column + 1]) << 16;
    });
}

template <bool Trans>
void stmatrix(Warp& warp, const Inst& inst) {
  if (!whole_warp(warp, inst)) return;
  Tile tile = {};
  for (int matrix = 0; matrix < inst.count; ++matrix) {
    const uint32_t* source = in<uint32_t>(warp, int32_t(places_of(inst)[size_t(matrix)]));
    for (int thread = 0; thread < 32; ++thread) {
      int row = thread / 4, column = thread % 4 * 2;
      (Trans ? tile[matrix][column][row] : tile[matrix][row][column]) = uint16_t(source[thread]);
      (Trans ? tile[matrix][column + 1][row] : tile[matrix][row][column + 1]) = uint16_t(source[thread] >> 16);
    }
  }
  rows(warp, inst, inst.count, true, tile);
}

void movmatrix(Warp& warp, const Inst& inst) {
  if (!whole_warp(warp, inst)) return;
  uint16_t matrix[8][8];
  const uint32_t* source = in<uint32_t>(warp, inst.a);
  for (int thread = 0; thread < 32; ++thread) {
    matrix[thread / 4][thread % 4 * 2] = uint16_t(source[thread]);
    matrix[thread / 4][thread % 4 * 2 + 1] = uint16_t(source[thread] >> 16);
  }
  lanes<uint32_t>(warp, inst.d, [&](int thread) {
    return uint32_t(matrix[thread % 4 * 2][thread / 4]) | uint32_t(matrix[thread % 4 * 2 + 1][thread / 4]) << 16;
  });
}

bool lower_xmatrix(Lowering& lowering, bool load) {
  int count = lowering.has("x4") ? 4 : lowering.has("x2") ? 2 : lowering.has("x1") ? 1 : 0;
  if (!count || !lowering.has("m8n8") || !lowering.has("b16") || lowering.operands() != 2) return false;
  std::vector<uint32_t> places;
  AddressForm form;
  if (!address_form(lowering, lowering.operand(load ? 1 : 0), &form)) return false;
  bool ok = load ? fragment_targets(lowering, lowering.operand(0), 4, size_t(count), &places)
                 : fragment_sources(lowering, lowering.operand(1), 4, size_t(count), &places);
  if (!ok) return false;
  bool trans = lowering.has("trans");
  Inst& inst = emit_matrix(lowering,
                           load    ? (trans ? ldmatrix<true> : ldmatrix<false>)
                           : trans ? stmatrix<true>
                                   : stmatrix<false>,
                           places);
  inst.count = uint8_t(count);
  inst.a = form.base;
  inst.imm = form.imm;
  inst.c = int32_t(form.space);
  inst.flags = form.flags;
  inst.memo = lowering.memo();
  lowering.kind = Class::Shared;
  return true;
}
bool lower_ldmatrix(Lowering& lowering) { return lower_xmatrix(lowering, true); }
bool lower_stmatrix(Lowering& lowering) { return lower_xmatrix(lowering, false); }

bool lower_movmatrix(Lowering& lowering) {
  if (!lowering.has("trans") || !lowering.has("m8n8")) return false;
  int32_t a = lowering.source(1, 4), d = lowering.target(size_t(0), 4);
  Inst& inst = emit_matrix(lowering, movmatrix, {});
  inst.a = a;
  inst.d = d;
  return true;
}

// ---- mma.sync ----

// These functions gather A (16 rows) and B (8 columns) by lane, register and position in the register.
struct Shape {
  int k = 0, per = 2;
  size_t a_regs = 0, b_regs = 0;
};

template <class V, class F>
void gather_a(const Warp& warp, const Shape& shape, const uint32_t* regs, V (*a)[32], F element) {
  for (int thread = 0; thread < 32; ++thread)
    for (size_t reg = 0; reg < shape.a_regs; ++reg) {
      uint32_t bits = in<uint32_t>(warp, int32_t(regs[reg]))[thread];
      int row = thread / 4 + (reg & 1 ? 8 : 0), col = thread % 4 * shape.per + int(reg / 2) * 4 * shape.per;
      for (int exponent = 0; exponent < shape.per; ++exponent) a[row][col + exponent] = element(bits, exponent);
    }
}

template <class V, class F>
void gather_b(const Warp& warp, const Shape& shape, const uint32_t* regs, V (*b)[8], F element) {
  for (int thread = 0; thread < 32; ++thread)
    for (size_t reg = 0; reg < shape.b_regs; ++reg) {
      uint32_t bits = in<uint32_t>(warp, int32_t(regs[reg]))[thread];
      int row = thread % 4 * shape.per + int(reg) * 4 * shape.per;
      for (int exponent = 0; exponent < shape.per; ++exponent) b[row + exponent][thread / 4] = element(bits, exponent);
    }
}

template <class V, class Acc>
void multiply(const Shape& shape, const V (*a)[32], const V (*b)[8], Acc (*c)[8]) {
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < shape.k; ++k)
      for (int n = 0; n < 8; ++n) c[m][n] += Acc(a[m][k]) * Acc(b[k][n]);
}

float half_element(uint32_t bits, int exponent) { return to_float(Half{uint16_t(bits >> (16 * exponent))}); }
float brain_element(uint32_t bits, int exponent) { return to_float(Brain{uint16_t(bits >> (16 * exponent))}); }
float tf32_element(uint32_t bits, int) {
  return bit_copy<float>(bits & ~uint32_t(0x1fff));
}  // hardware ignores the low 13 bits of tf32
int32_t s8_element(uint32_t bits, int exponent) { return int8_t(bits >> (8 * exponent)); }
int32_t u8_element(uint32_t bits, int exponent) { return uint8_t(bits >> (8 * exponent)); }

Shape shape_of(const Inst& inst) {
  Shape shape;
  shape.k = int(inst.imm & 0xff);
  shape.per = int(inst.imm >> 8 & 0xff);
  shape.b_regs = size_t(shape.k / (4 * shape.per));
  shape.a_regs = 2 * shape.b_regs;
  return shape;
}

// The products of one instruction are summed in double precision and rounded once. PTX leaves the order and the
// intermediate precision of the sum unspecified.
template <float (*Element)(uint32_t, int), bool HalfAcc>
void mma_real(Warp& warp, const Inst& inst) {
  if (!whole_warp(warp, inst)) return;
  Shape shape = shape_of(inst);
  const uint32_t* places = places_of(inst).data();
  size_t accumulators = HalfAcc ? 2 : 4;
  const uint32_t *pd = places, *pa = places + accumulators, *pb = pa + shape.a_regs, *pc = pb + shape.b_regs;
  float a[16][32], b[32][8];
  double c[16][8];
  gather_a(warp, shape, pa, a, Element);
  gather_b(warp, shape, pb, b, Element);
  for (int thread = 0; thread < 32; ++thread)
    for (int reg = 0; reg < 4; ++reg) {
      int row = thread / 4 + (reg & 2 ? 8 : 0), col = thread % 4 * 2 + (reg & 1);
      c[row][col] = HalfAcc
                        ? to_float(Half{uint16_t(in<uint32_t>(warp, int32_t(pc[reg / 2]))[thread] >> (16 *(reg& 1)))})
                        : in<float>(warp, int32_t(pc[reg]))[thread];
    }
  multiply(shape, a, b, c);
  for (int thread = 0; thread < 32; ++thread)
    for (int reg = 0; reg < 4; ++reg) {
      double value = c[thread / 4 + (reg & 2 ? 8 : 0)][thread % 4 * 2 + (reg & 1)];
      if (!HalfAcc) {
        out<float>(warp, int32_t(pd[reg]))[thread] = canonical(float(value));
        continue;
      }
      uint32_t& word = out<uint32_t>(warp, int32_t(pd[reg / 2]))[thread];
      uint32_t half = to_half(to_odd(value)).bits;
      word = reg & 1 ? (word & 0xffff) | half << 16 : (word & 0xffff0000) | half;
    }
}

template <int32_t (*A)(uint32_t, int), int32_t (*B)(uint32_t, int)>
void mma_integer(Warp& warp, const Inst& inst) {
  if (!whole_warp(warp, inst)) return;
  Shape shape = shape_of(inst);
  const uint32_t* places = places_of(inst).data();
  const uint32_t *pa = places + 4, *pb = pa + shape.a_regs, *pc = pb + shape.b_regs;
  int32_t a[16][32], b[32][8];
  int64_t c[16][8];
  gather_a(warp, shape, pa, a, A);
  gather_b(warp, shape, pb, b, B);
  auto at = [](int64_t (*sums)[8], int thread, int reg) -> int64_t& {
    return sums[thread / 4 + (reg & 2 ? 8 : 0)][thread % 4 * 2 + (reg & 1)];
  };
  for (int thread = 0; thread < 32; ++thread)
    for (int reg = 0; reg < 4; ++reg) at(c, thread, reg) = in<int32_t>(warp, int32_t(pc[reg]))[thread];
  multiply(shape, a, b, c);
  bool sat = inst.flags & 1;
  for (int thread = 0; thread < 32; ++thread)
    for (int reg = 0; reg < 4; ++reg) {
      int64_t value = at(c, thread, reg);
      out<int32_t>(warp, int32_t(places[reg]))[thread] =
          sat ? int32_t(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX)) : int32_t(value);
    }
}

Handler mma_handler(const std::vector<std::string>& types) {  // types of d, a, b, c
  if (types[1] == "f16" && types[2] == "f16")
    return types[0] == "f32" && types[3] == "f32"   ? mma_real<half_element, false>
           : types[0] == "f16" && types[3] == "f16" ? mma_real<half_element, true>
                                                    : nullptr;
  if (types[1] == "bf16" && types[2] == "bf16")
    return types[0] == "f32" && types[3] == "f32" ? mma_real<brain_element, false> : nullptr;
  if (types[1] == "tf32" && types[2] == "tf32")
    return types[0] == "f32" && types[3] == "f32" ? mma_real<tf32_element, false> : nullptr;
  if (types[0] != "s32" || types[3] != "s32") return nullptr;
  if (types[1] == "s8")
    return types[2] == "s8"   ? mma_integer<s8_element, s8_element>
           : types[2] == "u8" ? mma_integer<s8_element, u8_element>
                              : nullptr;
  if (types[1] == "u8")
    return types[2] == "s8"   ? mma_integer<u8_element, s8_element>
           : types[2] == "u8" ? mma_integer<u8_element, u8_element>
                              : nullptr;
  return nullptr;
}

bool lower_mma(Lowering& lowering) {
  auto types = lowering.types();
  if (types.size() != 4 || lowering.operands() != 4 || !lowering.has("row") || !lowering.has("col") ||
      lowering.has("sp") || lowering.has_prefix("sp::"))
    return false;
  int k = lowering.has("m16n8k16")   ? 16
          : lowering.has("m16n8k8")  ? 8
          : lowering.has("m16n8k4")  ? 4
          : lowering.has("m16n8k32") ? 32
                                     : 0;
  int per = types[1] == "tf32" ? 1 : types[1] == "s8" || types[1] == "u8" ? 4 : 2;
  Handler fn = mma_handler(types);
  bool known =
      (per == 1 && (k == 4 || k == 8)) || (per == 2 && (k == 8 || k == 16)) || (per == 4 && (k == 16 || k == 32));
  if (!fn || !known) return false;
  size_t b_regs = size_t(k / (4 * per)), acc = types[0] == "f16" ? 2 : 4;
  std::vector<uint32_t> places;
  if (!fragment_targets(lowering, lowering.operand(0), 4, acc, &places) ||
      !fragment_sources(lowering, lowering.operand(1), 4, 2 * b_regs, &places) ||
      !fragment_sources(lowering, lowering.operand(2), 4, b_regs, &places) ||
      !fragment_sources(lowering, lowering.operand(3), 4, acc, &places))
    return false;
  Inst& inst = emit_matrix(lowering, fn, places);
  inst.imm = k | per << 8;
  inst.flags = lowering.has("satfinite");
  return true;
}

}  // namespace

bool lower_wmma(Lowering& lowering);
bool lower_wgmma(Lowering& lowering);

const LowerEntry kMatrixOps[] = {{"ldmatrix", lower_ldmatrix},
                                 {"stmatrix", lower_stmatrix},
                                 {"movmatrix", lower_movmatrix},
                                 {"mma", lower_mma},
                                 {"wmma", lower_wmma, "col"},
                                 {"wgmma", lower_wgmma},
                                 {nullptr, nullptr}};

}  // namespace vgpu
