// LayerNorm over the last axis, one block a row; two passes, so that the variance loses no digits; plain style.
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

template <typename T>
__global__ void layernorm(const T* x, const T* weight, const T* bias, T* out, int64_t rows,
                          int64_t cols, float eps) {
  const int64_t place = static_cast<int64_t>(blockIdx.x) * (BLOCK / kTeam) + threadIdx.x / kTeam;
  if (place >= rows) return;
  const T* row = x + place * cols;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x % kTeam; i < cols; i += kTeam) sum += static_cast<float>(row[i]);
  const float mean = team_sum(sum) / static_cast<float>(cols);
  float square = 0.0f;
  for (int64_t i = threadIdx.x % kTeam; i < cols; i += kTeam) {
    const float away = static_cast<float>(row[i]) - mean;
    square += away * away;
  }
  const float rstd = rsqrtf(team_sum(square) / static_cast<float>(cols) + eps);
  for (int64_t i = threadIdx.x % kTeam; i < cols; i += kTeam) {
    const float hat = (static_cast<float>(row[i]) - mean) * rstd;
    out[place * cols + i] =
        static_cast<T>(hat * static_cast<float>(weight[i]) + static_cast<float>(bias[i]));
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
int launch(const DLTensor* x, const DLTensor* weight, const DLTensor* bias, double eps, DLTensor* out,
           cudaStream_t stream) {
  const int64_t cols = x->shape[x->ndim - 1];
  const int64_t rows = elements(x) / cols;
  const unsigned blocks = static_cast<unsigned>((rows + BLOCK / kTeam - 1) / (BLOCK / kTeam));
  layernorm<T><<<blocks, BLOCK, 0, stream>>>(data<const T>(x), data<const T>(weight), data<const T>(bias),
                                             data<T>(out), rows, cols, static_cast<float>(eps));
  return cudaGetLastError() == cudaSuccess ? 0 : 2;
}

}  // namespace

extern "C" int forward(const DLTensor* x, const DLTensor* weight, const DLTensor* bias, double eps, DLTensor* out,
                       cudaStream_t stream) {
  const DLDataType type = x->dtype;
  if (type.code == 2 && type.bits == 32) return launch<float>(x, weight, bias, eps, out, stream);
  if (type.code == 2 && type.bits == 16) return launch<__half>(x, weight, bias, eps, out, stream);
  if (type.code == 4 && type.bits == 16) return launch<__nv_bfloat16>(x, weight, bias, eps, out, stream);
  return 1;  // an element type the task does not have
}
