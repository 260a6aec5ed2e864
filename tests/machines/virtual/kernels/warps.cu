// What the lanes of a warp say to each other, and how they part and meet again.
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <torch/extension.h>

namespace cg = cooperative_groups;
static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }
constexpr unsigned kAll = 0xffffffffu;

// One warp, one column a question.
__global__ void vote_kernel(const int* x, int* out) {
  int v = x[blockIdx.x * 32 + threadIdx.x], whole = 0;
  int* row = out + (blockIdx.x * 32 + threadIdx.x) * 12;
  row[0] = __ballot_sync(kAll, v > 0);
  row[1] = __any_sync(kAll, v == 3);
  row[2] = __all_sync(kAll, v < 90);
  row[3] = __match_any_sync(kAll, v);
  row[4] = __match_all_sync(kAll, v >> 8, &whole);
  row[5] = whole;
  row[6] = __reduce_add_sync(kAll, v);
  row[7] = __reduce_min_sync(kAll, v);
  row[8] = __reduce_max_sync(kAll, static_cast<unsigned>(v));
  row[9] = __reduce_and_sync(kAll, v);
  row[10] = __reduce_or_sync(kAll, v);
  row[11] = __reduce_xor_sync(kAll, v);
}

__global__ void shuffle_kernel(const int* x, int* out) {
  int v = x[threadIdx.x];
  int* row = out + threadIdx.x * 8;
  row[0] = __shfl_sync(kAll, v, 5);
  row[1] = __shfl_sync(kAll, v, threadIdx.x * 3, 8);
  row[2] = __shfl_up_sync(kAll, v, 3);
  row[3] = __shfl_down_sync(kAll, v, 7);
  row[4] = __shfl_xor_sync(kAll, v, 11);
  row[5] = __shfl_up_sync(kAll, v, 2, 4);
  double wide = __shfl_xor_sync(kAll, v * 1e6 + 0.5, 1);
  row[6] = __double2loint(wide);
  row[7] = __double2hiint(wide);
}

// Shuffles among the lanes of a smaller mask, in both sides of a branch.
__global__ void masked_kernel(const int* x, int* out) {
  int lane = threadIdx.x, v = x[lane];
  if (lane % 2) {
    for (int d = 2; d < 32; d *= 2) v += __shfl_xor_sync(0xaaaaaaaau, v, d);
  } else {
    for (int d = 2; d < 32; d *= 2) v = max(v, __shfl_xor_sync(0x55555555u, v, d));
  }
  __syncwarp();
  out[lane] = v * 100 + __popc(__ballot_sync(kAll, v > 0));
}

template <int kSize>
__device__ int tile_answers(const cg::thread_block& block, int v) {
  auto tile = cg::tiled_partition<kSize>(block);
  int sum = cg::reduce(tile, v, cg::plus<int>()), most = cg::reduce(tile, v, cg::greater<int>());
  int before = cg::exclusive_scan(tile, v), first = tile.shfl(v, 0);
  return sum + 3 * most + 5 * before + 7 * first + 11 * tile.thread_rank() + 13 * tile.meta_group_rank() + tile.any(v > 50);
}
__global__ void tile_kernel(const int* x, int* out) {
  cg::thread_block block = cg::this_thread_block();
  int i = block.group_index().x * block.size() + block.thread_rank(), n = gridDim.x * blockDim.x;
  out[i] = tile_answers<32>(block, x[i]);
  out[n + i] = tile_answers<16>(block, x[i]);
  out[2 * n + i] = tile_answers<4>(block, x[i]);
}

// One atomic a warp: the lanes that are here elect a leader and share out its ticket.
__global__ void filter_kernel(const int* x, int* out, int* count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || x[i] <= 0) return;
  cg::coalesced_group here = cg::coalesced_threads();
  int base = 0;
  if (here.thread_rank() == 0) base = atomicAdd(count, static_cast<int>(here.size()));
  out[here.shfl(base, 0) + here.thread_rank()] = x[i];
}

// Loops of different length in one warp; the lanes meet before they vote.
__global__ void divergent_kernel(const int* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned v = i < n ? x[i] : 1;
  int steps = 0;
  while (v != 1 && steps < 500) {
    v = v & 1 ? 3 * v + 1 : v / 2;
    if (v % 16 == 9) continue;
    ++steps;
  }
  __syncwarp();
  int longest = __reduce_max_sync(kAll, steps);
  if (i < n) out[i] = steps * 1000 + longest;
}

// Whole warps leave at once, single lanes leave one by one; the rest goes on.
__global__ void early_kernel(const int* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, warp = threadIdx.x / 32;
  if (i >= n) return;
  if (warp == 1) {
    out[i] = -1;
    return;
  }
  if (x[i] < 0) {
    out[i] = -2;
    return;
  }
  int v = x[i];
  for (int k = 0; k < 8; ++k) {
    if (v > 1000) {
      out[i] = -3 - k;
      return;
    }
    v = v * 2 + 1;
  }
  out[i] = v;
}

__global__ void warp_scan_kernel(const float* x, float* out) {
  int lane = threadIdx.x & 31, i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  for (int offset = 1; offset < 32; offset *= 2) {
    float up = __shfl_up_sync(kAll, v, offset);
    if (lane >= offset) v += up;
  }
  out[i] = v;
}

__global__ void register_kernel(int* out) {
  int* row = out + (blockIdx.x * blockDim.x + threadIdx.x) * 6;
  asm("mov.u32 %0, %%laneid;" : "=r"(row[0]));
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(row[1]));
  asm("mov.u32 %0, %%lanemask_ge;" : "=r"(row[2]));
  row[3] = warpSize;
  row[4] = blockDim.x * 1000 + gridDim.x;
  row[5] = threadIdx.x * 1000 + blockIdx.x;
}

template <void (*kKernel)(const int*, int*), int kColumns>
torch::Tensor one_row_a_lane(torch::Tensor x) {
  auto out = torch::empty({x.numel(), kColumns}, x.options());
  kKernel<<<x.numel() / 32, 32, 0, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>());
  return out;
}
torch::Tensor cooperative_tiles(torch::Tensor x) {
  auto out = torch::empty({3, x.numel()}, x.options());
  tile_kernel<<<x.numel() / 64, 64, 0, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>());
  return out;
}
std::vector<torch::Tensor> coalesced_filter(torch::Tensor x) {
  auto out = torch::zeros_like(x), count = torch::zeros({1}, x.options());
  filter_kernel<<<(x.numel() + 127) / 128, 128, 0, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>(),
                                                               count.data_ptr<int>(), x.numel());
  return {out, count};
}
template <void (*kKernel)(const int*, int*, int)>
torch::Tensor one_a_thread(torch::Tensor x) {
  auto out = torch::empty_like(x);
  kKernel<<<(x.numel() + 95) / 96, 96, 0, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>(), x.numel());
  return out;
}
torch::Tensor warp_scan(torch::Tensor x) {
  auto out = torch::empty_like(x);
  warp_scan_kernel<<<x.numel() / 64, 64, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>());
  return out;
}
torch::Tensor special_registers(torch::Tensor like) {
  auto out = torch::empty({80, 6}, like.options());
  register_kernel<<<2, 40, 0, stream()>>>(out.data_ptr<int>());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &one_row_a_lane<vote_kernel, 12>);
  m.def("votes", &one_row_a_lane<vote_kernel, 12>);
  m.def("shuffles", &one_row_a_lane<shuffle_kernel, 8>);
  m.def("masked_shuffles", &one_row_a_lane<masked_kernel, 1>);
  m.def("cooperative_tiles", &cooperative_tiles);
  m.def("coalesced_filter", &coalesced_filter);
  m.def("divergent_loops", &one_a_thread<divergent_kernel>);
  m.def("early_exit", &one_a_thread<early_kernel>);
  m.def("warp_scan", &warp_scan);
  m.def("special_registers", &special_registers);
}
