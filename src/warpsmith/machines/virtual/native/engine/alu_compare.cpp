// Comparisons and selections: setp, set, selp, slct.
#include "alu.h"
#include "real.h"

namespace vgpu {

namespace {

enum Compare : int { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };

// Fourteen comparisons are five, with the operands exchanged or the answer turned round.
struct Basis {
  int base;
  bool swap, negate;
};
Basis basis(int c) {
  static const Basis table[] = {{Eq, false, false}, {Equ, false, true}, {Lt, false, false},  {Le, false, false},
                                {Lt, true, false},  {Le, true, false},  {Equ, false, false}, {Eq, false, true},
                                {Le, true, true},   {Lt, true, true},   {Le, false, true},   {Lt, false, true},
                                {Nan, false, true}, {Nan, false, false}};
  return table[c];
}

template <class T, int C>
bool holds(T a, T b) {
  if constexpr (C == Eq) return a == b;
  if constexpr (C == Lt) return a < b;
  if constexpr (C == Le) return a <= b;
  if constexpr (C == Equ) return std::is_integral_v<T> ? a == b : !(a < b) && !(a > b);
  if constexpr (C == Nan) return a != a || b != b;
}

template <class T>
struct Value {
  using stored = T;
  static T of(T v) { return v; }
};
struct HalfValue {};
struct BrainValue {};
struct FlushedValue {};
struct FlushedHalf {};
template <>
struct Value<HalfValue> {
  using stored = uint16_t;
  static float of(uint16_t v) { return to_float(Half{v}); }
};
template <>
struct Value<FlushedHalf> {
  using stored = uint16_t;
  static float of(uint16_t v) { return to_float(flushed(Half{v})); }
};
template <>
struct Value<BrainValue> {
  using stored = uint16_t;
  static float of(uint16_t v) { return to_float(Brain{v}); }
};
template <>
struct Value<FlushedValue> {
  using stored = float;
  static float of(float v) { return flush(v); }
};

// The comparison of all lanes as bits.
template <class V, int C>
__attribute__((noinline)) uint32_t compare(const Warp& w, const Inst& i) {
  using S = typename Value<V>::stored;
  const S *a = in<S>(w, i.a), *b = in<S>(w, i.b);
  alignas(32) uint8_t r[32];
#pragma GCC ivdep
  for (int l = 0; l < 32; ++l)
    r[l] = uint8_t(holds<decltype(Value<V>::of(a[l])), C>(Value<V>::of(a[l]), Value<V>::of(b[l])));
  return pack(r);
}

uint32_t combine(const Warp& w, const Inst& i, uint32_t r) {
  if (!(i.flags & 3)) return r;
  uint32_t c = pred_in(w, i.c, i.flags & 4);
  return (i.flags & 3) == 1 ? r & c : (i.flags & 3) == 2 ? r | c : r ^ c;
}

using Comparison = uint32_t (*)(const Warp&, const Inst&);
constexpr uint8_t kNegate = 8, kFlush = 16;

template <class V, int C>
void setp(Warp& w, const Inst& i) {
  uint32_t r = compare<V, C>(w, i);
  if (i.flags & kNegate) r = ~r;
  if (!(i.flags & 3)) {
    pred_out(w, i.d, r);
    if (i.n == 2) pred_out(w, i.v[0], ~r);
    return;
  }
  uint32_t first = combine(w, i, r), second = combine(w, i, ~r);
  pred_out(w, i.d, first);
  if (i.n == 2) pred_out(w, i.v[0], second);
}

void set(Warp& w, const Inst& i) {
  uint32_t r = reinterpret_cast<Comparison>(const_cast<void*>(i.table))(w, i);
  if (i.flags & kNegate) r = ~r;
  r = combine(w, i, r);
  uint32_t one = uint32_t(i.imm);
  uint32_t bits[32];
  expand(r, bits);
  lanes<uint32_t>(w, i.d, [&](int l) { return bits[l] & one; });
}

struct Chosen {
  Handler fn = nullptr;
  Comparison compare = nullptr;
};

template <class V>
Chosen pick(int base) {
  switch (base) {
    case Eq: return {setp<V, Eq>, compare<V, Eq>};
    case Lt: return {setp<V, Lt>, compare<V, Lt>};
    case Le: return {setp<V, Le>, compare<V, Le>};
  }
  if constexpr (!std::is_integral_v<V>)
    return base == Equ ? Chosen{setp<V, Equ>, compare<V, Equ>} : Chosen{setp<V, Nan>, compare<V, Nan>};
  return base == Equ ? Chosen{setp<V, Eq>, compare<V, Eq>} : Chosen{};
}

int comparison(const Lowering& l) {
  static const std::unordered_map<std::string_view, int> table = {
      {"eq", Eq},   {"ne", Ne},   {"lt", Lt},   {"le", Le},   {"gt", Gt},   {"ge", Ge},
      {"lo", Lt},   {"ls", Le},   {"hi", Gt},   {"hs", Ge},   {"equ", Equ}, {"neu", Neu},
      {"ltu", Ltu}, {"leu", Leu}, {"gtu", Gtu}, {"geu", Geu}, {"num", Num}, {"nan", Nan}};
  auto found = table.find(l.part(1));
  return found == table.end() ? -1 : found->second;
}

Chosen by_type(const std::string& t, int c, bool ftz) {
  if (t == "u16" || t == "b16") return pick<uint16_t>(c);
  if (t == "s16") return pick<int16_t>(c);
  if (t == "u32" || t == "b32") return pick<uint32_t>(c);
  if (t == "s32") return pick<int32_t>(c);
  if (t == "u64" || t == "b64") return pick<uint64_t>(c);
  if (t == "s64") return pick<int64_t>(c);
  if (t == "f32") return ftz ? pick<FlushedValue>(c) : pick<float>(c);
  if (t == "f64") return pick<double>(c);
  if (t == "f16") return ftz ? pick<FlushedHalf>(c) : pick<HalfValue>(c);
  if (t == "bf16") return pick<BrainValue>(c);
  return {};
}

// Packed comparisons: two results, for the low and the high half.
template <class H>
uint32_t halves(const Warp& w, const Inst& i, int c, int shift) {
  const uint32_t *a = in<uint32_t>(w, i.a), *b = in<uint32_t>(w, i.b);
  auto value = [&](uint32_t pair) {
    H h{uint16_t(pair >> shift)};
    return to_float(i.flags & kFlush ? flushed(h) : h);
  };
  uint32_t r = 0;
  each(w.mask, [&](int l) {
    float x = value(a[l]), y = value(b[l]);
    bool v = false;
    switch (c) {
      case Eq: v = x == y; break;
      case Ne: v = x < y || x > y; break;
      case Lt: v = x < y; break;
      case Le: v = x <= y; break;
      case Gt: v = x > y; break;
      case Ge: v = x >= y; break;
      case Equ: v = !(x < y) && !(x > y); break;
      case Neu: v = !(x == y); break;
      case Ltu: v = !(x >= y); break;
      case Leu: v = !(x > y); break;
      case Gtu: v = !(x <= y); break;
      case Geu: v = !(x < y); break;
      case Num: v = x == x && y == y; break;
      case Nan: v = x != x || y != y; break;
    }
    r |= uint32_t(v) << l;
  });
  return r;
}
template <class H>
void setp_pair(Warp& w, const Inst& i) {
  uint32_t low = combine(w, i, halves<H>(w, i, int(i.imm), 0)), high = combine(w, i, halves<H>(w, i, int(i.imm), 16));
  pred_out(w, i.d, low);
  if (i.n == 2) pred_out(w, i.v[0], high);
}
template <class H>
void set_pair(Warp& w, const Inst& i) {
  int c = int(i.imm & 0xff);
  uint32_t low = combine(w, i, halves<H>(w, i, c, 0)), high = combine(w, i, halves<H>(w, i, c, 16));
  uint32_t one = uint32_t(i.imm >> 8);
  lanes<uint32_t>(w, i.d,
                  [=](int l) { return (low >> l & 1 ? one & 0xffff : 0) | (high >> l & 1 ? one & 0xffff0000 : 0); });
}

uint8_t combination(Lowering& l, size_t operand, int32_t* c) {
  uint8_t how = l.has("and") ? 1 : l.has("or") ? 2 : l.has("xor") ? 3 : 0;
  if (!how) return 0;
  if (l.operands() <= operand) {
    l.refuse();
    return 0;
  }
  bool negated = false;
  *c = l.predicate_source(l.operand(operand), &negated);
  return uint8_t(how | negated << 2);
}

Class class_of(const std::string& t) {
  return t == "f32"                                    ? Class::Fp32
         : t == "f64"                                  ? Class::Fp64
         : t[0] == 'f' || (t[0] == 'b' && t[1] == 'f') ? Class::Fp16
                                                       : Class::Int;
}

bool lower_setp(Lowering& l) {
  std::string t = l.type();
  int c = comparison(l);
  if (l.operands() < 3 || c < 0) return false;
  l.kind = class_of(t);
  bool pair = t == "f16x2" || t == "bf16x2";
  Basis basic = basis(c);
  Handler fn = t == "f16x2"    ? setp_pair<Half>
               : t == "bf16x2" ? setp_pair<Brain>
                               : by_type(t, basic.base, l.has("ftz")).fn;
  int width = type_width(t);
  int32_t a = l.source(1, width, t[0]), b = l.source(2, width, t[0]), p = 0;
  uint8_t how = combination(l, 3, &p);
  const ptx::Operand& target = l.operand(0);
  int32_t d = l.predicate(target), q = target.paired ? l.predicate(target.parts[0]) : 0;
  Inst& i = l.emit(fn);
  i.a = a;
  i.b = b;
  i.c = p;
  i.d = d;
  i.flags = how;
  i.v[0] = q;
  i.n = target.paired ? 2 : 1;
  if (pair) {
    i.imm = c;
    if (l.has("ftz")) i.flags |= kFlush;
    return true;
  }
  if (basic.swap) std::swap(i.a, i.b);
  if (basic.negate) i.flags |= kNegate;
  return true;
}

bool lower_set(Lowering& l) {
  auto types = l.types();
  if (types.size() != 2 || l.operands() < 3) return false;
  const std::string &to = types[0], &t = types[1];
  int c = comparison(l), width = type_width(t);
  if (c < 0) return false;
  bool pair = t == "f16x2" || t == "bf16x2";
  uint32_t one = to == "f32"      ? 0x3f800000
                 : to == "f16x2"  ? 0x3c003c00
                 : to == "bf16x2" ? 0x3f803f80
                 : to == "f16"    ? 0x3c00
                 : to == "bf16"   ? 0x3f80
                                  : UINT32_MAX;
  Basis basic = basis(c);
  Chosen chosen = pair ? Chosen{} : by_type(t, basic.base, l.has("ftz"));
  Handler fn = t == "f16x2" ? set_pair<Half> : t == "bf16x2" ? set_pair<Brain> : chosen.compare ? set : nullptr;
  int32_t a = l.source(1, width, t[0]), b = l.source(2, width, t[0]), p = 0;
  uint8_t how = combination(l, 3, &p);
  int32_t d = type_width(to) == 4 ? l.target(size_t(0), 4) : 0;
  if (type_width(to) == 2) d = l.target(size_t(0), 4);
  Inst& i = l.emit(fn);
  i.a = a;
  i.b = b;
  i.c = p;
  i.d = d;
  i.flags = how;
  i.imm = pair ? int64_t(one) << 8 | c : int64_t(one);
  if (pair) {
    if (l.has("ftz")) i.flags |= kFlush;
    return true;
  }
  i.table = reinterpret_cast<const void*>(chosen.compare);
  if (basic.swap) std::swap(i.a, i.b);
  if (basic.negate) i.flags |= kNegate;
  return true;
}

template <class T>
void selp(Warp& w, const Inst& i) {
  const T *a = in<T>(w, i.a), *b = in<T>(w, i.b);
  uint32_t bits[32];
  expand(pred_in(w, i.c, i.flags), bits);
  lanes<T>(w, i.d, [&](int l) { return bits[l] ? a[l] : b[l]; });
}

bool lower_selp(Lowering& l) {
  int width = type_width(l.type());
  if (l.operands() != 4) return false;
  int32_t a = l.source(1, width, 'f'), b = l.source(2, width, 'f');
  bool negated = false;
  int32_t p = l.predicate_source(l.operand(3), &negated), d = l.target(size_t(0), width);
  Inst& i = l.emit(width == 8 ? selp<uint64_t> : width == 4 ? selp<uint32_t> : selp<uint16_t>);
  i.a = a;
  i.b = b;
  i.c = p;
  i.d = d;
  i.flags = negated;
  return true;
}

template <class T, class C>
struct Slct {
  static T f(T a, T b, C c) { return c >= 0 ? a : b; }
};
template <class T>
struct SlctFlush {
  static T f(T a, T b, float c) { return flush(c) >= 0 ? a : b; }
};

bool lower_slct(Lowering& l) {
  auto types = l.types();
  if (types.size() != 2 || l.operands() != 4) return false;
  int width = type_width(types[0]);
  bool real = types[1] == "f32", ftz = l.has("ftz");
  Handler fn = nullptr;
  if (width == 2)
    fn = real ? (ftz ? map3<uint16_t, uint16_t, uint16_t, float, SlctFlush<uint16_t>>
                     : map3<uint16_t, uint16_t, uint16_t, float, Slct<uint16_t, float>>)
              : map3<uint16_t, uint16_t, uint16_t, int32_t, Slct<uint16_t, int32_t>>;
  if (width == 4)
    fn = real ? (ftz ? map3<uint32_t, uint32_t, uint32_t, float, SlctFlush<uint32_t>>
                     : map3<uint32_t, uint32_t, uint32_t, float, Slct<uint32_t, float>>)
              : map3<uint32_t, uint32_t, uint32_t, int32_t, Slct<uint32_t, int32_t>>;
  if (width == 8)
    fn = real ? (ftz ? map3<uint64_t, uint64_t, uint64_t, float, SlctFlush<uint64_t>>
                     : map3<uint64_t, uint64_t, uint64_t, float, Slct<uint64_t, float>>)
              : map3<uint64_t, uint64_t, uint64_t, int32_t, Slct<uint64_t, int32_t>>;
  int32_t a = l.source(1, width, 'f'), b = l.source(2, width, 'f'), c = l.source(3, 4, 'f'),
          d = l.target(size_t(0), width);
  Inst& i = l.emit(fn);
  i.a = a;
  i.b = b;
  i.c = c;
  i.d = d;
  return true;
}

}  // namespace

const LowerEntry kCompareOps[] = {
    {"setp", lower_setp}, {"set", lower_set}, {"selp", lower_selp}, {"slct", lower_slct}, {nullptr, nullptr}};

}  // namespace vgpu
