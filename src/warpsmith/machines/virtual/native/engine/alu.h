// Element-wise instructions as templates over a type and an operation, for the compiler to vectorise.
#pragma once

#include <type_traits>

#include "grid.h"
#include "lower.h"

namespace vgpu {

template <class T, class Op>
void unary(Warp& w, const Inst& i) {
  const T* a = in<T>(w, i.a);
  lanes<T>(w, i.d, [a](int l) { return Op::f(a[l]); });
}

template <class T, class Op>
void binary(Warp& w, const Inst& i) {
  const T *a = in<T>(w, i.a), *b = in<T>(w, i.b);
  lanes<T>(w, i.d, [a, b](int l) { return Op::f(a[l], b[l]); });
}

template <class T, class Op>
void ternary(Warp& w, const Inst& i) {
  const T *a = in<T>(w, i.a), *b = in<T>(w, i.b), *c = in<T>(w, i.c);
  lanes<T>(w, i.d, [a, b, c](int l) { return Op::f(a[l], b[l], c[l]); });
}

// d of type D from sources of one type each.
template <class D, class A, class Op>
void map1(Warp& w, const Inst& i) {
  const A* a = in<A>(w, i.a);
  lanes<D>(w, i.d, [a](int l) { return Op::f(a[l]); });
}

template <class D, class A, class B, class Op>
void map2(Warp& w, const Inst& i) {
  const A* a = in<A>(w, i.a);
  const B* b = in<B>(w, i.b);
  lanes<D>(w, i.d, [a, b](int l) { return Op::f(a[l], b[l]); });
}

template <class D, class A, class B, class C, class Op>
void map3(Warp& w, const Inst& i) {
  const A* a = in<A>(w, i.a);
  const B* b = in<B>(w, i.b);
  const C* c = in<C>(w, i.c);
  lanes<D>(w, i.d, [a, b, c](int l) { return Op::f(a[l], b[l], c[l]); });
}

// Emits one instruction with n sources of `width` bytes.
inline bool emit_sources(Lowering& l, Handler fn, int width, int n, char kind = 'b') {
  if (!fn || l.operands() < size_t(n) + 1) return false;
  int32_t s[3] = {};
  for (int i = 0; i < n; ++i) s[i] = l.source(size_t(i) + 1, width, kind);
  int32_t d = l.target(size_t(0), width, kind == 's');
  Inst& inst = l.emit(fn);
  inst.d = d;
  inst.a = s[0];
  inst.b = s[1];
  inst.c = s[2];
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

bool lower_integer(Lowering& l);  // add, sub, mul, mad, div, rem, abs, neg, min, max of integers
bool lower_half(Lowering& l);     // the same of f16, bf16 and their pairs

}  // namespace vgpu
