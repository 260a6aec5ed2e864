// wgmma: products of a warp group (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"). Each of its four warps
// holds 16 of the 64 rows and computes them independently.
//
// The product is computed when it is issued. The checkers read its operands in shared memory a second time when its
// group is waited for, so a tile that is overwritten in between is reported as a race.
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

// imm of the instruction: columns | bytes of an element << 16 | these flags.
constexpr int64_t kAFromShared = 1 << 20, kTransA = 1 << 21, kTransB = 1 << 22, kNegateA = 1 << 23, kNegateB = 1 << 24;

struct Product {
  explicit Product(const Inst& inst)
      : n(uint32_t(inst.imm & 0xffff)), bytes(uint32_t(inst.imm >> 16 & 7)), depth(32 / bytes), per(16 / bytes) {}
  uint32_t n, bytes, depth, per;  // columns, bytes of an element, elements along K, elements of a chunk
};

using Chunk = std::array<uint8_t, 16>;

// Reads the chunks at these addresses of shared memory, as far as they are valid.
void fetch(Warp& warp, const Inst& inst, const std::vector<uint32_t>& at, std::vector<Chunk>* into) {
  Memo memo;
  Inst one = inst;
  one.memo = &memo;
  if (into) into->resize(at.size());
  uint32_t mask = warp.mask;
  for (size_t from = 0; from < at.size() && !warp.grid->stop; from += 32) {
    size_t count = std::min<size_t>(32, at.size() - from);
    Request request;
    request.bytes = 16;
    for (size_t k = 0; k < 32; ++k) request.address[k] = at[from + std::min(k, count - 1)];
    Access access;
    access.mask = count == 32 ? UINT32_MAX : (1u << count) - 1;
    if (!resolve(warp, one, ptx::Space::Shared, request, &access) || !into) continue;
    each(access.mask, [&](int lane) {
      int64_t delta = access.shape == Shape::Contiguous ? 16 * lane : access.delta[lane];
      std::memcpy((*into)[from + size_t(lane)].data(), access.base + delta, 16);
    });
  }
  set_mask(warp, mask);
}

// Returns the addresses of the chunks of `count` rows (or columns of B) from `first`: two chunks a row if K-major, one
// chunk for eight rows and one k if MN-major.
std::vector<uint32_t> chunks(const Descriptor& descriptor, bool mn_major, uint32_t first, uint32_t count,
                             const Product& product) {
  std::vector<uint32_t> at;
  if (!mn_major)
    for (uint32_t row = 0; row < count; ++row)
      for (uint32_t chunk = 0; chunk < 2; ++chunk) at.push_back(descriptor.k_major(first + row, chunk));
  else
    for (uint32_t chunk = 0; chunk < count / product.per; ++chunk)
      for (uint32_t k = 0; k < product.depth; ++k) at.push_back(descriptor.mn_major(first / product.per + chunk, k));
  return at;
}

template <float (*Element)(uint32_t)>
float element_of(const Chunk& chunk, uint32_t element, uint32_t bytes) {
  uint32_t bits = 0;
  std::memcpy(&bits, chunk.data() + element * bytes, bytes);
  return Element(bits);
}

// Unpacks chunks to rows (or columns of B) along K.
template <float (*Element)(uint32_t)>
void unpack(const std::vector<Chunk>& from, bool mn_major, uint32_t count, const Product& product, float (*to)[16]) {
  for (uint32_t row = 0; row < count; ++row)
    for (uint32_t k = 0; k < product.depth; ++k) {
      const Chunk& chunk = mn_major ? from[row / product.per * product.depth + k] : from[row * 2 + k / product.per];
      to[row][k] = element_of<Element>(chunk, mn_major ? row % product.per : k % product.per, product.bytes);
    }
}

template <float (*Element)(uint32_t)>
void a_from_registers(const Warp& warp, const uint32_t* places, const Product& product, float (*a)[16]) {
  uint32_t per = 4 / product.bytes;  // elements of a register
  for (uint32_t reg = 0; reg < 4; ++reg) {
    const uint32_t* source = in<uint32_t>(warp, int32_t(places[reg]));
    for (uint32_t thread = 0; thread < 32; ++thread)
      for (uint32_t element = 0; element < per; ++element)
        a[thread / 4 + reg % 2 * 8][thread % 4 * per + reg / 2 * 4 * per + element] =
            Element(source[thread] >> (16 * element));
  }
}

float half_bits(uint32_t bits) { return to_float(Half{uint16_t(bits)}); }
float brain_bits(uint32_t bits) { return to_float(Brain{uint16_t(bits)}); }
float tf32_bits(uint32_t bits) { return bit_copy<float>(bits & ~uint32_t(0x1fff)); }

struct Sums {
  double at[16][256];
};

void multiply(const Product& product, const float (*a)[16], const float (*b)[16], Sums& sums) {
  thread_local double lines[16][256];
  for (uint32_t n = 0; n < product.n; ++n)
    for (uint32_t k = 0; k < product.depth; ++k) lines[k][n] = b[n][k];
  for (int m = 0; m < 16; ++m)
    for (uint32_t k = 0; k < product.depth; ++k) {
      double left = a[m][k];
      for (uint32_t n = 0; n < product.n; ++n) sums.at[m][n] += left * lines[k][n];
    }
}

// Position of a lane's register j: row lane / 4 (+ 8 for the second pair) and columns 8 * (j / 4) + ...
struct Spot {
  uint32_t row, column;
};
Spot spot(uint32_t lane, uint32_t element) {
  return {lane / 4 + element / 2 % 2 * 8, element / 4 * 8 + lane % 4 * 2 + element % 2};
}

template <bool HalfAcc>
void load_sums(const Warp& warp, const uint32_t* places, const Product& product, uint32_t kept, Sums& sums) {
  for (uint32_t element = 0; element < product.n / 2; ++element)
    for (uint32_t thread = 0; thread < 32; ++thread) {
      Spot place = spot(thread, element);
      double& value = sums.at[place.row][place.column];
      if (!(kept >> thread & 1)) value = 0;
      else if (HalfAcc)
        value =
            to_float(Half{uint16_t(in<uint32_t>(warp, int32_t(places[element / 2]))[thread] >> (element % 2 * 16))});
      else value = in<float>(warp, int32_t(places[element]))[thread];
    }
}

template <bool HalfAcc>
void store_sums(Warp& warp, const uint32_t* places, const Product& product, const Sums& sums) {
  for (uint32_t element = 0; element < product.n / 2; ++element)
    for (uint32_t thread = 0; thread < 32; ++thread) {
      Spot place = spot(thread, element);
      double value = sums.at[place.row][place.column];
      if (!HalfAcc) {
        out<float>(warp, int32_t(places[element]))[thread] = canonical(float(value));
        continue;
      }
      uint32_t& word = out<uint32_t>(warp, int32_t(places[element / 2]))[thread];
      uint32_t half = to_half(to_odd(value)).bits;
      word = element & 1 ? (word & 0xffff) | half << 16 : (word & 0xffff0000) | half;
    }
}

// Returns the chunks that this warp reads for a product: of A its own 16 rows, of B all.
struct Reads {
  std::vector<uint32_t> a, b;
};

Reads reads_of(const Warp& warp, const Inst& inst, uint64_t a, uint64_t b) {
  Product product(inst);
  Reads reads;
  if (inst.imm & kAFromShared)
    reads.a = chunks(Descriptor(a), inst.imm & kTransA, uint32_t(warp.index) % 4 * 16, 16, product);
  reads.b = chunks(Descriptor(b), inst.imm & kTransB, 0, product.n, product);
  return reads;
}

// a and b are descriptors; extra[0] is the predicate scale-d; table holds the registers of D and then of A.
template <float (*Element)(uint32_t), bool HalfAcc>
void mma_async(Warp& warp, const Inst& inst) {
  if (!whole_warp(warp, inst)) return;
  Product product(inst);
  const uint32_t* places = places_of(inst).data();
  uint64_t of_a = inst.imm & kAFromShared ? in<uint64_t>(warp, inst.a)[0] : 0, of_b = in<uint64_t>(warp, inst.b)[0];
  Reads reads = reads_of(warp, inst, of_a, of_b);
  float a[16][16];
  thread_local float b[256][16];
  std::vector<Chunk> found;
  if (inst.imm & kAFromShared) {
    fetch(warp, inst, reads.a, &found);
    unpack<Element>(found, inst.imm & kTransA, 16, product, a);
  } else a_from_registers<Element>(warp, places + (HalfAcc ? product.n / 4 : product.n / 2), product, a);
  fetch(warp, inst, reads.b, &found);
  if (warp.grid->stop) return;
  unpack<Element>(found, inst.imm & kTransB, product.n, product, b);
  if (bool(inst.imm & kNegateA) != bool(inst.imm & kNegateB))
    for (auto& row : a)
      for (float& value : row) value = -value;
  thread_local Sums sums;
  load_sums<HalfAcc>(warp, places, product, pred_in(warp, inst.extra[0], inst.negated), sums);
  multiply(product, a, b, sums);
  store_sums<HalfAcc>(warp, places, product, sums);
  if (warp.grid->check) warp.products.push_back({&inst, of_a, of_b, warp.product_group});
}

void commit(Warp& warp, const Inst&) { ++warp.product_group; }

void wait(Warp& warp, const Inst& inst) {
  size_t kept = 0;
  for (PendingProduct& product : warp.products) {
    if (product.group + uint32_t(inst.imm) >= warp.product_group) {
      warp.products[kept++] = product;
      continue;
    }
    Reads reads = reads_of(warp, *product.inst, product.a, product.b);
    fetch(warp, *product.inst, reads.a, nullptr);
    fetch(warp, *product.inst, reads.b, nullptr);
  }
  warp.products.resize(kept);
}

void nothing(Warp&, const Inst&) {}

uint32_t columns(const Lowering& lowering, uint32_t depth) {
  for (uint32_t n = 8; n <= 256; n += 8)
    if (lowering.has("m64n" + std::to_string(n) + "k" + std::to_string(depth))) return n;
  return 0;
}

Handler handler(const std::vector<std::string>& types) {  // types of d, a, b
  if (types.size() != 3 || types[1] != types[2]) return nullptr;
  if (types[1] == "f16")
    return types[0] == "f32" ? mma_async<half_bits, false> : types[0] == "f16" ? mma_async<half_bits, true> : nullptr;
  if (types[0] != "f32") return nullptr;
  return types[1] == "bf16" ? mma_async<brain_bits, false> : types[1] == "tf32" ? mma_async<tf32_bits, false> : nullptr;
}

// Returns the immediates after the predicate: the signs of A and B, then for 16-bit types which of them are MN-major.
bool modifiers(const Lowering& lowering, bool a_shared, bool narrow, int64_t* imm) {
  size_t trans = narrow ? (a_shared ? 2 : 1) : 0;
  if (lowering.operands() != 6 + trans) return false;
  int64_t values[4] = {};
  for (size_t k = 0; k < 2 + trans; ++k)
    if (!lowering.number(lowering.operand(4 + k), &values[k])) return false;
  if (std::abs(values[0]) != 1 || std::abs(values[1]) != 1) return false;
  *imm |= (values[0] < 0 ? kNegateA : 0) | (values[1] < 0 ? kNegateB : 0);
  if (trans == 2 && values[2]) *imm |= kTransA;
  if (trans && values[1 + trans]) *imm |= kTransB;
  return true;
}

bool lower_product(Lowering& lowering) {
  auto types = lowering.types();
  Handler fn = handler(types);
  if (!fn || lowering.has("sp") || lowering.operands() < 6) return false;
  bool narrow = types[1] != "tf32", half = types[0] == "f16";
  uint32_t n = columns(lowering, narrow ? 16 : 8);
  bool a_shared = lowering.operand(1).kind != ptx::Operand::Vector, negated = false;
  int64_t imm = int64_t(n) | int64_t(narrow ? 2 : 4) << 16 | (a_shared ? kAFromShared : 0);
  if (!n || !modifiers(lowering, a_shared, narrow, &imm)) return false;
  std::vector<uint32_t> places;
  if (!fragment_targets(lowering, lowering.operand(0), 4, half ? n / 4 : n / 2, &places)) return false;
  if (!a_shared && !fragment_sources(lowering, lowering.operand(1), 4, 4, &places)) return false;
  int32_t a = a_shared ? lowering.source(1, 8) : 0, b = lowering.source(2, 8);
  int32_t keep = lowering.predicate_source(lowering.operand(3), &negated);
  Inst& inst = emit_matrix(lowering, fn, places);
  lowering.kind = Class::Wgmma;
  lowering.times = uint16_t(n / 8);  // a warp computes 16 of the 64 rows
  inst.a = a;
  inst.b = b;
  inst.extra[0] = keep;
  inst.negated = negated;
  inst.imm = imm;
  return true;
}

}  // namespace

bool lower_wgmma(Lowering& lowering) {
  lowering.kind = Class::Sync;
  if (lowering.has("mma_async")) return lower_product(lowering);
  int64_t left = 0;
  bool waits = lowering.has("wait_group");
  if (waits && (lowering.operands() != 1 || !lowering.number(lowering.operand(0), &left))) return false;
  if (!waits && !lowering.has("commit_group") && !lowering.has("fence")) return false;
  Inst& inst = lowering.emit(waits ? wait : lowering.has("commit_group") ? commit : nothing);
  inst.imm = left;
  inst.extra[7] = kEveryLane;
  return true;
}

}  // namespace vgpu
