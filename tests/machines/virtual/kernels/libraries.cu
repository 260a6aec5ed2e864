// What the toolkit's own headers emit: CUB's block algorithms and the pipeline of libcu++.
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cuda/pipeline>
#include <torch/extension.h>

namespace cg = cooperative_groups;
static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }

__global__ void reduce_kernel(const int* x, int* out, int n) {
  using Reduce = cub::BlockReduce<int, 128>;
  __shared__ typename Reduce::TempStorage storage;
  int i = blockIdx.x * 128 + threadIdx.x;
  int sum = Reduce(storage).Sum(i < n ? x[i] : 0);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
torch::Tensor cub_reduce(torch::Tensor x) {
  int blocks = (x.numel() + 127) / 128;
  auto out = torch::empty({blocks}, x.options());
  reduce_kernel<<<blocks, 128, 0, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>(), x.numel());
  return out;
}

__global__ void scan_kernel(const int* x, int* out, int n) {
  using Scan = cub::BlockScan<int, 256>;
  __shared__ typename Scan::TempStorage storage;
  int items[2], total;
  for (int k = 0; k < 2; ++k) items[k] = threadIdx.x * 2 + k < n ? x[threadIdx.x * 2 + k] : 0;
  Scan(storage).InclusiveSum(items, items, total);
  for (int k = 0; k < 2; ++k)
    if (threadIdx.x * 2 + k < n) out[threadIdx.x * 2 + k] = items[k];
  if (threadIdx.x == 0) out[n] = total;
}
torch::Tensor cub_scan(torch::Tensor x) {
  auto out = torch::empty({x.numel() + 1}, x.options());
  scan_kernel<<<1, 256, 0, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>(), x.numel());
  return out;
}

// A pipeline of one thread each: no shared state, two stages.
__global__ void pipeline_kernel(const float* x, float* out, int tiles) {
  __shared__ __align__(16) float buffer[2][128];
  auto pipe = cuda::make_pipeline();
  float sum = 0;
  auto fetch = [&](int t) {
    pipe.producer_acquire();
    if (t < tiles) cuda::memcpy_async(&buffer[t % 2][threadIdx.x], x + t * 128 + threadIdx.x, sizeof(float), pipe);
    pipe.producer_commit();
  };
  fetch(0);
  for (int t = 0; t < tiles; ++t) {
    fetch(t + 1);
    cuda::pipeline_consumer_wait_prior<1>(pipe);
    __syncthreads();
    sum += buffer[t % 2][127 - threadIdx.x];
    __syncthreads();
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}
torch::Tensor cuda_pipeline(torch::Tensor x) {
  auto out = torch::empty({128}, x.options());
  pipeline_kernel<<<1, 128, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel() / 128);
  return out;
}

// A block copies together and waits together.
__global__ void group_copy_kernel(const float* x, float* out, int n) {
  extern __shared__ float tile[];
  cg::thread_block block = cg::this_thread_block();
  cg::memcpy_async(block, tile, x + blockIdx.x * n, sizeof(float) * n);
  cg::wait(block);
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = tile[n - 1 - i];
}
torch::Tensor group_copy(torch::Tensor x) {
  auto out = torch::empty_like(x);
  group_copy_kernel<<<x.size(0), 64, x.size(1) * sizeof(float), stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(),
                                                                           x.size(1));
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &cub_reduce);
  m.def("cub_reduce", &cub_reduce);
  m.def("cub_scan", &cub_scan);
  m.def("cuda_pipeline", &cuda_pipeline);
  m.def("group_copy", &group_copy);
}
