// silu(gate) * up, one thread an element; plain style.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <warpsmith/abi.h>

// How many blocks there are. 0: one element a thread. 1: as many as fill the GPU at once, which loop.
// tune: STRATEGY = 0 [0, 1]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [64, 128, 256, 512]
#ifndef BLOCK
#define BLOCK 256
#endif

namespace {

// 1056: eight for each of an H200's 132 multiprocessors.
constexpr int64_t kMostBlocks = STRATEGY == 1 ? 1056 : 1 << 20;

// Blocks for a grid-stride loop over `count` items.
int blocks_for(int64_t count) {
  const int64_t blocks = (count + BLOCK - 1) / BLOCK;
  return static_cast<int>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

template <typename T>
__global__ void swiglu(const T* gate, const T* up, T* out, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float g = static_cast<float>(gate[i]);
    out[i] = static_cast<T>(g / (1.0f + expf(-g)) * static_cast<float>(up[i]));
  }
}

template <typename T>
T* data(const DLTensor* tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

int64_t elements(const DLTensor* tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
  return count;
}

template <typename T>
int launch(const DLTensor* gate, const DLTensor* up, DLTensor* out, cudaStream_t stream) {
  const int64_t count = elements(gate);
  swiglu<T><<<blocks_for(count), BLOCK, 0, stream>>>(data<const T>(gate), data<const T>(up), data<T>(out), count);
  return cudaGetLastError() == cudaSuccess ? 0 : 2;
}

}  // namespace

extern "C" int forward(const DLTensor* gate, const DLTensor* up, DLTensor* out, cudaStream_t stream) {
  const DLDataType type = gate->dtype;
  if (type.code == 2 && type.bits == 32) return launch<float>(gate, up, out, stream);
  if (type.code == 2 && type.bits == 16) return launch<__half>(gate, up, out, stream);
  if (type.code == 4 && type.bits == 16) return launch<__nv_bfloat16>(gate, up, out, stream);
  return 1;  // an element type the task does not have
}
