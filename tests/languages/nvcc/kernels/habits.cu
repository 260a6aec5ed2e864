// What language models write by habit around a kernel: standard headers, helpers, a check macro of their own.
#include <torch/extension.h>

#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#define CUDA_CHECK(call)                                                                              \
  do {                                                                                                \
    cudaError_t err = (call);                                                                         \
    if (err != cudaSuccess) {                                                                         \
      fprintf(stderr, "CUDA error %s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err));         \
      throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(err));                      \
    }                                                                                                 \
  } while (0)

constexpr int kThreads = 256;
__constant__ float table[16];
static __device__ float counter;

template <typename T, int VEC>
struct alignas(sizeof(T) * VEC) Pack {
  T value[VEC];
};

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
  return v;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) reduce(const T* __restrict__ x, float* __restrict__ y, int64_t n) {
  extern __shared__ char raw[];
  float* part = reinterpret_cast<float*>(raw);
  float sum = 0.0f;
  const int64_t packs = n / 4;
  const auto* wide = reinterpret_cast<const Pack<T, 4>*>(x);
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < packs; i += gridDim.x * blockDim.x) {
    Pack<T, 4> got = wide[i];
#pragma unroll
    for (int j = 0; j < 4; ++j) sum += static_cast<float>(got.value[j]);
  }
  sum = warp_sum(sum);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.0f;
    sum = warp_sum(sum);
    if (threadIdx.x == 0) atomicAdd(y, sum + table[0] + counter);
  }
}

torch::Tensor forward(const torch::Tensor& input, const c10::optional<torch::Tensor>& weight, const double eps) {
  TORCH_CHECK(input.device().type() == torch::kCUDA, "input must be on CUDA, is on ", input.device());
  TORCH_CHECK(input.dtype() == torch::kFloat32 || input.dtype() == torch::kFloat16, "bad dtype ", input.dtype());
  auto x = input.contiguous();
  auto out = torch::zeros({1}, torch::TensorOptions().dtype(torch::kFloat32).device(input.device()));
  if (weight.has_value() && weight->defined()) TORCH_CHECK(weight.value().size(0) == input.size(-1), "sizes");
  const int blocks = std::min<int64_t>((x.numel() + kThreads - 1) / kThreads, 1024);
  std::unordered_map<std::string, int> sizes{{"blocks", blocks}};
  std::ostringstream text;
  text << "launching " << sizes["blocks"] << std::endl;
  if (blocks < 0) std::cout << text.str();
  static bool once = false;
  if (!once) {
    float host[16] = {0};
    CUDA_CHECK(cudaMemcpyToSymbol(table, host, sizeof(host)));
    CUDA_CHECK(cudaFuncSetAttribute(reduce<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, 4096));
    once = true;
  }
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "reduce", ([&] {
    reduce<scalar_t><<<blocks, kThreads, kThreads / 32 * sizeof(float), stream>>>(x.data_ptr<scalar_t>(), out.data_ptr<float>(), x.numel());
  }));
  cudaError_t err = cudaGetLastError();
  TORCH_CHECK(err == cudaSuccess, "launch failed: ", cudaGetErrorString(err));
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "sum (CUDA)", py::arg("input"), py::arg("weight") = py::none(), py::arg("eps") = 1e-5);
}
