// Barriers that part of a block reaches, or that parts of a block reach at different places. Threads that have left the
// kernel are not waited for, so an early return before a barrier is no fault. Either line of a pair may be named.
#include "fault.h"

template <bool kFixed>
__global__ void in_one_branch(const float* x, float* out, int n) {
  __shared__ float tile[128];
  tile[threadIdx.x] = x[threadIdx.x];
  if (kFixed || threadIdx.x < 64) {
    __syncthreads();  // fault: in_one_branch
    out[threadIdx.x] = tile[127 - threadIdx.x];
  }
  __syncthreads();  // fault: in_one_branch
  out[128 + threadIdx.x] = tile[threadIdx.x];
}

template <bool kFixed>
__global__ void one_in_each_branch(const float* x, float* out, int n) {
  __shared__ float tile[128];
  tile[threadIdx.x] = x[threadIdx.x];
  if constexpr (kFixed) __syncthreads();
  if (threadIdx.x < 64) {
    if constexpr (!kFixed) __syncthreads();  // fault: one_in_each_branch
    out[threadIdx.x] = tile[127 - threadIdx.x] + 1.f;
  } else {
    if constexpr (!kFixed) __syncthreads();  // fault: one_in_each_branch
    out[threadIdx.x] = tile[127 - threadIdx.x] - tile[0];
  }
}

// Warp w passes w + 1 times, then all wait at the end.
template <bool kFixed>
__global__ void uneven_loop(const float* x, float* out, int n) {
  int rounds = kFixed ? 4 : threadIdx.x / 32 + 1;
  float sum = 0;
  for (int r = 0; r < rounds; ++r) {
    sum += x[r * 128 + threadIdx.x];
    __syncthreads();  // fault: uneven_loop
  }
  if (__syncthreads_or(sum > 1e9f)) sum = 0;  // fault: uneven_loop
  out[threadIdx.x] = sum;
}

// A named barrier for 128 threads that only 64 reach.
template <bool kFixed>
__global__ void wrong_count(const float* x, float* out, int n) {
  __shared__ float tile[64];
  if (threadIdx.x < 64) {
    tile[threadIdx.x] = x[threadIdx.x];
    if constexpr (kFixed) asm volatile("bar.sync 2, 64;" ::: "memory");
    else asm volatile("bar.sync 2, 128;" ::: "memory");  // fault: wrong_count
    out[threadIdx.x] = tile[63 - threadIdx.x];
  }
}

template <bool kFixed>
__global__ void odd_count(const float* x, float* out, int n) {
  int count = kFixed ? 64 : 48 + n / 4096;
  asm volatile("bar.sync 1, %0;" ::"r"(count) : "memory");  // fault: odd_count
  out[threadIdx.x] = x[threadIdx.x];
}

// Producer and consumer wait for each other.
template <bool kFixed>
__global__ void crossed_barriers(const float* x, float* out, int n) {
  __shared__ float slot[32];
  if (threadIdx.x < 32) {
    if constexpr (!kFixed) asm volatile("bar.sync 3, 64;" ::: "memory");  // fault: crossed_barriers
    slot[threadIdx.x] = x[threadIdx.x];
    asm volatile("bar.sync 4, 64;" ::: "memory");
  } else {
    asm volatile("bar.sync 4, 64;" ::: "memory");  // fault: crossed_barriers
    out[threadIdx.x] = slot[63 - threadIdx.x];
    if constexpr (!kFixed) asm volatile("bar.sync 3, 64;" ::: "memory");
  }
}

// Some lanes of a warp turn off before the barrier and come to another one.
template <bool kFixed>
__global__ void lanes_apart(const float* x, float* out, int n) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  float v = 0;
  if (!kFixed && threadIdx.x % 2) {
    __syncthreads();  // fault: lanes_apart
    v = tile[0];
  }
  __syncthreads();  // fault: lanes_apart
  out[threadIdx.x] = v + tile[63 - threadIdx.x];
}

// Half of the cluster's threads wait for the cluster, the others for their block: nobody goes on.
template <bool kFixed>
__global__ void __cluster_dims__(2) half_a_cluster(const float* x, float* out, int n) {
  if (kFixed || threadIdx.x >= 64) {
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    asm volatile("barrier.cluster.wait;" ::: "memory");  // fault: half_a_cluster
  }
  if constexpr (!kFixed)
    if (threadIdx.x < 64) __syncthreads();  // fault: half_a_cluster
  out[blockIdx.x * 128 + threadIdx.x] = x[threadIdx.x];
}

// Arrives twice and waits once.
template <bool kFixed>
__global__ void __cluster_dims__(2) arrives_twice(const float* x, float* out, int n) {
  if constexpr (!kFixed) asm volatile("barrier.cluster.arrive;" ::: "memory");
  asm volatile("barrier.cluster.arrive;" ::: "memory");  // fault: arrives_twice
  asm volatile("barrier.cluster.wait;" ::: "memory");
  out[blockIdx.x * 128 + threadIdx.x] = x[threadIdx.x];
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", RUN(in_one_branch<true>, 1, 128, 0));
  TWINS(in_one_branch, 1, 128, 0);
  TWINS(one_in_each_branch, 1, 128, 0);
  TWINS(uneven_loop, 1, 128, 0);
  TWINS(wrong_count, 1, 128, 0);
  TWINS(odd_count, 1, 64, 0);
  TWINS(crossed_barriers, 1, 64, 0);
  TWINS(lanes_apart, 1, 64, 0);
  TWINS(half_a_cluster, 2, 128, 0);
  TWINS(arrives_twice, 2, 128, 0);
}
