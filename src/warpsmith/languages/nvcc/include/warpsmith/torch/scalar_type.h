// Element types: the enum, its names and sizes, and the C++ type of each. Knows no tensors.
#pragma once

#include "../abi.h"
#include "float8.h"
#include "half.h"

namespace c10 {

// Numbered as torch numbers them: sources print and compare these.
enum class ScalarType : int8_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  Bool = 11,
  BFloat16 = 15,
  Float8_e5m2 = 23,
  Float8_e4m3fn = 24,
  Undefined = 44,
};

// name in C++, type in C++, DLPack code, DLPack bits
#define WARPSMITH_SCALAR_TYPES(_)  \
  _(Byte, uint8_t, 1, 8)           \
  _(Char, int8_t, 0, 8)            \
  _(Short, int16_t, 0, 16)         \
  _(Int, int32_t, 0, 32)           \
  _(Long, int64_t, 0, 64)          \
  _(Half, ::c10::Half, 2, 16)      \
  _(Float, float, 2, 32)           \
  _(Double, double, 2, 64)         \
  _(Bool, bool, 6, 8)              \
  _(BFloat16, ::c10::BFloat16, 4, 16) \
  _(Float8_e4m3fn, ::c10::Float8_e4m3fn, 10, 8) \
  _(Float8_e5m2, ::c10::Float8_e5m2, 12, 8)

template <ScalarType S>
struct CppOf;
template <class T>
struct ScalarOf {
  static_assert(sizeof(T) == 0,
                "not an element type of a tensor: use float, double, at::Half, at::BFloat16, int64_t, int32_t, "
                "int16_t, int8_t, uint8_t, bool, at::Float8_e4m3fn or at::Float8_e5m2, and reinterpret_cast the pointer for "
                "__half, __nv_bfloat16, __nv_fp8_e4m3 and __nv_fp8_e5m2");
};

#define WARPSMITH_PAIR(NAME, TYPE, CODE, BITS)                    \
  template <>                                                     \
  struct CppOf<ScalarType::NAME> {                                \
    using type = TYPE;                                            \
  };                                                              \
  template <>                                                     \
  struct ScalarOf<TYPE> {                                         \
    static constexpr ScalarType value = ScalarType::NAME;         \
  };                                                              \
  constexpr ScalarType k##NAME = ScalarType::NAME;
WARPSMITH_SCALAR_TYPES(WARPSMITH_PAIR)
#undef WARPSMITH_PAIR

constexpr ScalarType kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong;
constexpr ScalarType kFloat16 = kHalf, kFloat32 = kFloat, kFloat64 = kDouble, kF16 = kHalf, kF32 = kFloat;

template <>
struct ScalarOf<long long> {
  static constexpr ScalarType value = kLong;
};
template <class T>
struct CppTypeToScalarType : ScalarOf<T> {};

namespace impl {
template <ScalarType S>
using ScalarTypeToCPPTypeT = typename CppOf<S>::type;
template <ScalarType S>
struct ScalarTypeToCPPType : CppOf<S> {};
}  // namespace impl

inline const char* toString(ScalarType type) {
  switch (type) {
#define WARPSMITH_LABEL(NAME, TYPE, CODE, BITS) \
  case ScalarType::NAME:                       \
    return #NAME;
    WARPSMITH_SCALAR_TYPES(WARPSMITH_LABEL)
#undef WARPSMITH_LABEL
    default:
      return "Undefined";
  }
}

inline DLDataType dlpack_of(ScalarType type) {
  switch (type) {
#define WARPSMITH_CODE(NAME, TYPE, CODE, BITS) \
  case ScalarType::NAME:                       \
    return {CODE, BITS, 1};
    WARPSMITH_SCALAR_TYPES(WARPSMITH_CODE)
#undef WARPSMITH_CODE
    default:
      return {0, 0, 0};
  }
}

inline ScalarType scalar_of(DLDataType type) {
#define WARPSMITH_MATCH(NAME, TYPE, CODE, BITS) \
  if (type.code == CODE && type.bits == BITS) return ScalarType::NAME;
  WARPSMITH_SCALAR_TYPES(WARPSMITH_MATCH)
#undef WARPSMITH_MATCH
  return ScalarType::Undefined;
}

inline size_t elementSize(ScalarType type) { return dlpack_of(type).bits / 8; }

inline bool isFloat8Type(ScalarType type) { return type == kFloat8_e4m3fn || type == kFloat8_e5m2; }
inline bool isFloatingType(ScalarType type) {
  return isFloat8Type(type) || type == kFloat || type == kDouble || type == kHalf || type == kBFloat16;
}
inline bool isReducedFloatingType(ScalarType type) { return type == kHalf || type == kBFloat16; }
inline bool isIntegralType(ScalarType type, bool with_bool = false) {
  return type == kBool ? with_bool : type != ScalarType::Undefined && !isFloatingType(type);
}

// What Tensor::dtype() returns; an element type with a few questions.
struct TypeMeta {
  ScalarType type = ScalarType::Undefined;
  TypeMeta() = default;
  TypeMeta(ScalarType given) : type(given) {}
  operator ScalarType() const { return type; }
  ScalarType toScalarType() const { return type; }
  size_t itemsize() const { return elementSize(type); }
  const char* name() const { return toString(type); }
  template <class T>
  static TypeMeta Make() { return ScalarOf<T>::value; }
};

inline ScalarType typeMetaToScalarType(TypeMeta meta) { return meta.type; }
template <class T>
TypeMeta scalarTypeToTypeMeta(T type) { return type; }

}  // namespace c10

namespace caffe2 {
using TypeMeta = c10::TypeMeta;
}
