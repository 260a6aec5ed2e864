// Tensors made from sizes and options.
#pragma once

#include "tensor.h"

namespace c10 {

inline Tensor empty(IntArrayRef sizes, TensorOptions options = {}) { return Tensor::make(sizes, options); }
inline Tensor empty(IntArrayRef sizes, TensorOptions options, MemoryFormat format) {
  return Tensor::make(sizes, options, format);
}
inline Tensor empty_like(const Tensor& like) {
  return Tensor::make(like.sizes(), like.options(), like.suggest_memory_format());
}
inline Tensor empty_like(const Tensor& like, TensorOptions options) { return Tensor::make(like.sizes(), options); }
inline Tensor empty_like(const Tensor& like, ScalarType type) {
  return Tensor::make(like.sizes(), like.options().dtype(type));
}
inline Tensor empty_like(const Tensor& like, TensorOptions options, MemoryFormat format) {
  return Tensor::make(like.sizes(), options, format);
}
inline Tensor empty_like(const Tensor& like, MemoryFormat format) {
  return Tensor::make(like.sizes(), like.options(), format);
}
inline Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, TensorOptions options = {}) {
  return Tensor::make_strided(sizes, strides, options);
}
inline Tensor from_blob(void* data, IntArrayRef sizes, TensorOptions options = {}) {
  return Tensor::over(data, sizes, nullptr, options);
}

// torch::zeros({n}, …) is dense, so it is a memset and no kernel.
inline Tensor zeros(IntArrayRef sizes, TensorOptions options = {}) {
  Tensor made = Tensor::make(sizes, options);
  if (made.is_cuda()) warpsmith::zero_dense(*made.impl());
  return made;
}
inline Tensor zeros_like(const Tensor& like) { return zeros(like.sizes(), like.options()); }
inline Tensor zeros_like(const Tensor& like, TensorOptions options) { return zeros(like.sizes(), options); }
inline Tensor zeros_like(const Tensor& like, ScalarType type) { return zeros(like.sizes(), like.options().dtype(type)); }

template <class = void>
Tensor full(IntArrayRef sizes, Scalar value, TensorOptions options = {}) {
  return Tensor::make(sizes, options).fill_<>(value);
}
template <class = void>
Tensor full_like(const Tensor& like, Scalar value) { return full<>(like.sizes(), value, like.options()); }
template <class = void>
Tensor full_like(const Tensor& like, Scalar value, TensorOptions options) {
  return full<>(like.sizes(), value, options);
}
template <class = void>
Tensor ones(IntArrayRef sizes, TensorOptions options = {}) { return full<>(sizes, 1, options); }
template <class = void>
Tensor ones_like(const Tensor& like) { return full<>(like.sizes(), 1, like.options()); }
template <class = void>
Tensor ones_like(const Tensor& like, TensorOptions options) { return full<>(like.sizes(), 1, options); }

}  // namespace c10
