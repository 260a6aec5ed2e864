// Cooperative groups, inline PTX, tensor cores by wmma and wgmma, and TMA through the caller's tensor maps.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda.h>
#include <mma.h>
#include <torch/extension.h>
#include <warpsmith/tensor_map.h>

namespace cg = cooperative_groups;

__global__ void grouped(float* x, int n) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  const int i = block.group_index().x * blockDim.x + block.thread_rank();
  float value = i < n ? x[i] : 0.f;
  value = cg::reduce(warp, value, cg::plus<float>());
  block.sync();
  if (i < n) x[i] = value + warp.shfl(value, 0);
}

__global__ void across(float* x) {
  cg::grid_group grid = cg::this_grid();
  x[grid.thread_rank()] += 1.f;
  grid.sync();
}

__global__ void products(const __half* a, const __half* b, float* c) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.f);
  wmma::load_matrix_sync(left, a, 16);
  wmma::load_matrix_sync(right, b, 16);
  wmma::mma_sync(sum, left, right, sum);
  wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

__global__ void wide_products(float* out, unsigned long long left, unsigned long long right) {
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
  asm volatile(
      "{\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(left), "l"(right));
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}

__global__ void tiled(const __grid_constant__ CUtensorMap map, float* out) {
  __shared__ alignas(128) float tile[64];
  __shared__ unsigned long long arrived;
  const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(&arrived));
  const unsigned into = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar));
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" ::"r"(bar));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(into),
                 "l"(&map), "r"(0), "r"(0), "r"(bar)
                 : "memory");
  }
  __syncthreads();
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared.b64 done, [%0], 0;\n@!done bra again;\n}\n" ::"r"(bar));
  out[threadIdx.x] = tile[threadIdx.x];
}

torch::Tensor forward(torch::Tensor x) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  auto out = torch::zeros({8, 8}, x.options());
  const uint64_t sizes[] = {8, 8}, strides[] = {8 * sizeof(float)};
  const uint32_t box[] = {8, 8}, steps[] = {1, 1};
  const CUtensorMap map = warpsmith::encode_tiled({CU_TENSOR_MAP_DATA_TYPE_FLOAT32}, 2, x.data_ptr(), sizes, strides, box, steps);
  tiled<<<1, 64, 0, stream>>>(map, out.data_ptr<float>());
  grouped<<<1, 64, 0, stream>>>(out.data_ptr<float>(), 64);
  float* data = out.data_ptr<float>();
  void* arguments[] = {&data};
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel(across, dim3(1), dim3(64), arguments, 0, stream));
  if (x.numel() == 0) wide_products<<<1, 128, 0, stream>>>(data, 0, 0);  // its descriptors describe nothing
  auto h = torch::zeros({16, 16}, x.options().dtype(torch::kHalf)), c = torch::zeros({16, 16}, x.options());
  products<<<1, 32, 0, stream>>>(reinterpret_cast<const __half*>(h.data_ptr<at::Half>()),
                                 reinterpret_cast<const __half*>(h.data_ptr<at::Half>()), c.data_ptr<float>());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
