// Bits: logic, shifts, fields, counts, permutations, small dot products.
#include "alu.h"

namespace vgpu {

namespace {

template <class T>
struct And {
  static T f(T a, T b) { return a & b; }
};
template <class T>
struct Or {
  static T f(T a, T b) { return a | b; }
};
template <class T>
struct Xor {
  static T f(T a, T b) { return a ^ b; }
};
template <class T>
struct Not {
  static T f(T a) { return T(~a); }
};
template <class T>
struct Cnot {
  static T f(T a) { return T(a == 0); }
};

// Shift counts are u32 and clamped to the width.
template <class T>
struct Shl {
  static T f(T a, uint32_t n) { return n >= 8 * sizeof(T) ? T(0) : T(a << n); }
};
template <class T>
struct Shr {
  static T f(T a, uint32_t n) {
    if (n >= 8 * sizeof(T)) return std::is_signed_v<T> && a < 0 ? T(-1) : T(0);
    return T(a >> n);
  }
};
template <class T>
void shl(Warp& w, const Inst& i) {
  map2<T, T, uint32_t, Shl<T>>(w, i);
}
template <class T>
void shr(Warp& w, const Inst& i) {
  map2<T, T, uint32_t, Shr<T>>(w, i);
}

template <class T>
struct Popc {
  static uint32_t f(T a) { return uint32_t(__builtin_popcountll(a)); }
};
template <class T>
struct Clz {
  static uint32_t f(T a) { return a ? uint32_t(__builtin_clzll(a)) - (64 - 8 * sizeof(T)) : uint32_t(8 * sizeof(T)); }
};
template <class T>
struct Brev {
  static T f(T a) {
    T r = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i) r = T(r | ((a >> i & 1) << (8 * sizeof(T) - 1 - i)));
    return r;
  }
};
template <class T, bool Shift>
struct Bfind {
  static uint32_t f(T a) {
    using V = std::make_unsigned_t<T>;
    V v = std::is_signed_v<T> && a < 0 ? V(~V(a)) : V(a);
    if (v == 0) return UINT32_MAX;
    uint32_t top = 63 - uint32_t(__builtin_clzll(v));
    return Shift ? uint32_t(8 * sizeof(T)) - 1 - top : top;
  }
};
template <class T>
struct Bfe {
  static T f(T a, uint32_t b, uint32_t c) {
    constexpr uint32_t bits = 8 * sizeof(T);
    using V = std::make_unsigned_t<T>;
    uint32_t pos = b & 0xff, len = c & 0xff;
    if (len == 0) return 0;
    uint32_t last = std::min(pos + len - 1, bits - 1);
    bool sign = std::is_signed_v<T> && (V(a) >> last & 1);
    V r = pos >= bits ? V(0) : V(V(a) >> pos);
    if (len < bits) {
      V m = V((V(1) << len) - 1);
      r &= m;
    }
    uint32_t have = pos >= bits ? 0 : std::min(len, bits - pos);
    if (sign && have < bits) r |= have ? V(~((V(1) << have) - 1)) : V(~V(0));
    return T(r);
  }
};
template <class T>
void bfe(Warp& w, const Inst& i) {
  map3<T, T, uint32_t, uint32_t, Bfe<T>>(w, i);
}

template <class T>
void bfi(Warp& w, const Inst& i) {
  const T *a = in<T>(w, i.a), *b = in<T>(w, i.b);
  const uint32_t *c = in<uint32_t>(w, i.c), *e = in<uint32_t>(w, i.v[0]);
  lanes<T>(w, i.d, [=](int l) {
    constexpr uint32_t bits = 8 * sizeof(T);
    uint32_t pos = c[l] & 0xff, len = e[l] & 0xff;
    if (pos >= bits || len == 0) return b[l];
    T field = len >= bits ? T(~T(0)) : T((T(1) << len) - 1);
    T m = T(field << pos);
    return T((b[l] & ~m) | (T(a[l] << pos) & m));
  });
}

struct Bmsk {
  template <bool Clamp>
  static uint32_t make(uint32_t a, uint32_t b) {
    uint32_t pos = Clamp ? std::min(a, 32u) : a & 31, len = Clamp ? std::min(b, 32u) : b & 31;
    uint64_t m = ((uint64_t(1) << len) - 1) << pos;
    return uint32_t(m);
  }
};
struct BmskClamp {
  static uint32_t f(uint32_t a, uint32_t b) { return Bmsk::make<true>(a, b); }
};
struct BmskWrap {
  static uint32_t f(uint32_t a, uint32_t b) { return Bmsk::make<false>(a, b); }
};

template <class T, bool Clamp>
struct Szext {
  static T f(T a, uint32_t b) {
    uint32_t n = Clamp ? std::min(b, 32u) : b & 31;
    if (n >= 32) return a;
    if (n == 0) return 0;
    uint32_t v = uint32_t(a) & ((1u << n) - 1);
    if (std::is_signed_v<T> && (v >> (n - 1) & 1)) v |= ~((1u << n) - 1);
    return T(v);
  }
};

uint32_t permute(uint64_t bytes, uint32_t selector) {
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t s = selector >> (4 * i) & 15;
    uint32_t b = uint32_t(bytes >> (8 * (s & 7))) & 0xff;
    if (s & 8) b = b & 0x80 ? 0xff : 0;
    r |= b << (8 * i);
  }
  return r;
}

uint32_t mode_selector(int mode, uint32_t c) {
  static const uint16_t table[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                       {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                       {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
  return table[mode][c & 3];
}

void prmt(Warp& w, const Inst& i) {
  const uint32_t *a = in<uint32_t>(w, i.a), *b = in<uint32_t>(w, i.b), *c = in<uint32_t>(w, i.c);
  int mode = int(i.imm);
  lanes<uint32_t>(
      w, i.d, [=](int l) { return permute(uint64_t(b[l]) << 32 | a[l], mode < 0 ? c[l] : mode_selector(mode, c[l])); });
}

void lop3(Warp& w, const Inst& i) {
  const uint32_t *a = in<uint32_t>(w, i.a), *b = in<uint32_t>(w, i.b), *c = in<uint32_t>(w, i.c);
  uint32_t t = uint32_t(i.imm), k[8];
  for (int n = 0; n < 8; ++n) k[n] = t >> n & 1 ? UINT32_MAX : 0;
  lanes<uint32_t>(w, i.d, [=](int l) {
    uint32_t x = a[l], y = b[l], z = c[l];
    return (k[0] & ~x & ~y & ~z) | (k[1] & ~x & ~y & z) | (k[2] & ~x & y & ~z) | (k[3] & ~x & y & z) |
           (k[4] & x & ~y & ~z) | (k[5] & x & ~y & z) | (k[6] & x & y & ~z) | (k[7] & x & y & z);
  });
}

template <bool Left, bool Clamp>
struct Shf {
  static uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t n = Clamp ? std::min(c, 32u) : c & 31;
    uint64_t v = uint64_t(b) << 32 | a;
    return Left ? uint32_t(v << n >> 32) : uint32_t(v >> n);
  }
};

template <bool SA, bool SB>
struct Dp4a {
  static uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
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
  static uint32_t f(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 2; ++i) {
      int k = Hi ? i + 2 : i;
      int32_t x = SA ? int16_t(a >> (16 * i)) : int32_t(uint16_t(a >> (16 * i))),
              y = SB ? int8_t(b >> (8 * k)) : int32_t(uint8_t(b >> (8 * k)));
      c += uint32_t(x * y);
    }
    return c;
  }
};

struct Fns {
  static uint32_t f(uint32_t mask, uint32_t base, uint32_t offset) {
    int32_t n = int32_t(offset);
    if (base > 31) return UINT32_MAX;
    if (n == 0) return mask >> base & 1 ? base : UINT32_MAX;
    int32_t step = n > 0 ? 1 : -1, left = n > 0 ? n : -n;
    for (int32_t p = int32_t(base); p >= 0 && p < 32; p += step)
      if (mask >> p & 1 && --left == 0) return uint32_t(p);
    return UINT32_MAX;
  }
};

// Predicate logic.
template <int Op>
void pred_logic(Warp& w, const Inst& i) {
  uint32_t a = pred_in(w, i.a, i.flags & 1), b = pred_in(w, i.b, i.flags & 2);
  pred_out(w, i.d, Op == 0 ? a & b : Op == 1 ? a | b : Op == 2 ? a ^ b : ~a);
}

bool lower_pred_logic(Lowering& l, Handler fn, bool two) {
  bool na = false, nb = false;
  int32_t a = l.predicate_source(l.operand(1), &na), b = two ? l.predicate_source(l.operand(2), &nb) : 0,
          d = l.predicate(l.operand(0));
  Inst& i = l.emit(fn);
  i.d = d;
  i.a = a;
  i.b = b;
  i.flags = uint8_t(na | nb << 1);
  return true;
}

bool lower_logic(Lowering& l) {
  std::string t = l.type();
  std::string_view op = l.parts[0];
  if (l.operands() < (op == "not" || op == "cnot" ? 2u : 3u)) return false;
  if (l.has("pred"))
    return lower_pred_logic(l,
                            op == "and"   ? pred_logic<0>
                            : op == "or"  ? pred_logic<1>
                            : op == "xor" ? pred_logic<2>
                                          : pred_logic<3>,
                            op != "not");
  if (op == "not") return emit_sources(l, VGPU_BY_INTEGER(t, unary, Not), type_width(t), 1);
  if (op == "cnot") return emit_sources(l, VGPU_BY_INTEGER(t, unary, Cnot), type_width(t), 1);
  Handler fn = op == "and"  ? VGPU_BY_INTEGER(t, binary, And)
               : op == "or" ? VGPU_BY_INTEGER(t, binary, Or)
                            : VGPU_BY_INTEGER(t, binary, Xor);
  return emit_sources(l, fn, type_width(t), 2);
}

template <class F>
bool emit_mixed(Lowering& l, Handler fn, int dw, F widths) {  // widths(i): width of source i+1, 0 ends
  if (!fn) return false;
  int32_t s[4] = {};
  int n = 0;
  for (; n < 4 && widths(n); ++n) s[n] = l.source(size_t(n) + 1, widths(n));
  int32_t d = l.target(size_t(0), dw);
  Inst& i = l.emit(fn);
  i.d = d;
  i.a = s[0];
  i.b = s[1];
  i.c = s[2];
  i.v[0] = s[3];
  return true;
}

bool lower_shift(Lowering& l) {
  std::string t = l.type();
  bool left = l.parts[0] == "shl";
  Handler fn = nullptr;
  if (t == "b16" || t == "u16") fn = left ? shl<uint16_t> : shr<uint16_t>;
  if (t == "b32" || t == "u32") fn = left ? shl<uint32_t> : shr<uint32_t>;
  if (t == "b64" || t == "u64") fn = left ? shl<uint64_t> : shr<uint64_t>;
  if (t == "s16") fn = left ? shl<uint16_t> : Handler(shr<int16_t>);
  if (t == "s32") fn = left ? shl<uint32_t> : Handler(shr<int32_t>);
  if (t == "s64") fn = left ? shl<uint64_t> : Handler(shr<int64_t>);
  int w = type_width(t);
  return emit_mixed(l, fn, w, [w](int i) { return i == 0 ? w : i == 1 ? 4 : 0; });
}

bool lower_count(Lowering& l) {
  std::string t = l.type();
  std::string_view op = l.parts[0];
  int w = type_width(t);
  Handler fn = nullptr;
  if (op == "popc") fn = w == 8 ? map1<uint32_t, uint64_t, Popc<uint64_t>> : map1<uint32_t, uint32_t, Popc<uint32_t>>;
  if (op == "clz") fn = w == 8 ? map1<uint32_t, uint64_t, Clz<uint64_t>> : map1<uint32_t, uint32_t, Clz<uint32_t>>;
  if (op == "bfind" && l.has("shiftamt"))
    fn = t == "u32"   ? map1<uint32_t, uint32_t, Bfind<uint32_t, true>>
         : t == "s32" ? map1<uint32_t, int32_t, Bfind<int32_t, true>>
         : t == "u64" ? map1<uint32_t, uint64_t, Bfind<uint64_t, true>>
                      : map1<uint32_t, int64_t, Bfind<int64_t, true>>;
  else if (op == "bfind")
    fn = t == "u32"   ? map1<uint32_t, uint32_t, Bfind<uint32_t, false>>
         : t == "s32" ? map1<uint32_t, int32_t, Bfind<int32_t, false>>
         : t == "u64" ? map1<uint32_t, uint64_t, Bfind<uint64_t, false>>
                      : map1<uint32_t, int64_t, Bfind<int64_t, false>>;
  return emit_mixed(l, fn, 4, [w](int i) { return i == 0 ? w : 0; });
}

bool lower_brev(Lowering& l) {
  return emit_sources(l, type_width(l.type()) == 8 ? unary<uint64_t, Brev<uint64_t>> : unary<uint32_t, Brev<uint32_t>>,
                      type_width(l.type()), 1);
}

bool lower_bfe(Lowering& l) {
  std::string t = l.type();
  int w = type_width(t);
  Handler fn = t == "u32"   ? bfe<uint32_t>
               : t == "s32" ? bfe<int32_t>
               : t == "u64" ? bfe<uint64_t>
               : t == "s64" ? bfe<int64_t>
                            : nullptr;
  return emit_mixed(l, fn, w, [w](int i) { return i == 0 ? w : i < 3 ? 4 : 0; });
}

bool lower_bfi(Lowering& l) {
  int w = type_width(l.type());
  return emit_mixed(l, w == 8 ? bfi<uint64_t> : bfi<uint32_t>, w, [w](int i) { return i < 2 ? w : i < 4 ? 4 : 0; });
}

bool lower_prmt(Lowering& l) {
  static const char* modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  if (!emit_sources(l, prmt, 4, 3)) return false;
  l.emitted.back().imm = -1;
  for (int m = 0; m < 6; ++m)
    if (l.has(modes[m])) l.emitted.back().imm = m;
  // b4e is {a,b} backwards; its table counts bytes from the selected one down.
  if (l.has("b4e")) l.emitted.back().imm = 1;
  return true;
}

bool lower_lop3(Lowering& l) {
  int64_t table = 0;
  if (l.operands() < 5 || l.has("BOOL") || !l.number(l.operand(4), &table)) return false;
  if (!emit_sources(l, lop3, 4, 3)) return false;
  l.emitted.back().imm = table;
  return true;
}

bool lower_shf(Lowering& l) {
  bool left = l.has("l"), clamp = l.has("clamp");
  Handler fn = left    ? (clamp ? ternary<uint32_t, Shf<true, true>> : ternary<uint32_t, Shf<true, false>>)
               : clamp ? Handler(ternary<uint32_t, Shf<false, true>>)
                       : ternary<uint32_t, Shf<false, false>>;
  return emit_sources(l, fn, 4, 3);
}

bool lower_dp(Lowering& l) {
  auto t = l.types();
  if (t.size() != 2) return false;
  bool sa = t[0] == "s32", sb = t[1] == "s32", hi = l.has("hi");
  Handler fn = nullptr;
  if (l.parts[0] == "dp4a")
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
  return emit_sources(l, fn, 4, 3);
}

bool lower_bmsk(Lowering& l) {
  return emit_sources(l, l.has("clamp") ? binary<uint32_t, BmskClamp> : binary<uint32_t, BmskWrap>, 4, 2);
}
bool lower_fns(Lowering& l) { return emit_sources(l, ternary<uint32_t, Fns>, 4, 3); }
bool lower_szext(Lowering& l) {
  bool clamp = l.has("clamp");
  Handler fn = l.type() == "s32" ? (clamp ? map2<int32_t, int32_t, uint32_t, Szext<int32_t, true>>
                                          : map2<int32_t, int32_t, uint32_t, Szext<int32_t, false>>)
               : clamp           ? map2<uint32_t, uint32_t, uint32_t, Szext<uint32_t, true>>
                                 : map2<uint32_t, uint32_t, uint32_t, Szext<uint32_t, false>>;
  return emit_sources(l, fn, 4, 2);
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
