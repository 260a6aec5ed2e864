// Thread-block clusters: ranks, barriers of the cluster, shared memory of other blocks, by hand and by the library.
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <torch/extension.h>

namespace cg = cooperative_groups;

static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }

template <class... Given, class... Taken>
static void launch(void (*kernel)(Taken...), dim3 grid, dim3 block, dim3 cluster, Given... given) {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = cluster.x, attribute.val.clusterDim.y = cluster.y, attribute.val.clusterDim.z = cluster.z;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid, config.blockDim = block, config.stream = stream(), config.attrs = &attribute, config.numAttrs = 1;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, Taken(given)...);
  TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error));
}

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__device__ unsigned at_rank(unsigned own, unsigned rank) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(rank));
  return there;
}
__device__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Who a block is, in a cluster of 2 x 3.
__global__ void ranks(int* out) {
  unsigned v[10];
  asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(v[0]));
  asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(v[1]));
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(v[2]));
  asm("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(v[3]));
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(v[4]));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(v[5]));
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(v[6]));
  asm("mov.u32 %0, %%clusterid.y;" : "=r"(v[7]));
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(v[8]));
  asm("mov.u32 %0, %%nclusterid.y;" : "=r"(v[9]));
  for (int i = 0; i < 10; ++i) out[(blockIdx.y * gridDim.x + blockIdx.x) * 10 + i] = static_cast<int>(v[i]);
}
torch::Tensor cluster_ranks(torch::Tensor x) {
  auto out = torch::empty({6, 4, 10}, x.options().dtype(torch::kInt32));
  launch(ranks, dim3(4, 6), 1, dim3(2, 3), out.data_ptr<int>());
  return out;
}

// Each block tells every block of its cluster the sum of its part; all add the same sums in the same order.
__global__ void push_sums(const float* x, float* out, int blocks) {
  __shared__ float sums[8], parts[4];
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  float v = x[blockIdx.x * 128 + threadIdx.x];
  for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
  if (threadIdx.x < blocks)
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(at_rank(shared_address(&sums[cluster_rank()]), threadIdx.x)),
                 "f"(parts[0] + parts[1] + parts[2] + parts[3]) : "memory");
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  float sum = 0;
  for (int i = 0; i < blocks; ++i) sum += sums[i];
  out[blockIdx.x * 128 + threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x] - sum;
}
torch::Tensor cluster_push(torch::Tensor x) {
  auto out = torch::empty_like(x);
  launch(push_sums, static_cast<unsigned>(x.numel() / 128), 128, 8, x.data_ptr<float>(), out.data_ptr<float>(), 8);
  return out;
}

// A histogram of 256 bins dealt over a cluster of four by the library; every block adds to the others' bins.
__global__ void __cluster_dims__(4) histogram(const int* x, int* out, int n) {
  __shared__ int bins[64];
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x < 64) bins[threadIdx.x] = 0;
  cluster.sync();
  for (int i = static_cast<int>(cluster.block_rank() * blockDim.x + threadIdx.x); i < n; i += 4 * blockDim.x) {
    const int bin = x[i] & 255;
    atomicAdd(cluster.map_shared_rank(bins, bin / 64) + bin % 64, 1);
  }
  cluster.sync();
  if (threadIdx.x < 64) out[cluster.block_rank() * 64 + threadIdx.x] = bins[threadIdx.x];
}
torch::Tensor cluster_histogram(torch::Tensor x) {
  auto out = torch::empty({256}, x.options());
  histogram<<<4, 96, 0, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>(), static_cast<int>(x.numel()));
  return out;
}

// A block reads its right neighbour's row, element by element in reverse, and says so at the neighbour's mbarrier.
__global__ void neighbours(const float* x, float* out) {
  __shared__ float row[64];
  __shared__ __align__(8) unsigned long long barrier;
  const unsigned own = shared_address(&barrier), next = (cluster_rank() + 1) % 4;
  row[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" ::"r"(own) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cg::this_cluster().sync();
  float v;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(at_rank(shared_address(&row[63 - threadIdx.x]), next)) : "memory");
  out[blockIdx.x * 64 + threadIdx.x] = v;
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(at_rank(own, next)) : "memory");
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(own) : "memory");
  row[threadIdx.x] = -row[threadIdx.x];  // nobody reads it any more
  __syncthreads();
  out[gridDim.x * 64 + blockIdx.x * 64 + threadIdx.x] = row[63 - threadIdx.x];
}
torch::Tensor cluster_neighbours(torch::Tensor x) {
  auto out = torch::empty({2, x.size(0), 64}, x.options());
  launch(neighbours, static_cast<unsigned>(x.size(0)), 64, 4, x.data_ptr<float>(), out.data_ptr<float>());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &cluster_ranks);
  m.def("cluster_ranks", &cluster_ranks);
  m.def("cluster_push", &cluster_push);
  m.def("cluster_histogram", &cluster_histogram);
  m.def("cluster_neighbours", &cluster_neighbours);
}
