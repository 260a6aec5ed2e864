// wgmma: products of a warp group. Each of its four warps holds 16 of the 64 rows, and computes them by itself.
//
// The product is there when it is issued. What it reads of shared memory is read a second time, by the checkers only,
// when its group is waited for: a tile that is overwritten in between is a race.
#include <algorithm>
#include <array>

#include "alu.h"
#include "control.h"
#include "descriptor.h"
#include "matrix.h"
#include "real.h"
#include "transfer.h"

namespace vgpu {

namespace {

// imm of the instruction: columns | bytes of an element << 16, and these
constexpr int64_t kAFromShared = 1 << 20, kTransA = 1 << 21, kTransB = 1 << 22, kNegateA = 1 << 23, kNegateB = 1 << 24;

struct Product {
  explicit Product(const Inst& i)
      : n(uint32_t(i.imm & 0xffff)), bytes(uint32_t(i.imm >> 16 & 7)), depth(32 / bytes), per(16 / bytes) {}
  uint32_t n, bytes, depth, per;  // columns, bytes of an element, k's, elements of a chunk
};

using Chunk = std::array<uint8_t, 16>;

// The chunks at these addresses of the block's shared memory, as far as they lie in it.
void fetch(Warp& w, const Inst& i, const std::vector<uint32_t>& at, std::vector<Chunk>* into) {
  Memo memo;
  Inst one = i;
  one.memo = &memo;
  if (into) into->resize(at.size());
  uint32_t mask = w.mask;
  for (size_t from = 0; from < at.size() && !w.grid->stop; from += 32) {
    size_t count = std::min<size_t>(32, at.size() - from);
    Request r;
    r.bytes = 16;
    for (size_t k = 0; k < 32; ++k) r.address[k] = at[from + std::min(k, count - 1)];
    Access access;
    access.mask = count == 32 ? UINT32_MAX : (1u << count) - 1;
    if (!resolve(w, one, ptx::Space::Shared, r, &access) || !into) continue;
    each(access.mask, [&](int lane) {
      int64_t delta = access.shape == Shape::Contiguous ? 16 * lane : access.delta[lane];
      std::memcpy((*into)[from + size_t(lane)].data(), access.base + delta, 16);
    });
  }
  set_mask(w, mask);
}

// The chunks of `count` rows (or columns of B) from `first`: K-major two a row; MN-major one for eight rows and a k.
std::vector<uint32_t> chunks(const Descriptor& d, bool mn_major, uint32_t first, uint32_t count, const Product& p) {
  std::vector<uint32_t> at;
  if (!mn_major)
    for (uint32_t r = 0; r < count; ++r)
      for (uint32_t c = 0; c < 2; ++c) at.push_back(d.k_major(first + r, c));
  else
    for (uint32_t c = 0; c < count / p.per; ++c)
      for (uint32_t k = 0; k < p.depth; ++k) at.push_back(d.mn_major(first / p.per + c, k));
  return at;
}

template <float (*Element)(uint32_t)>
float element_of(const Chunk& chunk, uint32_t e, uint32_t bytes) {
  uint32_t bits = 0;
  std::memcpy(&bits, chunk.data() + e * bytes, bytes);
  return Element(bits);
}

// The matrix as rows (or columns of B) of k's.
template <float (*Element)(uint32_t)>
void unpack(const std::vector<Chunk>& from, bool mn_major, uint32_t count, const Product& p, float (*to)[16]) {
  for (uint32_t r = 0; r < count; ++r)
    for (uint32_t k = 0; k < p.depth; ++k) {
      const Chunk& c = mn_major ? from[r / p.per * p.depth + k] : from[r * 2 + k / p.per];
      to[r][k] = element_of<Element>(c, mn_major ? r % p.per : k % p.per, p.bytes);
    }
}

template <float (*Element)(uint32_t)>
void a_from_registers(const Warp& w, const uint32_t* places, const Product& p, float (*a)[16]) {
  uint32_t per = 4 / p.bytes;  // elements of a register
  for (uint32_t r = 0; r < 4; ++r) {
    const uint32_t* s = in<uint32_t>(w, int32_t(places[r]));
    for (uint32_t t = 0; t < 32; ++t)
      for (uint32_t e = 0; e < per; ++e)
        a[t / 4 + r % 2 * 8][t % 4 * per + r / 2 * 4 * per + e] = Element(s[t] >> (16 * e));
  }
}

float half_bits(uint32_t bits) { return to_float(Half{uint16_t(bits)}); }
float brain_bits(uint32_t bits) { return to_float(Brain{uint16_t(bits)}); }
float tf32_bits(uint32_t bits) { return bit_copy<float>(bits & ~uint32_t(0x1fff)); }

struct Sums {
  double at[16][256];
};

void multiply(const Product& p, const float (*a)[16], const float (*b)[16], Sums& c) {
  thread_local double lines[16][256];
  for (uint32_t n = 0; n < p.n; ++n)
    for (uint32_t k = 0; k < p.depth; ++k) lines[k][n] = b[n][k];
  for (int m = 0; m < 16; ++m)
    for (uint32_t k = 0; k < p.depth; ++k) {
      double left = a[m][k];
      for (uint32_t n = 0; n < p.n; ++n) c.at[m][n] += left * lines[k][n];
    }
}

// Register j of a lane holds, of its 16 rows, row lane / 4 (+ 8 for the second pair) and columns 8 * (j / 4) + ...
struct Spot {
  uint32_t row, column;
};
Spot spot(uint32_t lane, uint32_t element) {
  return {lane / 4 + element / 2 % 2 * 8, element / 4 * 8 + lane % 4 * 2 + element % 2};
}

template <bool HalfAcc>
void load_sums(const Warp& w, const uint32_t* places, const Product& p, uint32_t kept, Sums& c) {
  for (uint32_t e = 0; e < p.n / 2; ++e)
    for (uint32_t t = 0; t < 32; ++t) {
      Spot s = spot(t, e);
      double& v = c.at[s.row][s.column];
      if (!(kept >> t & 1)) v = 0;
      else if (HalfAcc) v = to_float(Half{uint16_t(in<uint32_t>(w, int32_t(places[e / 2]))[t] >> (16 *(e& 1)))});
      else v = in<float>(w, int32_t(places[e]))[t];
    }
}

template <bool HalfAcc>
void store_sums(Warp& w, const uint32_t* places, const Product& p, const Sums& c) {
  for (uint32_t e = 0; e < p.n / 2; ++e)
    for (uint32_t t = 0; t < 32; ++t) {
      Spot s = spot(t, e);
      double v = c.at[s.row][s.column];
      if (!HalfAcc) {
        out<float>(w, int32_t(places[e]))[t] = canonical(float(v));
        continue;
      }
      uint32_t& word = out<uint32_t>(w, int32_t(places[e / 2]))[t];
      uint32_t half = to_half(to_odd(v)).bits;
      word = e & 1 ? (word & 0xffff) | half << 16 : (word & 0xffff0000) | half;
    }
}

// The chunks that this warp's share of a product reads: of A its own 16 rows, of B all.
struct Reads {
  std::vector<uint32_t> a, b;
};

Reads reads_of(const Warp& w, const Inst& i, uint64_t a, uint64_t b) {
  Product p(i);
  Reads r;
  if (i.imm & kAFromShared) r.a = chunks(Descriptor(a), i.imm & kTransA, uint32_t(w.index) % 4 * 16, 16, p);
  r.b = chunks(Descriptor(b), i.imm & kTransB, 0, p.n, p);
  return r;
}

// a, b: descriptors; v[0] the predicate scale-d; table: registers of D and then of A.
template <float (*Element)(uint32_t), bool HalfAcc>
void mma_async(Warp& w, const Inst& i) {
  if (!whole_warp(w, i)) return;
  Product p(i);
  const uint32_t* places = places_of(i).data();
  uint64_t of_a = i.imm & kAFromShared ? in<uint64_t>(w, i.a)[0] : 0, of_b = in<uint64_t>(w, i.b)[0];
  Reads reads = reads_of(w, i, of_a, of_b);
  float a[16][16];
  thread_local float b[256][16];
  std::vector<Chunk> found;
  if (i.imm & kAFromShared) {
    fetch(w, i, reads.a, &found);
    unpack<Element>(found, i.imm & kTransA, 16, p, a);
  } else a_from_registers<Element>(w, places + (HalfAcc ? p.n / 4 : p.n / 2), p, a);
  fetch(w, i, reads.b, &found);
  if (w.grid->stop) return;
  unpack<Element>(found, i.imm & kTransB, p.n, p, b);
  if (bool(i.imm & kNegateA) != bool(i.imm & kNegateB))
    for (auto& row : a)
      for (float& v : row) v = -v;
  thread_local Sums sums;
  load_sums<HalfAcc>(w, places, p, pred_in(w, i.v[0], i.negated), sums);
  multiply(p, a, b, sums);
  store_sums<HalfAcc>(w, places, p, sums);
  if (w.grid->check) w.products.push_back({&i, of_a, of_b, w.product_group});
}

void commit(Warp& w, const Inst&) { ++w.product_group; }

void wait(Warp& w, const Inst& i) {
  size_t kept = 0;
  for (PendingProduct& p : w.products) {
    if (p.group + uint32_t(i.imm) >= w.product_group) {
      w.products[kept++] = p;
      continue;
    }
    Reads reads = reads_of(w, *p.inst, p.a, p.b);
    fetch(w, *p.inst, reads.a, nullptr);
    fetch(w, *p.inst, reads.b, nullptr);
  }
  w.products.resize(kept);
}

void nothing(Warp&, const Inst&) {}

uint32_t columns(const Lowering& l, uint32_t depth) {
  for (uint32_t n = 8; n <= 256; n += 8)
    if (l.has("m64n" + std::to_string(n) + "k" + std::to_string(depth))) return n;
  return 0;
}

Handler handler(const std::vector<std::string>& t) {  // d, a, b
  if (t.size() != 3 || t[1] != t[2]) return nullptr;
  if (t[1] == "f16")
    return t[0] == "f32" ? mma_async<half_bits, false> : t[0] == "f16" ? mma_async<half_bits, true> : nullptr;
  if (t[0] != "f32") return nullptr;
  return t[1] == "bf16" ? mma_async<brain_bits, false> : t[1] == "tf32" ? mma_async<tf32_bits, false> : nullptr;
}

// The immediates behind the predicate: the signs of A and B, then which of them lie MN-major (16 bits only).
bool modifiers(const Lowering& l, bool a_shared, bool narrow, int64_t* imm) {
  size_t trans = narrow ? (a_shared ? 2 : 1) : 0;
  if (l.operands() != 6 + trans) return false;
  int64_t v[4] = {};
  for (size_t k = 0; k < 2 + trans; ++k)
    if (!l.number(l.operand(4 + k), &v[k])) return false;
  if (std::abs(v[0]) != 1 || std::abs(v[1]) != 1) return false;
  *imm |= (v[0] < 0 ? kNegateA : 0) | (v[1] < 0 ? kNegateB : 0);
  if (trans == 2 && v[2]) *imm |= kTransA;
  if (trans && v[1 + trans]) *imm |= kTransB;
  return true;
}

bool lower_product(Lowering& l) {
  auto t = l.types();
  Handler fn = handler(t);
  if (!fn || l.has("sp") || l.operands() < 6) return false;
  bool narrow = t[1] != "tf32", half = t[0] == "f16";
  uint32_t n = columns(l, narrow ? 16 : 8);
  bool a_shared = l.operand(1).kind != ptx::Operand::Vector, negated = false;
  int64_t imm = int64_t(n) | int64_t(narrow ? 2 : 4) << 16 | (a_shared ? kAFromShared : 0);
  if (!n || !modifiers(l, a_shared, narrow, &imm)) return false;
  std::vector<uint32_t> places;
  if (!fragment_targets(l, l.operand(0), 4, half ? n / 4 : n / 2, &places)) return false;
  if (!a_shared && !fragment_sources(l, l.operand(1), 4, 4, &places)) return false;
  int32_t a = a_shared ? l.source(1, 8) : 0, b = l.source(2, 8);
  int32_t keep = l.predicate_source(l.operand(3), &negated);
  Inst& i = emit_matrix(l, fn, places);
  l.kind = Class::Wgmma;
  l.times = uint16_t(n / 8);  // a warp has 16 of the 64 rows
  i.a = a;
  i.b = b;
  i.v[0] = keep;
  i.negated = negated;
  i.imm = imm;
  return true;
}

}  // namespace

bool lower_wgmma(Lowering& l) {
  l.kind = Class::Sync;
  if (l.has("mma_async")) return lower_product(l);
  int64_t left = 0;
  bool waits = l.has("wait_group");
  if (waits && (l.operands() != 1 || !l.number(l.operand(0), &left))) return false;
  if (!waits && !l.has("commit_group") && !l.has("fence")) return false;
  Inst& i = l.emit(waits ? wait : l.has("commit_group") ? commit : nothing);
  i.imm = left;
  i.v[7] = kEveryLane;
  return true;
}

}  // namespace vgpu
