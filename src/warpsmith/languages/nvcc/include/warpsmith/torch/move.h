// Moving elements: copy, convert, fill, as small kernels on the current stream. Templates, so that a source that moves
// nothing compiles none of them.
#pragma once

#include "scalar.h"
#include "storage.h"

namespace warpsmith {

// Where element number i of a traversal lies, on both sides, in elements.
struct Walk {
  int dim;
  int64_t sizes[c10::kMaxDim];
  int64_t to[c10::kMaxDim];
  int64_t from[c10::kMaxDim];

  __host__ __device__ void locate(int64_t i, int64_t& to_offset, int64_t& from_offset) const {
    to_offset = from_offset = 0;
    for (int axis = dim - 1; axis >= 0; --axis) {
      const int64_t place = i % sizes[axis];
      i /= sizes[axis];
      to_offset += place * to[axis];
      from_offset += place * from[axis];
    }
  }
};

template <class T>
__host__ __device__ void copy_one(void* to, int64_t to_offset, const void* from, int64_t from_offset) {
  static_cast<T*>(to)[to_offset] = static_cast<const T*>(from)[from_offset];
}

template <class = void>
__host__ __device__ void copy_element(int bytes, void* to, int64_t to_offset, const void* from, int64_t from_offset) {
  switch (bytes) {
    case 1: return copy_one<uint8_t>(to, to_offset, from, from_offset);
    case 2: return copy_one<uint16_t>(to, to_offset, from, from_offset);
    case 4: return copy_one<uint32_t>(to, to_offset, from, from_offset);
    default: return copy_one<uint64_t>(to, to_offset, from, from_offset);
  }
}

template <class N>
__host__ __device__ N load_as(c10::ScalarType type, const void* data, int64_t offset) {
  switch (type) {
#define WARPSMITH_LOAD(NAME, TYPE, CODE, BITS) \
  case c10::ScalarType::NAME:                  \
    return static_cast<N>(static_cast<const TYPE*>(data)[offset]);
    WARPSMITH_SCALAR_TYPES(WARPSMITH_LOAD)
#undef WARPSMITH_LOAD
    default: return N(0);
  }
}

template <class N>
__host__ __device__ void store_as(c10::ScalarType type, void* data, int64_t offset, N value) {
  switch (type) {
#define WARPSMITH_STORE(NAME, TYPE, CODE, BITS)                      \
  case c10::ScalarType::NAME:                                        \
    static_cast<TYPE*>(data)[offset] = static_cast<TYPE>(value);     \
    return;
    WARPSMITH_SCALAR_TYPES(WARPSMITH_STORE)
#undef WARPSMITH_STORE
    default: return;
  }
}

struct Ends {
  void* to;
  const void* from;
  c10::ScalarType to_type;
  c10::ScalarType from_type;
  int bytes;       // an element's, when the types agree
  bool integral;   // both sides hold integers: no rounding through double
};

template <class = void>
__host__ __device__ void move_element(const Ends& ends, const Walk& walk, int64_t i) {
  int64_t to, from;
  walk.locate(i, to, from);
  if (ends.to_type == ends.from_type)
    copy_element<>(ends.bytes, ends.to, to, ends.from, from);
  else if (ends.integral)
    store_as(ends.to_type, ends.to, to, load_as<int64_t>(ends.from_type, ends.from, from));
  else
    store_as(ends.to_type, ends.to, to, load_as<double>(ends.from_type, ends.from, from));
}

template <class = void>
__global__ void copy_elements(Ends ends, Walk walk, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    int64_t to, from;
    walk.locate(i, to, from);
    copy_element<>(ends.bytes, ends.to, to, ends.from, from);
  }
}

template <class = void>
__global__ void convert_elements(Ends ends, Walk walk, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x)
    move_element<>(ends, walk, i);
}

template <class = void>
__global__ void fill_elements(void* to, int bytes, uint64_t bits, Walk walk, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    int64_t place, unused;
    walk.locate(i, place, unused);
    copy_element<>(bytes, to, place, &bits, 0);
  }
}

inline unsigned blocks_for(int64_t count) {
  const int64_t blocks = (count + 255) / 256;
  return static_cast<unsigned>(blocks < 65535 ? blocks : 65535);
}

inline Walk walk_over(const c10::TensorImpl& to, const c10::TensorImpl& from) {
  Walk walk = {};
  walk.dim = to.dim;
  for (int i = 0; i < to.dim; ++i) {
    walk.sizes[i] = to.sizes[i];
    walk.to[i] = to.strides[i];
    walk.from[i] = from.strides[i];
  }
  return walk;
}

inline Ends ends_of(const c10::TensorImpl& to, const c10::TensorImpl& from) {
  const bool integral = c10::isIntegralType(to.type, true) && c10::isIntegralType(from.type, true);
  return {to.data, from.data, to.type, from.type, static_cast<int>(c10::elementSize(to.type)), integral};
}

// Between the host and the device: both sides dense and of one type.
inline void copy_across(const c10::TensorImpl& to, const c10::TensorImpl& from) {
  if (to.type != from.type || !to.packed() || !from.packed())
    throw c10::Error("a copy between host and device needs contiguous tensors of one dtype");
  const size_t bytes = to.count() * c10::elementSize(to.type);
  C10_CUDA_CHECK(cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDefault, current_stream()));
  C10_CUDA_CHECK(cudaStreamSynchronize(current_stream()));
}

template <class = void>
void copy_strided(const c10::TensorImpl& to, const c10::TensorImpl& from) {
  copy_elements<><<<blocks_for(to.count()), 256, 0, current_stream()>>>(ends_of(to, from), walk_over(to, from),
                                                                       to.count());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Same element type; a dense copy is the runtime's, another one is ours.
template <class = void>
void copy(const c10::TensorImpl& to, const c10::TensorImpl& from) {
  const int64_t count = to.count();
  if (count == 0) return;
  if (to.device.type() != from.device.type()) return copy_across(to, from);
  if (to.device.is_cpu()) {
    for (int64_t i = 0; i < count; ++i) move_element<>(ends_of(to, from), walk_over(to, from), i);
  } else if (to.packed() && from.packed()) {
    const size_t bytes = count * c10::elementSize(to.type);
    C10_CUDA_CHECK(cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDeviceToDevice, current_stream()));
  } else {
    copy_strided<>(to, from);
  }
}

// Another element type.
template <class = void>
void convert(const c10::TensorImpl& to, const c10::TensorImpl& from) {
  const int64_t count = to.count();
  if (to.type == from.type || to.device.type() != from.device.type() || to.device.is_cpu() || count == 0)
    return copy<>(to, from);
  convert_elements<><<<blocks_for(count), 256, 0, current_stream()>>>(ends_of(to, from), walk_over(to, from), count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <class = void>
void fill_bits(const c10::TensorImpl& to, uint64_t bits) {
  const int64_t count = to.count();
  const int bytes = static_cast<int>(c10::elementSize(to.type));
  const Walk walk = walk_over(to, to);
  if (to.device.is_cpu()) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t place, unused;
      walk.locate(i, place, unused);
      copy_element<>(bytes, to.data, place, &bits, 0);
    }
    return;
  }
  fill_elements<><<<blocks_for(count), 256, 0, current_stream()>>>(to.data, bytes, bits, walk, count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

inline void zero_dense(const c10::TensorImpl& to) {
  const size_t bytes = to.count() * c10::elementSize(to.type);
  if (bytes) C10_CUDA_CHECK(cudaMemsetAsync(to.data, 0, bytes, current_stream()));
}

template <class = void>
void fill(const c10::TensorImpl& to, c10::Scalar value) {
  if (to.count() == 0) return;
  uint64_t bits = 0;
  if (value.isIntegral())
    store_as(to.type, &bits, 0, value.toLong());
  else
    store_as(to.type, &bits, 0, value.toDouble());
  fill_bits<>(to, bits);
}

template <class = void>
void zero(const c10::TensorImpl& to) {
  if (to.device.is_cuda() && to.packed()) return zero_dense(to);
  fill_bits<>(to, 0);
}

}  // namespace warpsmith
