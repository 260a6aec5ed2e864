// wmma.load, wmma.mma, wmma.store. Fragments are opaque: here a lane holds a run of consecutive elements, of A and B in
// the order of memory, of accumulators by rows. Registers beyond what that needs stay zero.
#include "alu.h"
#include "control.h"
#include "matrix.h"
#include "real.h"
#include "transfer.h"

namespace vgpu {

namespace {

struct Matrix {
  int major = 0, minor = 0;  // in memory: minor is contiguous
  int bytes = 2;             // of an element
  size_t regs = 0;           // of its fragment
  bool row = true;
  int per_lane() const { return major * minor / 32; }
};

struct Dims {
  int m = 0, n = 0, k = 0;
};

Dims dims_of(const Lowering& l) {
  if (l.has("m16n16k16")) return {16, 16, 16};
  if (l.has("m32n8k16")) return {32, 8, 16};
  if (l.has("m8n32k16")) return {8, 32, 16};
  if (l.has("m16n16k8")) return {16, 16, 8};
  return {};
}

Matrix matrix(char which, const Dims& d, const std::string& type, bool row) {
  Matrix x;
  int rows = which == 'b' ? d.k : d.m, cols = which == 'a' ? d.k : d.n;
  x.row = row;
  x.major = row ? rows : cols;
  x.minor = row ? cols : rows;
  x.bytes = type_bytes(type) == 4 ? 4 : 2;
  if (which == 'c') x.regs = x.bytes == 4 ? 8 : 4;
  else if (type == "f16") x.regs = 8;
  else if (type == "tf32") x.regs = 4;
  else x.regs = d.m == 16 ? 4 : (d.m == 32) == (which == 'a') ? 8 : 2;  // bf16
  return x;
}

// imm packs a Matrix.
int64_t packed(const Matrix& x) {
  return x.major | x.minor << 8 | x.bytes << 16 | int64_t(x.regs) << 24 | int64_t(x.row) << 32;
}
Matrix unpacked(int64_t v) {
  Matrix x;
  x.major = int(v & 0xff);
  x.minor = int(v >> 8 & 0xff);
  x.bytes = int(v >> 16 & 0xff);
  x.regs = size_t(v >> 24 & 0xff);
  x.row = v >> 32 & 1;
  return x;
}

uint32_t get(const Warp& w, const uint32_t* places, const Matrix& x, int lane, int e) {
  if (x.bytes == 4) return in<uint32_t>(w, int32_t(places[e]))[lane];
  return in<uint32_t>(w, int32_t(places[e / 2]))[lane] >> (16 *(e& 1)) & 0xffff;
}

void put(Warp& w, const uint32_t* places, const Matrix& x, int lane, int e, uint32_t v) {
  if (x.bytes == 4) {
    out<uint32_t>(w, int32_t(places[e]))[lane] = v;
    return;
  }
  uint32_t& word = out<uint32_t>(w, int32_t(places[e / 2]))[lane];
  word = e & 1 ? (word & 0xffff) | v << 16 : (word & 0xffff0000) | v;
}

// The element of memory that lane and slot hold. Accumulators go by rows whatever the layout in memory.
void coordinates(const Matrix& x, bool accumulator, int lane, int e, int* major, int* minor) {
  int index = lane * x.per_lane() + e;
  if (!accumulator || x.row) {
    *major = index / x.minor;
    *minor = index % x.minor;
    return;
  }
  *minor = index / x.major;
  *major = index % x.major;
}

constexpr uint8_t kAccumulator = 1, kStore = 2;

// table: the fragment's places, then the place of the leading dimension. b holds the flags; the form of the address is
// in c, a, n.
void transfer(Warp& w, const Inst& i) {
  Matrix x = unpacked(i.imm);
  const uint32_t* places = places_of(i).data();
  const uint32_t* stride = in<uint32_t>(w, int32_t(places[x.regs]));
  bool store = i.b & kStore, accumulator = i.b & kAccumulator;
  Inst plain = i;
  plain.imm = i.v[0];
  Request base;
  addresses(w, plain, &base);
  if (!store)
    for (size_t r = 0; r < x.regs; ++r) lanes<uint32_t>(w, int32_t(places[r]), [](int) { return 0u; });
  for (int e = 0; e < x.per_lane(); ++e) {
    Request r;
    r.bytes = uint32_t(x.bytes);
    r.write = store;
    for (int lane = 0; lane < 32; ++lane) {
      int major, minor;
      coordinates(x, accumulator, lane, e, &major, &minor);
      r.address[lane] = base.address[lane] + uint64_t(x.bytes) * (uint64_t(major) * stride[lane] + uint64_t(minor));
    }
    in_spaces(w, plain, r, [&](const Access& access) {
      each(access.mask, [&](int lane) {
        uint8_t* p = access.base + access.delta[lane];
        uint32_t v = 0;
        if (store) {
          v = get(w, places, x, lane, e);
          std::memcpy(p, &v, size_t(x.bytes));
        } else {
          std::memcpy(&v, p, size_t(x.bytes));
          put(w, places, x, lane, e, v);
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

// table: d, a, b, c; v[0..3] are m, n, k and the kind of A and B; imm packs a, c packs b; n tells the accumulators'
// widths.
void multiply(Warp& w, const Inst& i) {
  Dims d{i.v[0], i.v[1], i.v[2]};
  int kind = i.v[3];
  Matrix a = unpacked(i.imm), b = unpacked(int64_t(uint32_t(i.a)) | int64_t(i.b) << 32);
  Matrix md = matrix('c', d, i.n & 1 ? "f16" : "f32", true), mc = matrix('c', d, i.n & 2 ? "f16" : "f32", true);
  const uint32_t *pd = places_of(i).data(), *pa = pd + md.regs, *pb = pa + a.regs, *pc = pb + b.regs;
  double ma[32][16] = {}, mb[16][32] = {}, acc[32][32] = {};
  for (int lane = 0; lane < 32; ++lane) {
    for (int e = 0; e < a.per_lane(); ++e) {
      int x, y;
      coordinates(a, false, lane, e, &x, &y);
      (a.row ? ma[x][y] : ma[y][x]) = value(get(w, pa, a, lane, e), kind);
    }
    for (int e = 0; e < b.per_lane(); ++e) {
      int x, y;
      coordinates(b, false, lane, e, &x, &y);
      (b.row ? mb[x][y] : mb[y][x]) = value(get(w, pb, b, lane, e), kind);
    }
    for (int e = 0; e < mc.per_lane(); ++e) {
      int index = lane * mc.per_lane() + e;
      acc[index / d.n][index % d.n] = value(get(w, pc, mc, lane, e), i.n & 2 ? 0 : 3);
    }
  }
  for (int m = 0; m < d.m; ++m)
    for (int k = 0; k < d.k; ++k)
      for (int n = 0; n < d.n; ++n) acc[m][n] += ma[m][k] * mb[k][n];
  for (int lane = 0; lane < 32; ++lane)
    for (int e = 0; e < md.per_lane(); ++e) {
      int index = lane * md.per_lane() + e;
      double v = acc[index / d.n][index % d.n];
      put(w, pd, md, lane, e, i.n & 1 ? to_half(to_odd(v)).bits : bit_copy<uint32_t>(canonical(float(v))));
    }
}

bool lower_transfer(Lowering& l, bool store) {
  Dims d = dims_of(l);
  char which = l.part(2).empty() ? 0 : l.part(2)[0];
  if (which == 'd') which = 'c';
  auto types = l.types();
  if (!d.m || types.size() != 1 || (which != 'a' && which != 'b' && which != 'c')) return false;
  const std::string& t = types[0];
  if (t != "f16" && t != "bf16" && t != "tf32" && t != "f32") return false;
  Matrix x = matrix(which, d, t, l.has("row"));
  size_t address = store ? 0 : 1;
  AddressForm a;
  std::vector<uint32_t> places;
  if (l.operands() < 2 || !address_form(l, l.operand(address), &a)) return false;
  if (store ? !fragment_sources(l, l.operand(1), 4, x.regs, &places)
            : !fragment_targets(l, l.operand(0), 4, x.regs, &places))
    return false;
  places.push_back(uint32_t(l.operands() > 2 ? l.source(2, 4) : l.constant(uint64_t(x.minor), 4)));
  Inst& i = emit_matrix(l, transfer, places);
  i.imm = packed(x);
  i.a = a.base;
  i.v[0] = int32_t(a.imm);
  i.c = int32_t(a.space);
  i.flags = a.flags;
  i.b = (which == 'c' ? kAccumulator : 0) | (store ? kStore : 0);
  i.memo = l.memo();
  if (a.imm != int64_t(int32_t(a.imm))) return false;
  note_narrow_shared(l, a.space, uint32_t(x.bytes));
  l.kind = class_of_space(a.space);
  return true;
}

bool lower_multiply(Lowering& l) {
  Dims d = dims_of(l);
  auto t = l.types();
  if (!d.m || l.operands() != 4 || (t.size() != 2 && t.size() != 4)) return false;
  std::string ab = t.size() == 4 ? t[1] : "f16";
  if (ab != "f16" && ab != "bf16" && ab != "tf32") return false;
  // .alayout.blayout follow .aligned
  std::vector<bool> row;
  for (size_t k = 1; k < l.parts.size(); ++k)
    if (l.parts[k] == "row" || l.parts[k] == "col") row.push_back(l.part(k) == "row");
  if (row.size() != 2) return false;
  Matrix a = matrix('a', d, ab, row[0]), b = matrix('b', d, ab, row[1]);
  bool half_d = t.front() == "f16", half_c = t.back() == "f16";
  std::vector<uint32_t> places;
  if (!fragment_targets(l, l.operand(0), 4, half_d ? 4 : 8, &places) ||
      !fragment_sources(l, l.operand(1), 4, a.regs, &places) ||
      !fragment_sources(l, l.operand(2), 4, b.regs, &places) ||
      !fragment_sources(l, l.operand(3), 4, half_c ? 4 : 8, &places))
    return false;
  Inst& i = emit_matrix(l, multiply, places);
  l.times = 2;
  i.v[0] = d.m;
  i.v[1] = d.n;
  i.v[2] = d.k;
  i.v[3] = ab == "f16" ? 0 : ab == "bf16" ? 1 : 2;
  i.imm = packed(a);
  i.a = int32_t(uint32_t(packed(b)));
  i.b = int32_t(packed(b) >> 32);
  i.n = uint8_t(half_d | half_c << 1);
  return true;
}

}  // namespace

bool lower_wmma(Lowering& l) {
  if (l.part(1) == "load") return lower_transfer(l, false);
  if (l.part(1) == "store") return lower_transfer(l, true);
  return l.part(1) == "mma" && lower_multiply(l);
}

}  // namespace vgpu
