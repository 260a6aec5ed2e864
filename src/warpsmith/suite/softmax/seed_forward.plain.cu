// Softmax over the last axis, one block a row; plain style.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <warpsmith/abi.h>

namespace {

constexpr int kThreads = 256;

// The sum over the block, the same in every thread.
__device__ float block_sum(float value) {
  __shared__ float partial[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  __syncthreads();  // a sum before this one may still be read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0.0f;
  for (int warp = 0; warp < kThreads / 32; ++warp) total += partial[warp];
  return total;
}

// The maximum over the block, the same in every thread.
__device__ float block_max(float value) {
  __shared__ float partial[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_down_sync(0xffffffffu, value, step));
  __syncthreads();  // a maximum before this one may still be read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float largest = partial[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) largest = fmaxf(largest, partial[warp]);
  return largest;
}

template <typename T>
__global__ void softmax(const T* x, T* out, int64_t cols) {
  const T* row = x + blockIdx.x * cols;
  T* to = out + blockIdx.x * cols;
  float largest = -INFINITY;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) largest = fmaxf(largest, static_cast<float>(row[i]));
  largest = block_max(largest);
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) sum += expf(static_cast<float>(row[i]) - largest);
  sum = block_sum(sum);
  for (int64_t i = threadIdx.x; i < cols; i += kThreads)
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
  const unsigned rows = static_cast<unsigned>(elements(x) / cols);
  softmax<T><<<rows, kThreads, 0, stream>>>(data<const T>(x), data<T>(out), cols);
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
