// Element-wise instructions as templates over a type and an operation, written so that the compiler vectorizes them.
// Operands are named as in the PTX ISA: d is the destination, a, b and c are the sources.
#pragma once

#include <type_traits>

#include "grid.h"
#include "lower.h"

namespace vgpu {

template <class T, class Op>
void unary(Warp& warp, const Inst& inst) {
  const T* a = in<T>(warp, inst.a);
  lanes<T>(warp, inst.d, [a](int lane) { return Op::apply(a[lane]); });
}

template <class T, class Op>
void binary(Warp& warp, const Inst& inst) {
  const T *a = in<T>(warp, inst.a), *b = in<T>(warp, inst.b);
  lanes<T>(warp, inst.d, [a, b](int lane) { return Op::apply(a[lane], b[lane]); });
}

template <class T, class Op>
void ternary(Warp& warp, const Inst& inst) {
  const T *a = in<T>(warp, inst.a), *b = in<T>(warp, inst.b), *c = in<T>(warp, inst.c);
  lanes<T>(warp, inst.d, [a, b, c](int lane) { return Op::apply(a[lane], b[lane], c[lane]); });
}

// d of type D from sources of one type each.
template <class D, class A, class Op>
void map1(Warp& warp, const Inst& inst) {
  const A* a = in<A>(warp, inst.a);
  lanes<D>(warp, inst.d, [a](int lane) { return Op::apply(a[lane]); });
}

template <class D, class A, class B, class Op>
void map2(Warp& warp, const Inst& inst) {
  const A* a = in<A>(warp, inst.a);
  const B* b = in<B>(warp, inst.b);
  lanes<D>(warp, inst.d, [a, b](int lane) { return Op::apply(a[lane], b[lane]); });
}

template <class D, class A, class B, class C, class Op>
void map3(Warp& warp, const Inst& inst) {
  const A* a = in<A>(warp, inst.a);
  const B* b = in<B>(warp, inst.b);
  const C* c = in<C>(warp, inst.c);
  lanes<D>(warp, inst.d, [a, b, c](int lane) { return Op::apply(a[lane], b[lane], c[lane]); });
}

// Emits one instruction with `count` sources of `width` bytes.
inline bool emit_sources(Lowering& lowering, Handler fn, int width, int count, char kind = 'b') {
  if (!fn || lowering.operands() < size_t(count) + 1) return false;
  int32_t sources[3] = {};
  for (int i = 0; i < count; ++i) sources[i] = lowering.source(size_t(i) + 1, width, kind);
  int32_t d = lowering.target(size_t(0), width, kind == 's');
  Inst& inst = lowering.emit(fn);
  inst.d = d;
  inst.a = sources[0];
  inst.b = sources[1];
  inst.c = sources[2];
  return true;
}

#define VGPU_BY_INTEGER(type, FORM, OP)                                         \
  ((type) == "s16"                      ? Handler(FORM<int16_t, OP<int16_t>>)   \
   : (type) == "u16" || (type) == "b16" ? Handler(FORM<uint16_t, OP<uint16_t>>) \
   : (type) == "s32"                    ? Handler(FORM<int32_t, OP<int32_t>>)   \
   : (type) == "u32" || (type) == "b32" ? Handler(FORM<uint32_t, OP<uint32_t>>) \
   : (type) == "s64"                    ? Handler(FORM<int64_t, OP<int64_t>>)   \
   : (type) == "u64" || (type) == "b64" ? Handler(FORM<uint64_t, OP<uint64_t>>) \
                                        : nullptr)

bool lower_integer(Lowering& lowering);  // add, sub, mul, mad, div, rem, abs, neg, min, max of integers
bool lower_half(Lowering& lowering);     // the same of f16, bf16 and their pairs

}  // namespace vgpu
