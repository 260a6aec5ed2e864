// cvt between integers and reals: every pair of types, rounding modes, saturation (PTX ISA, cvt).
#include "convert.h"

#include <limits>

namespace vgpu {

namespace {

// ---- integer to integer ----

template <class D, class A, bool Sat>
struct IntToInt {
  static D apply(A a) {
    if (!Sat) return D(a);
    using L = std::numeric_limits<D>;
    __int128 value = a;
    return value < __int128(L::min()) ? L::min() : value > __int128(L::max()) ? L::max() : D(a);
  }
};

// ---- real to integer ----

template <class D>
D to_integer(double value, Round mode, bool away) {
  (void)away;
  if (value != value) return sizeof(D) == 8 ? D(uint64_t(1) << 63) : D(0);
  double result = mode == Round::Zero   ? std::trunc(value)
                  : mode == Round::Down ? std::floor(value)
                  : mode == Round::Up   ? std::ceil(value)
                                        : std::nearbyint(value);
  double low = double(std::numeric_limits<D>::min());
  double high = double(std::numeric_limits<D>::max());
  if (result <= low) return std::numeric_limits<D>::min();
  if (result >= high) return std::numeric_limits<D>::max();
  return D(result);
}

template <class S>
struct RealIn;
template <>
struct RealIn<float> {
  using stored = float;
  static float of(float value) { return value; }
};
template <>
struct RealIn<double> {
  using stored = double;
  static double of(double value) { return value; }
};
template <>
struct RealIn<Half> {
  using stored = uint16_t;
  static float of(uint16_t value) { return to_float(Half{value}); }
};
template <>
struct RealIn<Brain> {
  using stored = uint16_t;
  static float of(uint16_t value) { return to_float(Brain{value}); }
};

template <class D, class A>
void real_to_int(Warp& warp, const Inst& inst) {
  const auto* a = in<typename RealIn<A>::stored>(warp, inst.a);
  Round mode = mode_of(inst);
  bool ftz = inst.imm & kFtzBit;
  using Stored = std::conditional_t<sizeof(D) == 1, std::conditional_t<std::is_signed_v<D>, int16_t, uint16_t>, D>;
  Stored* target = out<Stored>(warp, inst.d);
  each(warp.mask, [&](int lane) {
    auto value = RealIn<A>::of(a[lane]);
    if (ftz && sizeof(value) == 4) value = flush(float(value));
    // PTX ISA, cvt: NaN converts to 0, and to 2^63 for 64-bit targets.
    target[lane] = Stored(to_integer<D>(double(value), mode, false));
  });
}

// Vectorizable form of f32 to s32, the conversion that kernels use most.
template <bool Nearest>
struct FloatToS32 {
  static int32_t apply(float a) {
    float result = Nearest ? std::nearbyint(a) : std::trunc(a);
    float clamped = result < -2147483648.0f ? -2147483648.0f : result;
    int32_t value = int32_t(clamped >= 2147483648.0f ? 0.0f : clamped);
    value = clamped >= 2147483648.0f ? INT32_MAX : value;
    return a != a ? 0 : value;
  }
};

// ---- integer to real ----

template <class T>
T keep_in_order(T value) {
  asm volatile("" : "+x"(value));
  return value;
}

// Converts an integer to a float with round-to-odd, for 16-bit targets.
template <class A>
float odd_float(A a) {
  double big = double(a);  // exact below 2^53; larger integers need the sticky bit
  if (sizeof(A) == 8 && big == big) {
    __int128 back = __int128(big), exact = a;
    if (back != exact) {
      uint64_t bits = bit_copy<uint64_t>(big);
      bool above = (back < 0 ? -back : back) > (exact < 0 ? -exact : exact);
      big = bit_copy<double>((bits - uint64_t(above)) | 1);
    }
  }
  return to_odd(big);
}

template <class D, class A>
void int_to_real(Warp& warp, const Inst& inst) {
  const A* a = in<A>(warp, inst.a);
  Round mode = mode_of(inst);
  if constexpr (std::is_same_v<D, Half> || std::is_same_v<D, Brain>) {
    uint16_t* d = out<uint16_t>(warp, inst.d);
    each(warp.mask, [&](int lane) {
      float value = odd_float(a[lane]);
      d[lane] = Narrow<D>::apply(inst.imm & kSatBit ? saturate(value) : value, mode);
    });
  } else if (mode == Round::Nearest) {
    lanes<D>(warp, inst.d, [a](int lane) { return D(a[lane]); });
  } else {
    D* d = out<D>(warp, inst.d);
    RoundingMode guard(mode);
    each(warp.mask, [&](int lane) {
      A value = a[lane];
      asm volatile("" : "+r"(value));
      d[lane] = keep_in_order(D(value));
    });
  }
  if (inst.imm & kSatBit) {
    if constexpr (std::is_floating_point_v<D>) {
      D* d = out<D>(warp, inst.d);
      each(warp.mask, [&](int lane) { d[lane] = saturate(d[lane]); });
    }
  }
}

// ---- real to real ----

template <class T>
T rounded(T value, Round mode) {
  return mode == Round::Zero   ? std::trunc(value)
         : mode == Round::Down ? std::floor(value)
         : mode == Round::Up   ? std::ceil(value)
                               : std::nearbyint(value);
}

constexpr int64_t kIntegralBit = 128;  // .rni, .rzi, .rmi, .rpi between reals

template <class D, class A>
void real_to_real(Warp& warp, const Inst& inst) {
  const auto* a = in<typename RealIn<A>::stored>(warp, inst.a);
  Round mode = mode_of(inst);
  bool ftz = inst.imm & kFtzBit, sat = inst.imm & kSatBit, relu = inst.imm & kReluBit,
       integral = inst.imm & kIntegralBit;
  auto source = [&](int lane) {
    auto value = RealIn<A>::of(a[lane]);
    if constexpr (std::is_same_v<A, float>)
      if (ftz) value = flush(value);
    if (integral) value = rounded(value, mode);
    return value;
  };
  if constexpr (std::is_same_v<D, Half> || std::is_same_v<D, Brain>) {
    uint16_t* d = out<uint16_t>(warp, inst.d);
    each(warp.mask, [&](int lane) {
      auto value = source(lane);
      if (relu && value < 0) value = 0;
      if (sat) value = saturate(value);
      float single;
      if constexpr (std::is_same_v<A, double>) single = to_odd(value);
      else single = value;
      d[lane] = finite<D>(Narrow<D>::apply(single, integral ? Round::Nearest : mode), inst.imm & kFiniteBit);
    });
  } else {
    D* d = out<D>(warp, inst.d);
    bool directed = sizeof(D) < sizeof(source(0)) && mode != Round::Nearest && !integral;
    RoundingMode guard(directed ? mode : Round::Nearest);
    each(warp.mask, [&](int lane) {
      D value = D(keep_in_order(source(lane)));
      value = keep_in_order(value);
      if constexpr (sizeof(D) == 4)
        if (ftz) value = flush(value);
      d[lane] = sat ? saturate(value) : canonical(value);
    });
  }
}

// ---- tables ----

template <class D, class A>
Handler int_pair(bool sat) {
  return sat ? Handler(map1<D, A, IntToInt<D, A, true>>) : Handler(map1<D, A, IntToInt<D, A, false>>);
}

template <class A>
Handler int_from(const std::string& to, bool sat) {
  return find_handler({{"u16", int_pair<uint16_t, A>(sat)},
                       {"s16", int_pair<int16_t, A>(sat)},
                       {"u32", int_pair<uint32_t, A>(sat)},
                       {"s32", int_pair<int32_t, A>(sat)},
                       {"u64", int_pair<uint64_t, A>(sat)},
                       {"s64", int_pair<int64_t, A>(sat)}},
                      to);
}

// 8-bit targets are stored in 16-bit registers.
template <class D8, class D16, class A, bool Sat>
struct ToByte {
  static D16 apply(A a) { return D16(IntToInt<D8, A, Sat>::apply(a)); }
};
template <class A>
Handler byte_from(bool is_signed, bool sat) {
  if (is_signed)
    return sat ? Handler(map1<int16_t, A, ToByte<int8_t, int16_t, A, true>>)
               : Handler(map1<int16_t, A, ToByte<int8_t, int16_t, A, false>>);
  return sat ? Handler(map1<uint16_t, A, ToByte<uint8_t, uint16_t, A, true>>)
             : Handler(map1<uint16_t, A, ToByte<uint8_t, uint16_t, A, false>>);
}

// 8-bit sources are the low byte of a 16-bit register.
template <class A8>
void low_byte(Warp& warp, const Inst& inst) {
  const uint16_t* a = in<uint16_t>(warp, inst.a);
  using R = std::conditional_t<std::is_signed_v<A8>, int16_t, uint16_t>;
  lanes<R>(warp, inst.d, [a](int lane) { return R(A8(a[lane])); });
}

Handler int_to_int(const std::string& to, const std::string& from, bool sat) {
  bool byte = to == "u8" || to == "s8";
  return find_handler({{"u16", byte ? byte_from<uint16_t>(to == "s8", sat) : int_from<uint16_t>(to, sat)},
                       {"s16", byte ? byte_from<int16_t>(to == "s8", sat) : int_from<int16_t>(to, sat)},
                       {"u32", byte ? byte_from<uint32_t>(to == "s8", sat) : int_from<uint32_t>(to, sat)},
                       {"s32", byte ? byte_from<int32_t>(to == "s8", sat) : int_from<int32_t>(to, sat)},
                       {"u64", byte ? byte_from<uint64_t>(to == "s8", sat) : int_from<uint64_t>(to, sat)},
                       {"s64", byte ? byte_from<int64_t>(to == "s8", sat) : int_from<int64_t>(to, sat)}},
                      from);
}

template <class A>
Handler int_from_real(const std::string& to) {
  return find_handler({{"u8", real_to_int<uint8_t, A>},
                       {"s8", real_to_int<int8_t, A>},
                       {"u16", real_to_int<uint16_t, A>},
                       {"s16", real_to_int<int16_t, A>},
                       {"u32", real_to_int<uint32_t, A>},
                       {"s32", real_to_int<int32_t, A>},
                       {"u64", real_to_int<uint64_t, A>},
                       {"s64", real_to_int<int64_t, A>}},
                      to);
}

template <class D>
Handler real_from_int(const std::string& from) {
  return find_handler({{"u16", int_to_real<D, uint16_t>},
                       {"s16", int_to_real<D, int16_t>},
                       {"u32", int_to_real<D, uint32_t>},
                       {"s32", int_to_real<D, int32_t>},
                       {"u64", int_to_real<D, uint64_t>},
                       {"s64", int_to_real<D, int64_t>}},
                      from);
}

template <class D>
Handler real_from_real(const std::string& from) {
  return find_handler({{"f16", real_to_real<D, Half>},
                       {"bf16", real_to_real<D, Brain>},
                       {"f32", real_to_real<D, float>},
                       {"f64", real_to_real<D, double>}},
                      from);
}

bool is_real(const std::string& type) { return type == "f16" || type == "bf16" || type == "f32" || type == "f64"; }

Handler find(const std::string& to, const std::string& from, bool sat) {
  bool dr = is_real(to), ar = is_real(from);
  if (!dr && !ar) return int_to_int(to, from, sat);
  if (!dr)
    return from == "f16"    ? int_from_real<Half>(to)
           : from == "bf16" ? int_from_real<Brain>(to)
           : from == "f32"  ? int_from_real<float>(to)
                            : int_from_real<double>(to);
  if (!ar)
    return to == "f16"    ? real_from_int<Half>(from)
           : to == "bf16" ? real_from_int<Brain>(from)
           : to == "f32"  ? real_from_int<float>(from)
                          : real_from_int<double>(from);
  return to == "f16"    ? real_from_real<Half>(from)
         : to == "bf16" ? real_from_real<Brain>(from)
         : to == "f32"  ? real_from_real<float>(from)
                        : real_from_real<double>(from);
}

// Returns the class that compute capability 9.0 executes a conversion in: halves are shifted, packed or added to zero,
// and integers of at most 32 bits to f32 have a fast form.
Class kind_of(const std::vector<std::string>& types) {
  if (types.size() != 2) return Class::Int;  // cvt.pack
  const std::string &to = types[0], &from = types[1];
  auto real = [](const std::string& type) {
    return type[0] == 'f' || type[0] == 'b' || type[0] == 't' || type[0] == 'e';
  };
  auto wide = [](const std::string& type) { return type == "f64" || type[0] == 'e'; };
  if (from == "f16" && to == "f32") return Class::Fp16;
  if (!real(from) && !real(to)) return Class::Int;
  bool rounded = from == to && real(from);
  bool fast =
      real(to) && !wide(from) && !wide(to) && !rounded && (real(from) || (to == "f32" && type_width(from) <= 4));
  return fast ? Class::Int : Class::Convert;
}

bool lower_cvt(Lowering& lowering) {
  lowering.kind = kind_of(lowering.types());
  bool packed = false;
  bool lowered = lower_packed_convert(lowering, &packed);
  if (packed) return lowered;
  auto types = lowering.types();
  if (types.size() != 2 || lowering.operands() < 2) return false;
  std::string to = types[0], from = types[1];
  Rounding round = rounding(lowering);
  int64_t modifiers = int64_t(round.mode) | (lowering.has("ftz") ? kFtzBit : 0) | (lowering.has("sat") ? kSatBit : 0) |
                      (lowering.has("relu") ? kReluBit : 0);
  int aw = type_width(from), dw = type_width(to);
  int32_t source = lowering.source(1, aw, from[0]);
  if (from == "u8" || from == "s8") {
    Inst& low_byte_inst = lowering.emit(from == "u8" ? low_byte<uint8_t> : low_byte<int8_t>);
    low_byte_inst.a = source;
    low_byte_inst.d = lowering.temporary(2);
    source = low_byte_inst.d;
    from = from == "u8" ? "u16" : "s16";
  }
  bool dr = is_real(to), ar = is_real(from);
  Handler fn = find(to, from, lowering.has("sat"));
  if (dr && ar && round.integral) modifiers |= kIntegralBit;
  if (dr && dw == 2 && ar && lowering.has("satfinite")) modifiers |= kFiniteBit;
  if (to == "s32" && from == "f32" && !lowering.has("ftz") &&
      (round.mode == Round::Nearest || round.mode == Round::Zero))
    fn =
        round.mode == Round::Nearest ? map1<int32_t, float, FloatToS32<true>> : map1<int32_t, float, FloatToS32<false>>;
  int32_t target = lowering.target(size_t(0), dw, to[0] == 's');
  Inst& inst = lowering.emit(fn);
  inst.a = source;
  inst.d = target;
  inst.imm = modifiers;
  return true;
}

}  // namespace

const LowerEntry kConvertOps[] = {{"cvt", lower_cvt}, {nullptr, nullptr}};

}  // namespace vgpu
