// Accesses beyond what was allocated. A trailing mark with a fault's name is on the line that the finding must name.
#include <cooperative_groups.h>

#include "fault.h"

#include <warpsmith/tensor_map.h>

template <bool kFixed>
__global__ void read_past_end(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int next = i + 1;
  if constexpr (kFixed) next = min(next, n - 1);
  out[i] = x[next] - 1.f;  // fault: read_past_end
}

template <bool kFixed>
__global__ void write_past_end(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (kFixed ? i < n : i <= n) {
    float v = x[i % n];
    out[i] = v;  // fault: write_past_end
  }
}

template <bool kFixed>
__global__ void read_before_start(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float left = 0;
  if (!kFixed || i > 0) left = x[i - 1];  // fault: read_before_start
  out[i] = x[i] + left;
}

template <bool kFixed>
__global__ void shared_overrun(const float* x, float* out, int n) {
  __shared__ float tile[128];
  int t = threadIdx.x;
  tile[t] = x[t];
  if (t == 0) tile[kFixed ? n % 128 : n / 8] = 1.f;  // fault: shared_overrun
  __syncthreads();
  out[t] = tile[127 - t];
}

template <bool kFixed>
__global__ void dynamic_shared_overrun(const float* x, float* out, int n) {
  extern __shared__ float tile[];
  int t = threadIdx.x;
  tile[t] = x[t];
  __syncthreads();
  int from = kFixed ? (t + 1) % 64 : t + 1;
  out[t] = tile[from];  // fault: dynamic_shared_overrun
}

template <bool kFixed>
__global__ void vector_tail(const float* x, float* out, int n) {
  int i = threadIdx.x * 4 + 1021 - 255 * 4 - 1;
  if (kFixed) i = threadIdx.x * 4;
  if (i < 0 || i >= n) return;
  const float4* from = reinterpret_cast<const float4*>(x) + (kFixed ? i / 4 : i / 4 + 1);
  float4 v = *from;  // fault: vector_tail
  out[i] = v.x + v.w;
}

// Rows and columns swapped: the pitch is that of the other axis.
template <bool kFixed>
__global__ void wrong_pitch(const float* x, float* out, int n) {
  int rows = 8, columns = n / rows, r = threadIdx.y, c = threadIdx.x;
  int at = kFixed ? r * columns + c : c * columns + r;
  float v = x[at];  // fault: wrong_pitch
  out[r * columns + c] = v;
}

template <bool kFixed>
__global__ void atomic_past_end(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int bin = static_cast<int>(x[i]) + (kFixed ? 0 : n);
  atomicAdd(&out[bin], 1.f);  // fault: atomic_past_end
}

template <bool kFixed>
__global__ void async_copy_past_end(const float* x, float* out, int n) {
  __shared__ __align__(16) float tile[256];
  int t = threadIdx.x;
  const float* from = x + (kFixed ? 0 : n - 252) + t * 4;
  unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile + t * 4));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");  // fault: async_copy_past_end
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  out[t] = tile[t];
}

// Freed before the kernel that reads it.
__global__ void copy_kernel(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i];  // fault: use_after_free
}
template <bool kFixed>
torch::Tensor use_after_free(torch::Tensor x) {
  auto out = torch::zeros_like(x);
  float* between = nullptr;
  int n = x.numel();
  C10_CUDA_CHECK(cudaMalloc(&between, n * sizeof(float)));
  C10_CUDA_CHECK(cudaMemcpyAsync(between, x.data_ptr(), n * sizeof(float), cudaMemcpyDeviceToDevice, stream()));
  if constexpr (!kFixed) C10_CUDA_CHECK(cudaFree(between));
  copy_kernel<<<4, 256, 0, stream()>>>(between, out.data_ptr<float>(), n);
  if constexpr (kFixed) C10_CUDA_CHECK(cudaFree(between));
  return out;
}

// A block reads the shared memory of one that has left, or of one that there is not.
template <bool kFixed>
__global__ void __cluster_dims__(2) departed_block(const float* x, float* out, int n) {
  __shared__ float tile[64];
  cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  cluster.sync();
  const float* other = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1);
  out[blockIdx.x * 64 + threadIdx.x] = other[63 - threadIdx.x];  // fault: departed_block
  if constexpr (kFixed) cluster.sync();
}

template <bool kFixed>
__global__ void __cluster_dims__(2) absent_block(const float* x, float* out, int n) {
  __shared__ float tile[64];
  cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  cluster.sync();
  const float* other = cluster.map_shared_rank(tile, kFixed ? cluster.block_rank() ^ 1 : 2 + n / 4096);
  out[blockIdx.x * 64 + threadIdx.x] = other[63 - threadIdx.x];  // fault: absent_block
  cluster.sync();
}

// A descriptor that leads a product of a warp group past the end of shared memory.
template <bool kFixed>
__global__ void far_operand(const float* x, float* out, int n) {
  __shared__ __align__(128) float tile[576];
  for (int i = threadIdx.x; i < 576; i += 128) tile[i] = x[i];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  const uint64_t at = __cvta_generic_to_shared(tile), a = uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32 | at >> 4;
  const uint64_t b = a + (kFixed ? 2048 : 2176) / 16;
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0, %1, %2, %3}, %4, %5, p, 1, 1; }"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));  // fault: far_operand
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}

// A box that begins before its tensor: it may be read, with zeros outside, and not written.
__global__ void box(const __grid_constant__ CUtensorMap map, const float* x, int first) {
  __shared__ __align__(128) float tile[32];
  tile[threadIdx.x] = x[threadIdx.x];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncwarp();
  if (threadIdx.x == 0) {
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%2}], [%1];" ::"l"(&map), "r"(from), "r"(first) : "memory");  // fault: box_before
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

template <bool kFixed>
torch::Tensor box_before(torch::Tensor x) {
  auto out = torch::zeros_like(x);
  const uint64_t sizes[] = {1024}, strides[] = {0};
  const uint32_t boxes[] = {32}, steps[] = {1};
  const auto map = warpsmith::encode_tiled({}, 1, out.data_ptr(), sizes, strides, boxes, steps);
  box<<<1, 32, 0, stream()>>>(map, x.data_ptr<float>(), kFixed ? 1000 : -4);
  return out;
}

// A copy to four blocks of a cluster that has two.
__global__ void __cluster_dims__(2) shared_box(const __grid_constant__ CUtensorMap map, float* out, int blocks) {
  __shared__ __align__(128) float tile[32];
  __shared__ __align__(8) unsigned long long ready;
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile)), barrier = static_cast<unsigned>(__cvta_generic_to_shared(&ready));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(barrier) : "memory");
  }
  cooperative_groups::this_cluster().sync();
  if (threadIdx.x == 0 && blockIdx.x == 0)
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3}], [%2], %4;" ::"r"(to), "l"(&map), "r"(barrier), "r"(0), "h"(static_cast<unsigned short>((1 << blocks) - 1)) : "memory");  // fault: box_for_nobody
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(barrier) : "memory");
  out[blockIdx.x * 32 + threadIdx.x] = tile[threadIdx.x];
  cooperative_groups::this_cluster().sync();
}

template <bool kFixed>
torch::Tensor box_for_nobody(torch::Tensor x) {
  auto out = torch::zeros_like(x);
  const uint64_t sizes[] = {1024}, strides[] = {0};
  const uint32_t boxes[] = {32}, steps[] = {1};
  const auto map = warpsmith::encode_tiled({}, 1, x.data_ptr(), sizes, strides, boxes, steps);
  shared_box<<<2, 32, 0, stream()>>>(map, out.data_ptr<float>(), kFixed ? 2 : 4);
  return out;
}

// The load itself stands in the conversion of the header; the finding names the line that asks for it.
template <bool kFixed>
__global__ void converted_past_end(const float* x, float* out, int n) {
  const c10::BFloat16* halves = reinterpret_cast<const c10::BFloat16*>(x);
  const int at = blockIdx.x * blockDim.x + threadIdx.x, step = kFixed ? 0 : 1;
  out[at] = static_cast<float>(halves[2 * at + 2 * step]);  // fault: converted_past_end
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", RUN(read_past_end<true>, 4, 256, 0));
  TWINS(read_past_end, 4, 256, 0);
  TWINS(write_past_end, 5, 256, 0);
  TWINS(read_before_start, 4, 256, 0);
  TWINS(shared_overrun, 1, 128, 0);
  TWINS(dynamic_shared_overrun, 1, 64, 64 * sizeof(float));
  TWINS(vector_tail, 1, 256, 0);
  TWINS(wrong_pitch, 1, dim3(128, 8), 0);
  TWINS(atomic_past_end, 4, 256, 0);
  TWINS(async_copy_past_end, 1, 64, 0);
  HOST_TWINS(use_after_free);
  TWINS(departed_block, 2, 64, 0);
  TWINS(absent_block, 2, 64, 0);
  TWINS(far_operand, 1, 128, 0);
  TWINS(converted_past_end, 4, 256, 0);
  HOST_TWINS(box_before);
  HOST_TWINS(box_for_nobody);
}
