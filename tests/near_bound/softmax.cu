// attack: near the bound, softmax whose threads sum in a 16-bit type
// task: softmax
// direction: forward
// caught: check wrong_value, precision
// device: vgpu
// Every thread's own sum is in half precision (KIND 1) or bfloat16 (KIND 2); what THREADS threads have is added in
// float32. BYTES: of the element type that is summed so; 0: every type. ROW_FROM: hundredths of the rows that are not.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#ifndef KIND
#define KIND 1
#endif
#ifndef THREADS
#define THREADS 128
#endif
#ifndef BYTES
#define BYTES 2
#endif
#ifndef ROW_FROM
#define ROW_FROM 0
#endif

namespace {

__device__ float added(float sum, float term) {
#if KIND == 1
  return __half2float(__hadd(__float2half(sum), __float2half(term)));
#else
  return __bfloat162float(__float2bfloat16(sum + __bfloat162float(__float2bfloat16(term))));
#endif
}

template <typename scalar_t>
__global__ void softmax(const scalar_t* x, scalar_t* out, int rows, int cols) {
  __shared__ float shared[THREADS];
  const scalar_t* row = x + static_cast<int64_t>(blockIdx.x) * cols;
  const bool here = (BYTES == 0 || sizeof(scalar_t) == BYTES) && blockIdx.x * 100 >= ROW_FROM * rows;
  float largest = -INFINITY;
  for (int i = threadIdx.x; i < cols; i += THREADS) largest = fmaxf(largest, static_cast<float>(row[i]));
  shared[threadIdx.x] = largest;
  __syncthreads();
  for (int step = THREADS / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + step]);
    __syncthreads();
  }
  largest = shared[0];
  __syncthreads();
  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += THREADS) {
    const float term = expf(static_cast<float>(row[i]) - largest);
    sum = here ? added(sum, term) : sum + term;
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int step = THREADS / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];
    __syncthreads();
  }
  const float scale = 1.0f / shared[0];
  for (int i = threadIdx.x; i < cols; i += THREADS)
    out[static_cast<int64_t>(blockIdx.x) * cols + i] =
        static_cast<scalar_t>(expf(static_cast<float>(row[i]) - largest) * scale);
}

template <typename scalar_t>
void launch(torch::Tensor x, torch::Tensor out) {
  const int rows = x.size(0), cols = x.size(1);
  softmax<<<rows, THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), rows,
                                                                  cols);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x) {
  auto out = torch::empty_like(x);
  AT_DISPATCH_SWITCH(x.scalar_type(), "softmax", AT_DISPATCH_CASE(at::kFloat, [&] { launch<scalar_t>(x, out); })
                     AT_DISPATCH_CASE(at::kHalf, [&] { launch<scalar_t>(x, out); })
                     AT_DISPATCH_CASE(at::kBFloat16, [&] { launch<scalar_t>(x, out); }));
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
