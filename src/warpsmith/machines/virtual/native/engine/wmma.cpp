// wmma.load, wmma.mma, wmma.store. PTX leaves the layout of fragments unspecified. Here a lane holds consecutive
// elements: of A and B in the order of memory, of accumulators by rows. Unused registers are zero.
#include "alu.h"
#include "control.h"
#include "matrix.h"
#include "real.h"
#include "transfer.h"

namespace vgpu {

namespace {

struct Matrix {
  int major = 0, minor = 0;  // in memory: minor is contiguous
  int bytes = 2;             // size of an element
  size_t regs = 0;           // registers of its fragment
  bool row = true;
  int per_lane() const { return major * minor / 32; }
};

struct Dims {
  int m = 0, n = 0, k = 0;
};

Dims dims_of(const Lowering& lowering) {
  if (lowering.has("m16n16k16")) return {16, 16, 16};
  if (lowering.has("m32n8k16")) return {32, 8, 16};
  if (lowering.has("m8n32k16")) return {8, 32, 16};
  if (lowering.has("m16n16k8")) return {16, 16, 8};
  return {};
}

Matrix matrix(char which, const Dims& dims, const std::string& type, bool row) {
  Matrix matrix;
  int rows = which == 'b' ? dims.k : dims.m, cols = which == 'a' ? dims.k : dims.n;
  matrix.row = row;
  matrix.major = row ? rows : cols;
  matrix.minor = row ? cols : rows;
  matrix.bytes = type_bytes(type) == 4 ? 4 : 2;
  if (which == 'c') matrix.regs = matrix.bytes == 4 ? 8 : 4;
  else if (type == "f16") matrix.regs = 8;
  else if (type == "tf32") matrix.regs = 4;
  else matrix.regs = dims.m == 16 ? 4 : (dims.m == 32) == (which == 'a') ? 8 : 2;  // bf16
  return matrix;
}

// imm of the instruction holds a Matrix.
int64_t packed(const Matrix& matrix) {
  return matrix.major | matrix.minor << 8 | matrix.bytes << 16 | int64_t(matrix.regs) << 24 | int64_t(matrix.row) << 32;
}
Matrix unpacked(int64_t value) {
  Matrix matrix;
  matrix.major = int(value & 0xff);
  matrix.minor = int(value >> 8 & 0xff);
  matrix.bytes = int(value >> 16 & 0xff);
  matrix.regs = size_t(value >> 24 & 0xff);
  matrix.row = value >> 32 & 1;
  return matrix;
}

uint32_t get(const Warp& warp, const uint32_t* places, const Matrix& matrix, int lane, int exponent) {
  if (matrix.bytes == 4) return in<uint32_t>(warp, int32_t(places[exponent]))[lane];
  return in<uint32_t>(warp, int32_t(places[exponent / 2]))[lane] >> (16 *(exponent& 1)) & 0xffff;
}

void put(Warp& warp, const uint32_t* places, const Matrix& matrix, int lane, int exponent, uint32_t value) {
  if (matrix.bytes == 4) {
    out<uint32_t>(warp, int32_t(places[exponent]))[lane] = value;
    return;
  }
  uint32_t& word = out<uint32_t>(warp, int32_t(places[exponent / 2]))[lane];
  word = exponent & 1 ? (word & 0xffff) | value << 16 : (word & 0xffff0000) | value;
}

// Returns the offset of the element that a lane and slot hold. Accumulators are ordered by rows, whatever the layout in
// memory.
void coordinates(const Matrix& matrix, bool accumulator, int lane, int exponent, int* major, int* minor) {
  int index = lane * matrix.per_lane() + exponent;
  if (!accumulator || matrix.row) {
    *major = index / matrix.minor;
    *minor = index % matrix.minor;
    return;
  }
  *minor = index / matrix.major;
  *major = index % matrix.major;
}

constexpr uint8_t kAccumulator = 1, kStore = 2;

// table holds the places of the fragment, then the place of the leading dimension. b holds the flags of the matrix; c,
// a and count hold the form of the address.
void transfer(Warp& warp, const Inst& inst) {
  Matrix matrix = unpacked(inst.imm);
  const uint32_t* places = places_of(inst).data();
  const uint32_t* stride = in<uint32_t>(warp, int32_t(places[matrix.regs]));
  bool store = inst.b & kStore, accumulator = inst.b & kAccumulator;
  Inst plain = inst;
  plain.imm = inst.extra[0];
  Request base;
  compute_addresses(warp, plain, &base);
  if (!store)
    for (size_t reg = 0; reg < matrix.regs; ++reg) lanes<uint32_t>(warp, int32_t(places[reg]), [](int) { return 0u; });
  for (int exponent = 0; exponent < matrix.per_lane(); ++exponent) {
    Request reg;
    reg.bytes = uint32_t(matrix.bytes);
    reg.write = store;
    for (int lane = 0; lane < 32; ++lane) {
      int major, minor;
      coordinates(matrix, accumulator, lane, exponent, &major, &minor);
      reg.address[lane] =
          base.address[lane] + uint64_t(matrix.bytes) * (uint64_t(major) * stride[lane] + uint64_t(minor));
    }
    in_spaces(warp, plain, reg, [&](const Access& access) {
      each(access.mask, [&](int lane) {
        uint8_t* place = access.base + access.delta[lane];
        uint32_t value = 0;
        if (store) {
          value = get(warp, places, matrix, lane, exponent);
          std::memcpy(place, &value, size_t(matrix.bytes));
        } else {
          std::memcpy(&value, place, size_t(matrix.bytes));
          put(warp, places, matrix, lane, exponent, value);
        }
      });
    });
  }
}

float value(uint32_t bits, int kind) {  // 0 f16, 1 bf16, 2 tf32, 3 f32
  return kind == 0   ? to_float(Half{uint16_t(bits)})
         : kind == 1 ? to_float(Brain{uint16_t(bits)})
                     : bit_copy<float>(kind == 2 ? bits & ~uint32_t(0x1fff) : bits);
}

// table holds d, a, b and c; extra[0..3] are m, n, k and the kind of A and B; imm holds A, c holds B; count holds the
// widths of the accumulators.
void multiply(Warp& warp, const Inst& inst) {
  Dims dims{inst.extra[0], inst.extra[1], inst.extra[2]};
  int kind = inst.extra[3];
  Matrix left = unpacked(inst.imm), right = unpacked(int64_t(uint32_t(inst.a)) | int64_t(inst.b) << 32);
  Matrix md = matrix('c', dims, inst.count & 1 ? "f16" : "f32", true),
         mc = matrix('c', dims, inst.count & 2 ? "f16" : "f32", true);
  const uint32_t *pd = places_of(inst).data(), *pa = pd + md.regs, *pb = pa + left.regs, *pc = pb + right.regs;
  double ma[32][16] = {}, mb[16][32] = {}, acc[32][32] = {};
  for (int lane = 0; lane < 32; ++lane) {
    for (int exponent = 0; exponent < left.per_lane(); ++exponent) {
      int x, y;
      coordinates(left, false, lane, exponent, &x, &y);
      (left.row ? ma[x][y] : ma[y][x]) = value(get(warp, pa, left, lane, exponent), kind);
    }
    for (int exponent = 0; exponent < right.per_lane(); ++exponent) {
      int x, y;
      coordinates(right, false, lane, exponent, &x, &y);
      (right.row ? mb[x][y] : mb[y][x]) = value(get(warp, pb, right, lane, exponent), kind);
    }
    for (int exponent = 0; exponent < mc.per_lane(); ++exponent) {
      int index = lane * mc.per_lane() + exponent;
      acc[index / dims.n][index % dims.n] = value(get(warp, pc, mc, lane, exponent), inst.count & 2 ? 0 : 3);
    }
  }
  for (int m = 0; m < dims.m; ++m)
    for (int k = 0; k < dims.k; ++k)
      for (int n = 0; n < dims.n; ++n) acc[m][n] += ma[m][k] * mb[k][n];
  for (int lane = 0; lane < 32; ++lane)
    for (int exponent = 0; exponent < md.per_lane(); ++exponent) {
      int index = lane * md.per_lane() + exponent;
      double value = acc[index / dims.n][index % dims.n];
      put(warp, pd, md, lane, exponent,
          inst.count & 1 ? to_half(to_odd(value)).bits : bit_copy<uint32_t>(canonical(float(value))));
    }
}

bool lower_transfer(Lowering& lowering, bool store) {
  Dims dims = dims_of(lowering);
  char which = lowering.part(2).empty() ? 0 : lowering.part(2)[0];
  if (which == 'd') which = 'c';
  auto types = lowering.types();
  if (!dims.m || types.size() != 1 || (which != 'a' && which != 'b' && which != 'c')) return false;
  const std::string& type = types[0];
  if (type != "f16" && type != "bf16" && type != "tf32" && type != "f32") return false;
  Matrix described = matrix(which, dims, type, lowering.has("row"));
  size_t address = store ? 0 : 1;
  AddressForm form;
  std::vector<uint32_t> places;
  if (lowering.operands() < 2 || !address_form(lowering, lowering.operand(address), &form)) return false;
  if (store ? !fragment_sources(lowering, lowering.operand(1), 4, described.regs, &places)
            : !fragment_targets(lowering, lowering.operand(0), 4, described.regs, &places))
    return false;
  places.push_back(
      uint32_t(lowering.operands() > 2 ? lowering.source(2, 4) : lowering.constant(uint64_t(described.minor), 4)));
  Inst& inst = emit_matrix(lowering, transfer, places);
  inst.imm = packed(described);
  inst.a = form.base;
  inst.extra[0] = int32_t(form.imm);
  inst.c = int32_t(form.space);
  inst.flags = form.flags;
  inst.b = (which == 'c' ? kAccumulator : 0) | (store ? kStore : 0);
  inst.memo = lowering.memo();
  if (form.imm != int64_t(int32_t(form.imm))) return false;
  note_narrow_shared(lowering, form.space, uint32_t(described.bytes));
  lowering.kind = class_of_space(form.space);
  return true;
}

bool lower_multiply(Lowering& lowering) {
  Dims dims = dims_of(lowering);
  auto types = lowering.types();
  if (!dims.m || lowering.operands() != 4 || (types.size() != 2 && types.size() != 4)) return false;
  std::string ab = types.size() == 4 ? types[1] : "f16";
  if (ab != "f16" && ab != "bf16" && ab != "tf32") return false;
  // .alayout.blayout follow .aligned
  std::vector<bool> row;
  for (size_t k = 1; k < lowering.parts.size(); ++k)
    if (lowering.parts[k] == "row" || lowering.parts[k] == "col") row.push_back(lowering.part(k) == "row");
  if (row.size() != 2) return false;
  Matrix left = matrix('a', dims, ab, row[0]), right = matrix('b', dims, ab, row[1]);
  bool half_d = types.front() == "f16", half_c = types.back() == "f16";
  std::vector<uint32_t> places;
  if (!fragment_targets(lowering, lowering.operand(0), 4, half_d ? 4 : 8, &places) ||
      !fragment_sources(lowering, lowering.operand(1), 4, left.regs, &places) ||
      !fragment_sources(lowering, lowering.operand(2), 4, right.regs, &places) ||
      !fragment_sources(lowering, lowering.operand(3), 4, half_c ? 4 : 8, &places))
    return false;
  Inst& inst = emit_matrix(lowering, multiply, places);
  lowering.times = 2;
  inst.extra[0] = dims.m;
  inst.extra[1] = dims.n;
  inst.extra[2] = dims.k;
  inst.extra[3] = ab == "f16" ? 0 : ab == "bf16" ? 1 : 2;
  inst.imm = packed(left);
  inst.a = int32_t(uint32_t(packed(right)));
  inst.b = int32_t(packed(right) >> 32);
  inst.count = uint8_t(half_d | half_c << 1);
  return true;
}

}  // namespace

bool lower_wmma(Lowering& lowering) {
  if (lowering.part(1) == "load") return lower_transfer(lowering, false);
  if (lowering.part(1) == "store") return lower_transfer(lowering, true);
  return lowering.part(1) == "mma" && lower_multiply(lowering);
}

}  // namespace vgpu
