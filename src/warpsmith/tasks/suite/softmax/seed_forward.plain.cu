// Softmax over the last axis, one block a row; plain style.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <warpsmith/abi.h>

// Who works on a row. 0: a block. 1: a warp.
// tune: STRATEGY = 0 [0, 1]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [64, 128, 256, 512]
#ifndef BLOCK
#define BLOCK 256
#endif

namespace {

constexpr int kTeam = STRATEGY == 1 ? 32 : BLOCK;  // threads that share a row

// The sum over the team, the same in every thread.
__device__ float team_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
#if STRATEGY == 0
  __shared__ float partial[BLOCK / 32];
  __syncthreads();  // a sum before this one may still be read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0.0f;
  for (int warp = 0; warp < BLOCK / 32; ++warp) value += partial[warp];
#endif
  return value;
}

// The maximum over the team, the same in every thread.
__device__ float team_max(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
#if STRATEGY == 0
  __shared__ float partial[BLOCK / 32];
  __syncthreads();  // a maximum before this one may still be read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  for (int warp = 0; warp < BLOCK / 32; ++warp) value = fmaxf(value, partial[warp]);
#endif
  return value;
}

template <typename T>
__global__ void softmax(const T* x, T* out, int64_t rows, int64_t cols) {
  const int64_t place = static_cast<int64_t>(blockIdx.x) * (BLOCK / kTeam) + threadIdx.x / kTeam;
  if (place >= rows) return;
  const T* row = x + place * cols;
  T* to = out + place * cols;
  float largest = -INFINITY;
  for (int64_t i = threadIdx.x % kTeam; i < cols; i += kTeam) largest = fmaxf(largest, static_cast<float>(row[i]));
  largest = team_max(largest);
  float sum = 0.0f;
  for (int64_t i = threadIdx.x % kTeam; i < cols; i += kTeam) sum += expf(static_cast<float>(row[i]) - largest);
  sum = team_sum(sum);
  for (int64_t i = threadIdx.x % kTeam; i < cols; i += kTeam)
    to[i] = static_cast<T>(expf(static_cast<float>(row[i]) - largest) / sum);
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
int launch(const DLTensor* x, DLTensor* out, cudaStream_t stream) {
  const int64_t cols = x->shape[x->ndim - 1];
  const int64_t rows = elements(x) / cols;
  const unsigned blocks = static_cast<unsigned>((rows + BLOCK / kTeam - 1) / (BLOCK / kTeam));
  softmax<T><<<blocks, BLOCK, 0, stream>>>(data<const T>(x), data<T>(out), rows, cols);
  return cudaGetLastError() == cudaSuccess ? 0 : 2;
}

}  // namespace

extern "C" int forward(const DLTensor* x, DLTensor* out, cudaStream_t stream) {
  const DLDataType type = x->dtype;
  if (type.code == 2 && type.bits == 32) return launch<float>(x, out, stream);
  if (type.code == 2 && type.bits == 16) return launch<__half>(x, out, stream);
  if (type.code == 4 && type.bits == 16) return launch<__nv_bfloat16>(x, out, stream);
  return 1;  // an element type the task does not have
}
