// Comparisons and selections: setp, set, selp, slct.
#include "alu.h"
#include "real.h"

namespace vgpu {

namespace {

enum Compare : int { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };

// The fourteen comparisons of PTX reduce to five: exchange the operands, or negate the result.
struct Basis {
  int base;
  bool swap, negate;
};
Basis basis(int relation) {
  static const Basis table[] = {{Eq, false, false}, {Equ, false, true}, {Lt, false, false},  {Le, false, false},
                                {Lt, true, false},  {Le, true, false},  {Equ, false, false}, {Eq, false, true},
                                {Le, true, true},   {Lt, true, true},   {Le, false, true},   {Lt, false, true},
                                {Nan, false, true}, {Nan, false, false}};
  return table[relation];
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
  static T of(T value) { return value; }
};
struct HalfValue {};
struct BrainValue {};
struct FlushedValue {};
struct FlushedHalf {};
template <>
struct Value<HalfValue> {
  using stored = uint16_t;
  static float of(uint16_t value) { return to_float(Half{value}); }
};
template <>
struct Value<FlushedHalf> {
  using stored = uint16_t;
  static float of(uint16_t value) { return to_float(flushed(Half{value})); }
};
template <>
struct Value<BrainValue> {
  using stored = uint16_t;
  static float of(uint16_t value) { return to_float(Brain{value}); }
};
template <>
struct Value<FlushedValue> {
  using stored = float;
  static float of(float value) { return flush(value); }
};

// Compares all lanes. Returns one bit a lane.
template <class V, int C>
__attribute__((noinline)) uint32_t compare(const Warp& warp, const Inst& inst) {
  using S = typename Value<V>::stored;
  const S *a = in<S>(warp, inst.a), *b = in<S>(warp, inst.b);
  alignas(32) uint8_t holding[32];
#pragma GCC ivdep
  for (int lane = 0; lane < 32; ++lane)
    holding[lane] = uint8_t(holds<decltype(Value<V>::of(a[lane])), C>(Value<V>::of(a[lane]), Value<V>::of(b[lane])));
  return pack(holding);
}

uint32_t combine(const Warp& warp, const Inst& inst, uint32_t result) {
  if (!(inst.flags & 3)) return result;
  uint32_t c = pred_in(warp, inst.c, inst.flags & 4);
  return (inst.flags & 3) == 1 ? result & c : (inst.flags & 3) == 2 ? result | c : result ^ c;
}

using Comparison = uint32_t (*)(const Warp&, const Inst&);
constexpr uint8_t kNegate = 8, kFlush = 16;

template <class V, int C>
void setp(Warp& warp, const Inst& inst) {
  uint32_t result = compare<V, C>(warp, inst);
  if (inst.flags & kNegate) result = ~result;
  if (!(inst.flags & 3)) {
    pred_out(warp, inst.d, result);
    if (inst.count == 2) pred_out(warp, inst.extra[0], ~result);
    return;
  }
  uint32_t first = combine(warp, inst, result), second = combine(warp, inst, ~result);
  pred_out(warp, inst.d, first);
  if (inst.count == 2) pred_out(warp, inst.extra[0], second);
}

void set(Warp& warp, const Inst& inst) {
  uint32_t result = reinterpret_cast<Comparison>(const_cast<void*>(inst.table))(warp, inst);
  if (inst.flags & kNegate) result = ~result;
  result = combine(warp, inst, result);
  uint32_t one = uint32_t(inst.imm);
  uint32_t bits[32];
  expand(result, bits);
  lanes<uint32_t>(warp, inst.d, [&](int lane) { return bits[lane] & one; });
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

int comparison(const Lowering& lowering) {
  static const std::unordered_map<std::string_view, int> table = {
      {"eq", Eq},   {"ne", Ne},   {"lt", Lt},   {"le", Le},   {"gt", Gt},   {"ge", Ge},
      {"lo", Lt},   {"ls", Le},   {"hi", Gt},   {"hs", Ge},   {"equ", Equ}, {"neu", Neu},
      {"ltu", Ltu}, {"leu", Leu}, {"gtu", Gtu}, {"geu", Geu}, {"num", Num}, {"nan", Nan}};
  auto found = table.find(lowering.part(1));
  return found == table.end() ? -1 : found->second;
}

Chosen by_type(const std::string& type, int relation, bool ftz) {
  if (type == "u16" || type == "b16") return pick<uint16_t>(relation);
  if (type == "s16") return pick<int16_t>(relation);
  if (type == "u32" || type == "b32") return pick<uint32_t>(relation);
  if (type == "s32") return pick<int32_t>(relation);
  if (type == "u64" || type == "b64") return pick<uint64_t>(relation);
  if (type == "s64") return pick<int64_t>(relation);
  if (type == "f32") return ftz ? pick<FlushedValue>(relation) : pick<float>(relation);
  if (type == "f64") return pick<double>(relation);
  if (type == "f16") return ftz ? pick<FlushedHalf>(relation) : pick<HalfValue>(relation);
  if (type == "bf16") return pick<BrainValue>(relation);
  return {};
}

// Packed comparisons: one result for the low halves, one for the high halves.
template <class H>
uint32_t halves(const Warp& warp, const Inst& inst, int relation, int shift) {
  const uint32_t *a = in<uint32_t>(warp, inst.a), *b = in<uint32_t>(warp, inst.b);
  auto value = [&](uint32_t pair) {
    H half{uint16_t(pair >> shift)};
    return to_float(inst.flags & kFlush ? flushed(half) : half);
  };
  uint32_t result = 0;
  each(warp.mask, [&](int lane) {
    float x = value(a[lane]), y = value(b[lane]);
    bool number = false;
    switch (relation) {
      case Eq: number = x == y; break;
      case Ne: number = x < y || x > y; break;
      case Lt: number = x < y; break;
      case Le: number = x <= y; break;
      case Gt: number = x > y; break;
      case Ge: number = x >= y; break;
      case Equ: number = !(x < y) && !(x > y); break;
      case Neu: number = !(x == y); break;
      case Ltu: number = !(x >= y); break;
      case Leu: number = !(x > y); break;
      case Gtu: number = !(x <= y); break;
      case Geu: number = !(x < y); break;
      case Num: number = x == x && y == y; break;
      case Nan: number = x != x || y != y; break;
    }
    result |= uint32_t(number) << lane;
  });
  return result;
}
template <class H>
void setp_pair(Warp& warp, const Inst& inst) {
  uint32_t low = combine(warp, inst, halves<H>(warp, inst, int(inst.imm), 0)),
           high = combine(warp, inst, halves<H>(warp, inst, int(inst.imm), 16));
  pred_out(warp, inst.d, low);
  if (inst.count == 2) pred_out(warp, inst.extra[0], high);
}
template <class H>
void set_pair(Warp& warp, const Inst& inst) {
  int relation = int(inst.imm & 0xff);
  uint32_t low = combine(warp, inst, halves<H>(warp, inst, relation, 0)),
           high = combine(warp, inst, halves<H>(warp, inst, relation, 16));
  uint32_t one = uint32_t(inst.imm >> 8);
  lanes<uint32_t>(warp, inst.d, [=](int lane) {
    return (low >> lane & 1 ? one & 0xffff : 0) | (high >> lane & 1 ? one & 0xffff0000 : 0);
  });
}

uint8_t combination(Lowering& lowering, size_t operand, int32_t* c) {
  uint8_t how = lowering.has("and") ? 1 : lowering.has("or") ? 2 : lowering.has("xor") ? 3 : 0;
  if (!how) return 0;
  if (lowering.operands() <= operand) {
    lowering.refuse();
    return 0;
  }
  bool negated = false;
  *c = lowering.predicate_source(lowering.operand(operand), &negated);
  return uint8_t(how | negated << 2);
}

Class class_of(const std::string& type) {
  return type == "f32"                                          ? Class::Fp32
         : type == "f64"                                        ? Class::Fp64
         : type[0] == 'f' || (type[0] == 'b' && type[1] == 'f') ? Class::Fp16
                                                                : Class::Int;
}

bool lower_setp(Lowering& lowering) {
  std::string type = lowering.type();
  int relation = comparison(lowering);
  if (lowering.operands() < 3 || relation < 0) return false;
  lowering.kind = class_of(type);
  bool pair = type == "f16x2" || type == "bf16x2";
  Basis basic = basis(relation);
  Handler fn = type == "f16x2"    ? setp_pair<Half>
               : type == "bf16x2" ? setp_pair<Brain>
                                  : by_type(type, basic.base, lowering.has("ftz")).fn;
  int width = type_width(type);
  int32_t a = lowering.source(1, width, type[0]), b = lowering.source(2, width, type[0]), predicate = 0;
  uint8_t how = combination(lowering, 3, &predicate);
  const ptx::Operand& target = lowering.operand(0);
  int32_t d = lowering.predicate(target), second = target.paired ? lowering.predicate(target.parts[0]) : 0;
  Inst& inst = lowering.emit(fn);
  inst.a = a;
  inst.b = b;
  inst.c = predicate;
  inst.d = d;
  inst.flags = how;
  inst.extra[0] = second;
  inst.count = target.paired ? 2 : 1;
  if (pair) {
    inst.imm = relation;
    if (lowering.has("ftz")) inst.flags |= kFlush;
    return true;
  }
  if (basic.swap) std::swap(inst.a, inst.b);
  if (basic.negate) inst.flags |= kNegate;
  return true;
}

bool lower_set(Lowering& lowering) {
  auto types = lowering.types();
  if (types.size() != 2 || lowering.operands() < 3) return false;
  const std::string &to = types[0], &type = types[1];
  int relation = comparison(lowering), width = type_width(type);
  if (relation < 0) return false;
  bool pair = type == "f16x2" || type == "bf16x2";
  uint32_t one = to == "f32"      ? 0x3f800000
                 : to == "f16x2"  ? 0x3c003c00
                 : to == "bf16x2" ? 0x3f803f80
                 : to == "f16"    ? 0x3c00
                 : to == "bf16"   ? 0x3f80
                                  : UINT32_MAX;
  Basis basic = basis(relation);
  Chosen chosen = pair ? Chosen{} : by_type(type, basic.base, lowering.has("ftz"));
  Handler fn = type == "f16x2" ? set_pair<Half> : type == "bf16x2" ? set_pair<Brain> : chosen.compare ? set : nullptr;
  int32_t a = lowering.source(1, width, type[0]), b = lowering.source(2, width, type[0]), predicate = 0;
  uint8_t how = combination(lowering, 3, &predicate);
  int32_t d = type_width(to) == 4 ? lowering.target(size_t(0), 4) : 0;
  if (type_width(to) == 2) d = lowering.target(size_t(0), 4);
  Inst& inst = lowering.emit(fn);
  inst.a = a;
  inst.b = b;
  inst.c = predicate;
  inst.d = d;
  inst.flags = how;
  inst.imm = pair ? int64_t(one) << 8 | relation : int64_t(one);
  if (pair) {
    if (lowering.has("ftz")) inst.flags |= kFlush;
    return true;
  }
  inst.table = reinterpret_cast<const void*>(chosen.compare);
  if (basic.swap) std::swap(inst.a, inst.b);
  if (basic.negate) inst.flags |= kNegate;
  return true;
}

template <class T>
void selp(Warp& warp, const Inst& inst) {
  const T *a = in<T>(warp, inst.a), *b = in<T>(warp, inst.b);
  uint32_t bits[32];
  expand(pred_in(warp, inst.c, inst.flags), bits);
  lanes<T>(warp, inst.d, [&](int lane) { return bits[lane] ? a[lane] : b[lane]; });
}

bool lower_selp(Lowering& lowering) {
  int width = type_width(lowering.type());
  if (lowering.operands() != 4) return false;
  int32_t a = lowering.source(1, width, 'f'), b = lowering.source(2, width, 'f');
  bool negated = false;
  int32_t predicate = lowering.predicate_source(lowering.operand(3), &negated), d = lowering.target(size_t(0), width);
  Inst& inst = lowering.emit(width == 8 ? selp<uint64_t> : width == 4 ? selp<uint32_t> : selp<uint16_t>);
  inst.a = a;
  inst.b = b;
  inst.c = predicate;
  inst.d = d;
  inst.flags = negated;
  return true;
}

template <class T, class C>
struct Slct {
  static T apply(T a, T b, C c) { return c >= 0 ? a : b; }
};
template <class T>
struct SlctFlush {
  static T apply(T a, T b, float c) { return flush(c) >= 0 ? a : b; }
};

bool lower_slct(Lowering& lowering) {
  auto types = lowering.types();
  if (types.size() != 2 || lowering.operands() != 4) return false;
  int width = type_width(types[0]);
  bool real = types[1] == "f32", ftz = lowering.has("ftz");
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
  int32_t a = lowering.source(1, width, 'f'), b = lowering.source(2, width, 'f'), c = lowering.source(3, 4, 'f'),
          d = lowering.target(size_t(0), width);
  Inst& inst = lowering.emit(fn);
  inst.a = a;
  inst.b = b;
  inst.c = c;
  inst.d = d;
  return true;
}

}  // namespace

const LowerEntry kCompareOps[] = {
    {"setp", lower_setp}, {"set", lower_set}, {"selp", lower_selp}, {"slct", lower_slct}, {nullptr, nullptr}};

}  // namespace vgpu
