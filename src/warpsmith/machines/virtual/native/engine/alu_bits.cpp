// Bits: logic, shifts, fields, counts, permutations, small dot products.
#include "alu.h"

namespace vgpu {

namespace {

template <class T>
struct And {
  static T apply(T a, T b) { return a & b; }
};
template <class T>
struct Or {
  static T apply(T a, T b) { return a | b; }
};
template <class T>
struct Xor {
  static T apply(T a, T b) { return a ^ b; }
};
template <class T>
struct Not {
  static T apply(T a) { return T(~a); }
};
template <class T>
struct Cnot {
  static T apply(T a) { return T(a == 0); }
};

// PTX ISA, shl and shr: the shift count is u32, and counts above the width are clamped to the width. C++ leaves such
// shifts undefined, hence the branches.
template <class T>
struct Shl {
  static T apply(T a, uint32_t shift) { return shift >= 8 * sizeof(T) ? T(0) : T(a << shift); }
};
template <class T>
struct Shr {
  static T apply(T a, uint32_t shift) {
    if (shift >= 8 * sizeof(T)) return std::is_signed_v<T> && a < 0 ? T(-1) : T(0);
    return T(a >> shift);
  }
};
template <class T>
void shl(Warp& warp, const Inst& inst) {
  map2<T, T, uint32_t, Shl<T>>(warp, inst);
}
template <class T>
void shr(Warp& warp, const Inst& inst) {
  map2<T, T, uint32_t, Shr<T>>(warp, inst);
}

template <class T>
struct Popc {
  static uint32_t apply(T a) { return uint32_t(__builtin_popcountll(a)); }
};
template <class T>
struct Clz {
  static uint32_t apply(T a) {
    return a ? uint32_t(__builtin_clzll(a)) - (64 - 8 * sizeof(T)) : uint32_t(8 * sizeof(T));
  }
};
template <class T>
struct Brev {
  static T apply(T a) {
    T result = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i) result = T(result | ((a >> i & 1) << (8 * sizeof(T) - 1 - i)));
    return result;
  }
};
template <class T, bool Shift>
struct Bfind {
  static uint32_t apply(T a) {
    using V = std::make_unsigned_t<T>;
    V value = std::is_signed_v<T> && a < 0 ? V(~V(a)) : V(a);
    if (value == 0) return UINT32_MAX;
    uint32_t top = 63 - uint32_t(__builtin_clzll(value));
    return Shift ? uint32_t(8 * sizeof(T)) - 1 - top : top;
  }
};
template <class T>
struct Bfe {
  static T apply(T a, uint32_t b, uint32_t c) {
    constexpr uint32_t bits = 8 * sizeof(T);
    using V = std::make_unsigned_t<T>;
    uint32_t pos = b & 0xff, len = c & 0xff;
    if (len == 0) return 0;
    uint32_t last = std::min(pos + len - 1, bits - 1);
    bool sign = std::is_signed_v<T> && (V(a) >> last & 1);
    V result = pos >= bits ? V(0) : V(V(a) >> pos);
    if (len < bits) {
      V mask = V((V(1) << len) - 1);
      result &= mask;
    }
    uint32_t have = pos >= bits ? 0 : std::min(len, bits - pos);
    if (sign && have < bits) result |= have ? V(~((V(1) << have) - 1)) : V(~V(0));
    return T(result);
  }
};
template <class T>
void bfe(Warp& warp, const Inst& inst) {
  map3<T, T, uint32_t, uint32_t, Bfe<T>>(warp, inst);
}

template <class T>
void bfi(Warp& warp, const Inst& inst) {
  const T *a = in<T>(warp, inst.a), *b = in<T>(warp, inst.b);
  const uint32_t *c = in<uint32_t>(warp, inst.c), *length = in<uint32_t>(warp, inst.extra[0]);
  lanes<T>(warp, inst.d, [=](int lane) {
    constexpr uint32_t bits = 8 * sizeof(T);
    uint32_t pos = c[lane] & 0xff, len = length[lane] & 0xff;
    if (pos >= bits || len == 0) return b[lane];
    T field = len >= bits ? T(~T(0)) : T((T(1) << len) - 1);
    T mask = T(field << pos);
    return T((b[lane] & ~mask) | (T(a[lane] << pos) & mask));
  });
}

struct Bmsk {
  template <bool Clamp>
  static uint32_t make(uint32_t a, uint32_t b) {
    uint32_t pos = Clamp ? std::min(a, 32u) : a & 31, len = Clamp ? std::min(b, 32u) : b & 31;
    uint64_t mask = ((uint64_t(1) << len) - 1) << pos;
    return uint32_t(mask);
  }
};
struct BmskClamp {
  static uint32_t apply(uint32_t a, uint32_t b) { return Bmsk::make<true>(a, b); }
};
struct BmskWrap {
  static uint32_t apply(uint32_t a, uint32_t b) { return Bmsk::make<false>(a, b); }
};

template <class T, bool Clamp>
struct Szext {
  static T apply(T a, uint32_t b) {
    uint32_t shift = Clamp ? std::min(b, 32u) : b & 31;
    if (shift >= 32) return a;
    if (shift == 0) return 0;
    uint32_t value = uint32_t(a) & ((1u << shift) - 1);
    if (std::is_signed_v<T> && (value >> (shift - 1) & 1)) value |= ~((1u << shift) - 1);
    return T(value);
  }
};

uint32_t permute(uint64_t bytes, uint32_t selector) {
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t nibble = selector >> (4 * i) & 15;
    uint32_t byte = uint32_t(bytes >> (8 * (nibble & 7))) & 0xff;
    if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

uint32_t mode_selector(int mode, uint32_t c) {
  static const uint16_t table[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                       {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                       {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
  return table[mode][c & 3];
}

void prmt(Warp& warp, const Inst& inst) {
  const uint32_t *a = in<uint32_t>(warp, inst.a), *b = in<uint32_t>(warp, inst.b), *c = in<uint32_t>(warp, inst.c);
  int mode = int(inst.imm);
  lanes<uint32_t>(warp, inst.d, [=](int lane) {
    return permute(uint64_t(b[lane]) << 32 | a[lane], mode < 0 ? c[lane] : mode_selector(mode, c[lane]));
  });
}

void lop3(Warp& warp, const Inst& inst) {
  const uint32_t *a = in<uint32_t>(warp, inst.a), *b = in<uint32_t>(warp, inst.b), *c = in<uint32_t>(warp, inst.c);
  uint32_t table = uint32_t(inst.imm), terms[8];
  for (int index = 0; index < 8; ++index) terms[index] = table >> index & 1 ? UINT32_MAX : 0;
  lanes<uint32_t>(warp, inst.d, [=](int lane) {
    uint32_t x = a[lane], y = b[lane], z = c[lane];
    return (terms[0] & ~x & ~y & ~z) | (terms[1] & ~x & ~y & z) | (terms[2] & ~x & y & ~z) | (terms[3] & ~x & y & z) |
           (terms[4] & x & ~y & ~z) | (terms[5] & x & ~y & z) | (terms[6] & x & y & ~z) | (terms[7] & x & y & z);
  });
}

template <bool Left, bool Clamp>
struct Shf {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t shift = Clamp ? std::min(c, 32u) : c & 31;
    uint64_t value = uint64_t(b) << 32 | a;
    return Left ? uint32_t(value << shift >> 32) : uint32_t(value >> shift);
  }
};

template <bool SA, bool SB>
struct Dp4a {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 4; ++i) {
      int32_t x = SA ? int8_t(a >> (8 * i)) : int32_t(uint8_t(a >> (8 * i))),
              y = SB ? int8_t(b >> (8 * i)) : int32_t(uint8_t(b >> (8 * i)));
      c += uint32_t(x * y);
    }
    return c;
  }
};
template <bool SA, bool SB, bool Hi>
struct Dp2a {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 2; ++i) {
      int byte_index = Hi ? i + 2 : i;
      int32_t x = SA ? int16_t(a >> (16 * i)) : int32_t(uint16_t(a >> (16 * i))),
              y = SB ? int8_t(b >> (8 * byte_index)) : int32_t(uint8_t(b >> (8 * byte_index)));
      c += uint32_t(x * y);
    }
    return c;
  }
};

struct Fns {
  static uint32_t apply(uint32_t mask, uint32_t base, uint32_t offset) {
    int32_t shift = int32_t(offset);
    if (base > 31) return UINT32_MAX;
    if (shift == 0) return mask >> base & 1 ? base : UINT32_MAX;
    int32_t step = shift > 0 ? 1 : -1, left = shift > 0 ? shift : -shift;
    for (int32_t position = int32_t(base); position >= 0 && position < 32; position += step)
      if (mask >> position & 1 && --left == 0) return uint32_t(position);
    return UINT32_MAX;
  }
};

// and, or, xor and not of predicates.
template <int Op>
void pred_logic(Warp& warp, const Inst& inst) {
  uint32_t a = pred_in(warp, inst.a, inst.flags & 1), b = pred_in(warp, inst.b, inst.flags & 2);
  pred_out(warp, inst.d, Op == 0 ? a & b : Op == 1 ? a | b : Op == 2 ? a ^ b : ~a);
}

bool lower_pred_logic(Lowering& lowering, Handler fn, bool two) {
  bool na = false, nb = false;
  int32_t a = lowering.predicate_source(lowering.operand(1), &na),
          b = two ? lowering.predicate_source(lowering.operand(2), &nb) : 0,
          d = lowering.predicate(lowering.operand(0));
  Inst& inst = lowering.emit(fn);
  inst.d = d;
  inst.a = a;
  inst.b = b;
  inst.flags = uint8_t(na | nb << 1);
  return true;
}

bool lower_logic(Lowering& lowering) {
  std::string type = lowering.type();
  std::string_view op = lowering.parts[0];
  if (lowering.operands() < (op == "not" || op == "cnot" ? 2u : 3u)) return false;
  if (lowering.has("pred"))
    return lower_pred_logic(lowering,
                            op == "and"   ? pred_logic<0>
                            : op == "or"  ? pred_logic<1>
                            : op == "xor" ? pred_logic<2>
                                          : pred_logic<3>,
                            op != "not");
  if (op == "not") return emit_sources(lowering, VGPU_BY_INTEGER(type, unary, Not), type_width(type), 1);
  if (op == "cnot") return emit_sources(lowering, VGPU_BY_INTEGER(type, unary, Cnot), type_width(type), 1);
  Handler fn = op == "and"  ? VGPU_BY_INTEGER(type, binary, And)
               : op == "or" ? VGPU_BY_INTEGER(type, binary, Or)
                            : VGPU_BY_INTEGER(type, binary, Xor);
  return emit_sources(lowering, fn, type_width(type), 2);
}

template <class F>
// widths(i) is the width of source i + 1; 0 ends the list.
bool emit_mixed(Lowering& lowering, Handler fn, int dw, F widths) {
  if (!fn) return false;
  int32_t sources[4] = {};
  int count = 0;
  for (; count < 4 && widths(count); ++count) sources[count] = lowering.source(size_t(count) + 1, widths(count));
  int32_t d = lowering.target(size_t(0), dw);
  Inst& inst = lowering.emit(fn);
  inst.d = d;
  inst.a = sources[0];
  inst.b = sources[1];
  inst.c = sources[2];
  inst.extra[0] = sources[3];
  return true;
}

bool lower_shift(Lowering& lowering) {
  std::string type = lowering.type();
  bool left = lowering.parts[0] == "shl";
  // A left shift is the same for signed and unsigned operands.
  Handler fn = find_handler({{"b16", left ? shl<uint16_t> : shr<uint16_t>},
                             {"u16", left ? shl<uint16_t> : shr<uint16_t>},
                             {"b32", left ? shl<uint32_t> : shr<uint32_t>},
                             {"u32", left ? shl<uint32_t> : shr<uint32_t>},
                             {"b64", left ? shl<uint64_t> : shr<uint64_t>},
                             {"u64", left ? shl<uint64_t> : shr<uint64_t>},
                             {"s16", left ? shl<uint16_t> : shr<int16_t>},
                             {"s32", left ? shl<uint32_t> : shr<int32_t>},
                             {"s64", left ? shl<uint64_t> : shr<int64_t>}},
                            type);
  int width = type_width(type);
  return emit_mixed(lowering, fn, width, [width](int i) { return i == 0 ? width : i == 1 ? 4 : 0; });
}

bool lower_count(Lowering& lowering) {
  std::string type = lowering.type();
  std::string_view op = lowering.parts[0];
  int width = type_width(type);
  Handler fn = nullptr;
  if (op == "popc")
    fn = width == 8 ? map1<uint32_t, uint64_t, Popc<uint64_t>> : map1<uint32_t, uint32_t, Popc<uint32_t>>;
  if (op == "clz") fn = width == 8 ? map1<uint32_t, uint64_t, Clz<uint64_t>> : map1<uint32_t, uint32_t, Clz<uint32_t>>;
  if (op == "bfind" && lowering.has("shiftamt"))
    fn = type == "u32"   ? map1<uint32_t, uint32_t, Bfind<uint32_t, true>>
         : type == "s32" ? map1<uint32_t, int32_t, Bfind<int32_t, true>>
         : type == "u64" ? map1<uint32_t, uint64_t, Bfind<uint64_t, true>>
                         : map1<uint32_t, int64_t, Bfind<int64_t, true>>;
  else if (op == "bfind")
    fn = type == "u32"   ? map1<uint32_t, uint32_t, Bfind<uint32_t, false>>
         : type == "s32" ? map1<uint32_t, int32_t, Bfind<int32_t, false>>
         : type == "u64" ? map1<uint32_t, uint64_t, Bfind<uint64_t, false>>
                         : map1<uint32_t, int64_t, Bfind<int64_t, false>>;
  return emit_mixed(lowering, fn, 4, [width](int i) { return i == 0 ? width : 0; });
}

bool lower_brev(Lowering& lowering) {
  return emit_sources(
      lowering, type_width(lowering.type()) == 8 ? unary<uint64_t, Brev<uint64_t>> : unary<uint32_t, Brev<uint32_t>>,
      type_width(lowering.type()), 1);
}

bool lower_bfe(Lowering& lowering) {
  std::string type = lowering.type();
  int width = type_width(type);
  Handler fn = type == "u32"   ? bfe<uint32_t>
               : type == "s32" ? bfe<int32_t>
               : type == "u64" ? bfe<uint64_t>
               : type == "s64" ? bfe<int64_t>
                               : nullptr;
  return emit_mixed(lowering, fn, width, [width](int i) { return i == 0 ? width : i < 3 ? 4 : 0; });
}

bool lower_bfi(Lowering& lowering) {
  int width = type_width(lowering.type());
  return emit_mixed(lowering, width == 8 ? bfi<uint64_t> : bfi<uint32_t>, width, [width](int i) {
    return i < 2 ? width : i < 4 ? 4 : 0;
  });
}

bool lower_prmt(Lowering& lowering) {
  static const char* modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  if (!emit_sources(lowering, prmt, 4, 3)) return false;
  lowering.emitted.back().imm = -1;
  for (int mode = 0; mode < 6; ++mode)
    if (lowering.has(modes[mode])) lowering.emitted.back().imm = mode;
  // PTX ISA, prmt: the mode b4e selects bytes in decreasing order; its table row counts down from the selected byte.
  if (lowering.has("b4e")) lowering.emitted.back().imm = 1;
  return true;
}

bool lower_lop3(Lowering& lowering) {
  int64_t table = 0;
  if (lowering.operands() < 5 || lowering.has("BOOL") || !lowering.number(lowering.operand(4), &table)) return false;
  if (!emit_sources(lowering, lop3, 4, 3)) return false;
  lowering.emitted.back().imm = table;
  return true;
}

bool lower_shf(Lowering& lowering) {
  bool left = lowering.has("l"), clamp = lowering.has("clamp");
  Handler fn = left    ? (clamp ? ternary<uint32_t, Shf<true, true>> : ternary<uint32_t, Shf<true, false>>)
               : clamp ? Handler(ternary<uint32_t, Shf<false, true>>)
                       : ternary<uint32_t, Shf<false, false>>;
  return emit_sources(lowering, fn, 4, 3);
}

bool lower_dp(Lowering& lowering) {
  auto types = lowering.types();
  if (types.size() != 2) return false;
  bool sa = types[0] == "s32", sb = types[1] == "s32", hi = lowering.has("hi");
  Handler fn = nullptr;
  if (lowering.parts[0] == "dp4a")
    fn = sa   ? (sb ? ternary<uint32_t, Dp4a<true, true>> : ternary<uint32_t, Dp4a<true, false>>)
         : sb ? ternary<uint32_t, Dp4a<false, true>>
              : ternary<uint32_t, Dp4a<false, false>>;
  else if (hi)
    fn = sa   ? (sb ? ternary<uint32_t, Dp2a<true, true, true>> : ternary<uint32_t, Dp2a<true, false, true>>)
         : sb ? ternary<uint32_t, Dp2a<false, true, true>>
              : ternary<uint32_t, Dp2a<false, false, true>>;
  else
    fn = sa   ? (sb ? ternary<uint32_t, Dp2a<true, true, false>> : ternary<uint32_t, Dp2a<true, false, false>>)
         : sb ? ternary<uint32_t, Dp2a<false, true, false>>
              : ternary<uint32_t, Dp2a<false, false, false>>;
  return emit_sources(lowering, fn, 4, 3);
}

bool lower_bmsk(Lowering& lowering) {
  return emit_sources(lowering, lowering.has("clamp") ? binary<uint32_t, BmskClamp> : binary<uint32_t, BmskWrap>, 4, 2);
}
bool lower_fns(Lowering& lowering) { return emit_sources(lowering, ternary<uint32_t, Fns>, 4, 3); }
bool lower_szext(Lowering& lowering) {
  bool clamp = lowering.has("clamp");
  Handler fn = lowering.type() == "s32" ? (clamp ? map2<int32_t, int32_t, uint32_t, Szext<int32_t, true>>
                                                 : map2<int32_t, int32_t, uint32_t, Szext<int32_t, false>>)
               : clamp                  ? map2<uint32_t, uint32_t, uint32_t, Szext<uint32_t, true>>
                                        : map2<uint32_t, uint32_t, uint32_t, Szext<uint32_t, false>>;
  return emit_sources(lowering, fn, 4, 2);
}

}  // namespace

const LowerEntry kBitOps[] = {{"and", lower_logic},
                              {"or", lower_logic},
                              {"xor", lower_logic},
                              {"not", lower_logic},
                              {"cnot", lower_logic},
                              {"shl", lower_shift},
                              {"shr", lower_shift},
                              {"popc", lower_count},
                              {"clz", lower_count},
                              {"bfind", lower_count},
                              {"brev", lower_brev},
                              {"bfe", lower_bfe},
                              {"bfi", lower_bfi},
                              {"prmt", lower_prmt, "b32"},
                              {"lop3", lower_lop3, "b32"},
                              {"shf", lower_shf, "r wrap b32"},
                              {"dp4a", lower_dp},
                              {"dp2a", lower_dp, "lo"},
                              {"bmsk", lower_bmsk, "wrap b32"},
                              {"fns", lower_fns, "b32"},
                              {"szext", lower_szext, "wrap"},
                              {nullptr, nullptr}};

}  // namespace vgpu
