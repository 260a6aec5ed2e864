// control: more than 48 KiB of shared memory
// task: llama_rmsnorm
// direction: forward
// device: vgpu
// A row is kept in dynamic shared memory of 96 KiB, which has to be asked for.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <c10/cuda/CUDAException.h>

#define EACH_TYPE(TENSOR, ...)                                   \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), "kernel",           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)   \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)    \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kBytes = 96 << 10;

template <typename T>
__global__ void rmsnorm(const T* x, const T* weight, T* out, int cols, float eps) {
  extern __shared__ float row[];
  __shared__ float total[32];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += 128) {
    const float value = static_cast<float>(x[static_cast<int64_t>(blockIdx.x) * cols + i]);
    if (i < kBytes / 4) row[i] = value;
    sum += value * value;
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) total[threadIdx.x / 32] = sum;
  __syncthreads();
  const float scale = rsqrtf((total[0] + total[1] + total[2] + total[3]) / cols + eps);
  for (int i = threadIdx.x; i < cols; i += 128) {
    const int64_t place = static_cast<int64_t>(blockIdx.x) * cols + i;
    const float value = i < kBytes / 4 ? row[i] : static_cast<float>(x[place]);
    out[place] = static_cast<T>(value * scale * static_cast<float>(weight[i]));
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double eps) {
  auto out = torch::empty_like(x);
  const int cols = x.size(-1), rows = x.numel() / cols;
  EACH_TYPE(x, [&] {
    C10_CUDA_CHECK(cudaFuncSetAttribute(rmsnorm<scalar_t>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    rmsnorm<<<rows, 128, kBytes,
        at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(),
                                                                     out.data_ptr<scalar_t>(), cols,
                                                                         static_cast<float>(eps));
  });
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
