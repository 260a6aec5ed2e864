// Two threads, blocks or streams at one place with nothing that orders them. Either line of a pair may be named.
#include <cooperative_groups.h>

#include "fault.h"

template <bool kFixed>
__global__ void missing_barrier(const float* x, float* out, int n) {
  __shared__ float tile[128];
  tile[threadIdx.x] = x[threadIdx.x];  // fault: missing_barrier
  if constexpr (kFixed) __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];  // fault: missing_barrier
}

// The next tile is written while slower warps still read this one.
template <bool kFixed>
__global__ void missing_second_barrier(const float* x, float* out, int n) {
  __shared__ float tile[128];
  float sum = 0;
  for (int at = 0; at < n; at += 128) {
    tile[threadIdx.x] = x[at + threadIdx.x];  // fault: missing_second_barrier
    __syncthreads();
    sum += tile[127 - threadIdx.x];  // fault: missing_second_barrier
    if constexpr (kFixed) __syncthreads();
  }
  out[threadIdx.x] = sum;
}

template <bool kFixed>
__global__ void two_writers(const float* x, float* out, int n) {
  __shared__ float top;
  float v = x[threadIdx.x];
  if (threadIdx.x % (kFixed ? 64 : 32) == 0) top = v;  // fault: two_writers
  __syncthreads();
  out[threadIdx.x] = top;
}

// Lanes of one warp do not run in step since Volta.
template <bool kFixed>
__global__ void lockstep(const float* x, float* out, int n) {
  __shared__ float tile[64];
  int t = threadIdx.x;
  tile[t] = x[t];
  tile[t + 32] = x[t + 32];
  for (int half = 32; half > 0; half /= 2) {
    if constexpr (kFixed) __syncwarp();
    if (t < half) tile[t] += tile[t + half];  // fault: lockstep
  }
  if (t == 0) out[0] = tile[0];
}

template <bool kFixed>
__global__ void lockstep_exchange(const float* x, float* out, int n) {
  __shared__ float tile[32];
  tile[threadIdx.x] = x[threadIdx.x];
  if constexpr (kFixed) __syncwarp();
  out[threadIdx.x] = tile[31 - threadIdx.x];  // fault: lockstep_exchange
}

template <bool kFixed>
__global__ void shared_counter(const float* x, float* out, int n) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (x[threadIdx.x] > 3.f) {
    if constexpr (kFixed) atomicAdd(&count, 1);
    else count += 1;  // fault: shared_counter
  }
  __syncthreads();
  out[threadIdx.x] = count;
}

// Every block adds to one place, without an atomic.
template <bool kFixed>
__global__ void plain_sum(const float* x, float* out, int n) {
  if (threadIdx.x) return;
  float v = x[blockIdx.x];
  if constexpr (kFixed) atomicAdd(out, v);
  else out[0] += v;  // fault: plain_sum
}

// A block reads what its neighbour writes in the same launch.
template <bool kFixed>
__global__ void neighbour_block(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = (i + blockDim.x) % n;
  out[i] = x[i];  // fault: neighbour_block
  float v = kFixed ? x[j] : out[j];  // fault: neighbour_block
  if (v < 0) out[i] = v;  // fault: neighbour_block
}

// Threads of one block meet in global memory.
template <bool kFixed>
__global__ void global_without_barrier(const float* x, float* out, int n) {
  int t = threadIdx.x;
  out[t] = x[t];  // fault: global_without_barrier
  if constexpr (kFixed) __syncthreads();
  float v = out[255 - t];  // fault: global_without_barrier
  out[256 + t] = v;
}

template <bool kFixed>
__global__ void read_before_copy_lands(const float* x, float* out, int n) {
  __shared__ __align__(16) float tile[128];
  int t = threadIdx.x;
  unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile + t * 4));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(x + t * 4) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  if constexpr (kFixed) asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncwarp();
  out[t] = tile[t];  // fault: read_before_copy_lands
}

// A box is written again while the copy engine may still read it: a wait that leaves one group open leaves this one.
template <bool kFixed>
__global__ void written_before_sent(const float* x, float* out, int n) {
  __shared__ __align__(128) float box[2][32];
  int t = threadIdx.x;
  for (int round = 0; round < 3; ++round) {
    if (t == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    __syncwarp();
    box[round % 2][t] = x[round * 32 + t] + round;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(box[round % 2]));
    if (t == 0 && round != 1)
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;" ::"l"(out + round * 32), "r"(from) : "memory");  // fault: written_before_sent
    if (t == 0 && (kFixed || round != 1)) asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
}

// A flag is published before what it announces is sure to be seen.
template <bool kFixed>
__global__ void flag_without_fence(const float* x, float* out, int n) {
  volatile float* flag = out + 1;
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    out[0] = x[5];  // fault: flag_without_fence
    if constexpr (kFixed) __threadfence();
    *flag = 1.f;
  } else {
    while (*flag == 0.f) {}
    if constexpr (kFixed) __threadfence();
    out[2] = *const_cast<const float*>(out);  // fault: flag_without_fence
  }
}

__global__ void scale(const float* x, float* out, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * by;  // fault: two_streams // fault: memset_beside_kernel // fault: unordered_input
}
struct Side {
  cudaStream_t stream;
  cudaEvent_t event;
  Side() {
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  void after(cudaStream_t other) {
    C10_CUDA_CHECK(cudaEventRecord(event, other));
    C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event, 0));
  }
  void before(cudaStream_t other) {
    C10_CUDA_CHECK(cudaEventRecord(event, stream));
    C10_CUDA_CHECK(cudaStreamWaitEvent(other, event, 0));
  }
};

// Two streams write one buffer; they are joined only afterwards.
template <bool kFixed>
torch::Tensor two_streams(torch::Tensor x) {
  auto out = torch::empty_like(x);
  Side side;
  side.after(stream());
  scale<<<4, 256, 0, side.stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), 2.f, x.numel());
  if constexpr (kFixed) side.before(stream());
  scale<<<4, 256, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), 3.f, x.numel());
  side.before(stream());
  return out;
}

template <bool kFixed>
torch::Tensor memset_beside_kernel(torch::Tensor x) {
  auto out = torch::empty_like(x);
  Side side;
  side.after(stream());
  C10_CUDA_CHECK(cudaMemsetAsync(out.data_ptr(), 0, x.nbytes(), stream()));
  if constexpr (kFixed) side.after(stream());
  scale<<<4, 256, 0, side.stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), 2.f, x.numel());
  side.before(stream());
  return out;
}

// The side stream does not wait for the kernel that makes its input.
template <bool kFixed>
torch::Tensor unordered_input(torch::Tensor x) {
  auto between = torch::zeros_like(x), out = torch::empty_like(x);
  Side side;
  side.after(stream());
  scale<<<4, 256, 0, stream()>>>(x.data_ptr<float>(), between.data_ptr<float>(), 2.f, x.numel());
  if constexpr (kFixed) side.after(stream());
  scale<<<4, 256, 0, side.stream>>>(between.data_ptr<float>(), out.data_ptr<float>(), 3.f, x.numel());
  side.before(stream());
  return out;
}

// Blocks of a cluster look into each other's shared memory before it is written.
template <bool kFixed>
__global__ void __cluster_dims__(2) unmet_cluster(const float* x, float* out, int n) {
  __shared__ float tile[64];
  cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];  // fault: unmet_cluster
  if constexpr (kFixed) cluster.sync();
  else __syncthreads();
  const float* other = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1);
  out[blockIdx.x * 64 + threadIdx.x] = other[63 - threadIdx.x];  // fault: unmet_cluster
  cluster.sync();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", RUN(missing_barrier<true>, 1, 128, 0));
  TWINS(missing_barrier, 1, 128, 0);
  TWINS(missing_second_barrier, 1, 128, 0);
  TWINS(two_writers, 1, 64, 0);
  TWINS(lockstep, 1, 32, 0);
  TWINS(lockstep_exchange, 1, 32, 0);
  TWINS(shared_counter, 1, 64, 0);
  TWINS(plain_sum, 4, 32, 0);
  TWINS(neighbour_block, 8, 128, 0);
  TWINS(global_without_barrier, 1, 256, 0);
  TWINS(read_before_copy_lands, 1, 32, 0);
  TWINS(written_before_sent, 1, 32, 0);
  TWINS(flag_without_fence, 2, 32, 0);
  HOST_TWINS(two_streams);
  HOST_TWINS(memset_beside_kernel);
  HOST_TWINS(unordered_input);
  TWINS(unmet_cluster, 2, 64, 0);
}
