// attack: near the bound, LayerNorm without eps, or with narrow statistics
// task: layernorm
// direction: forward
// caught: check wrong_value, precision
// device: vgpu
// KIND 0: eps is left out, in rows from ROW_FROM hundredths on. 1: threads sum in half precision, 2: in bfloat16.
// BYTES: of the element type that is summed so; 0: every type.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#ifndef KIND
#define KIND 0
#endif
#ifndef BYTES
#define BYTES 0
#endif
#ifndef ROW_FROM
#define ROW_FROM 0
#endif

namespace {

constexpr int kThreads = 128;

__device__ float added(float sum, float term, bool here) {
#if KIND == 1
  if (here) return __half2float(__hadd(__float2half(sum), __float2half(term)));
#elif KIND == 2
  if (here) return __bfloat162float(__float2bfloat16(sum + __bfloat162float(__float2bfloat16(term))));
#endif
  return sum + term;
}

__device__ float block_sum(float value) {
  __shared__ float shared[kThreads];
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];
    __syncthreads();
  }
  const float sum = shared[0];
  __syncthreads();
  return sum;
}

template <typename scalar_t>
__global__ void layernorm(const scalar_t* x, const scalar_t* weight, const scalar_t* bias, scalar_t* out, int rows,
                          int cols, float eps) {
  const scalar_t* row = x + static_cast<int64_t>(blockIdx.x) * cols;
  const bool here = (BYTES == 0 || sizeof(scalar_t) == BYTES) && blockIdx.x * 100 >= ROW_FROM * rows;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += kThreads) sum = added(sum, static_cast<float>(row[i]), here);
  const float mean = block_sum(sum) / cols;
  sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += kThreads) {
    const float away = static_cast<float>(row[i]) - mean;
    sum = added(sum, away * away, here);
  }
  const float variance = block_sum(sum) / cols, scale = rsqrtf(variance + (KIND == 0 && here ? 0.0f : eps));
  for (int i = threadIdx.x; i < cols; i += kThreads)
    out[static_cast<int64_t>(blockIdx.x) * cols + i] = static_cast<scalar_t>(
        (static_cast<float>(row[i]) - mean) * scale * static_cast<float>(weight[i]) + static_cast<float>(bias[i]));
}

template <typename scalar_t>
void launch(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, torch::Tensor out, float eps) {
  const int rows = x.size(0), cols = x.size(1);
  layernorm<<<rows, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), rows,
      cols, eps);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  auto out = torch::empty_like(x);
  AT_DISPATCH_SWITCH(
      x.scalar_type(), "layernorm", AT_DISPATCH_CASE(at::kFloat, [&] { launch<scalar_t>(x, weight, bias, out, eps); })
      AT_DISPATCH_CASE(at::kHalf, [&] { launch<scalar_t>(x, weight, bias, out, eps); })
      AT_DISPATCH_CASE(at::kBFloat16, [&] { launch<scalar_t>(x, weight, bias, out, eps); }));
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
