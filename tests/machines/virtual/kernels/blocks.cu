// Blocks at work: calls, local memory, named barriers, grids that wait for themselves, printf and the clock.
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <cstdio>
#include <torch/extension.h>

namespace cg = cooperative_groups;
static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }

__device__ __noinline__ float half_of(float v) { return v * 0.5f; }
__device__ __noinline__ float twice_plus(float v, int k) { return half_of(v) * 4.f + k; }
__device__ __noinline__ void write_chain(float* out, float v, int k) { *out = twice_plus(v, k) + half_of(v); }
__global__ void call_kernel(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) write_chain(out + i, x[i], i % 3);
}

struct Pair {
  float low, high;
  int rank;
};
__device__ __noinline__ Pair ordered(Pair p) {
  return p.low <= p.high ? Pair{p.low, p.high, p.rank + 1} : Pair{p.high, p.low, p.rank - 1};
}
__global__ void struct_call_kernel(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Pair p = ordered({x[i], x[n - 1 - i], i});
  out[i] = p.high - p.low + p.rank;
}

using Unary = float (*)(float);
__device__ __noinline__ float negated(float v) { return -v; }
__device__ __noinline__ float squared(float v) { return v * v; }
__device__ __noinline__ float shifted(float v) { return v + 3.f; }
__device__ Unary choices[3] = {negated, squared, shifted};
__global__ void pointer_kernel(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = choices[i % 3](x[i]);
}

// Indices nobody knows at compile time, so the array lies in local memory.
__global__ void local_kernel(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float ring[16];
  for (int k = 0; k < 16; ++k) ring[k] = x[(i + k) % n];
  int at = i;
  float sum = 0;
  for (int k = 0; k < 10; ++k) {
    at = (at * 5 + 3) & 15;
    ring[at] += k;
    sum += ring[(at + i) & 15];
  }
  out[i] = sum;
}

// A warp of producers and a warp of consumers, two slots, two barriers a slot.
__global__ void named_kernel(const int* x, int* out, int rounds) {
  __shared__ int slot[2][32];
  int lane = threadIdx.x % 32;
  bool producer = threadIdx.x < 32;
  for (int r = 0; r < rounds; ++r) {
    int full = 1 + r % 2, empty = 3 + r % 2;
    if (producer) {
      if (r >= 2) asm volatile("bar.sync %0, 64;" ::"r"(empty) : "memory");
      slot[r % 2][lane] = x[r * 32 + lane] * 2;
      asm volatile("bar.arrive %0, 64;" ::"r"(full) : "memory");
    } else {
      asm volatile("bar.sync %0, 64;" ::"r"(full) : "memory");
      out[r * 32 + lane] = slot[r % 2][31 - lane];
      if (r + 2 < rounds) asm volatile("bar.arrive %0, 64;" ::"r"(empty) : "memory");
    }
  }
}

// Only the first two warps of three meet at barrier 5.
__global__ void partial_kernel(const int* x, int* out) {
  __shared__ int tile[64];
  int t = threadIdx.x;
  if (t < 64) {
    tile[t] = x[t];
    asm volatile("barrier.sync 5, 64;" ::: "memory");
    out[t] = tile[63 - t] + 1;
  } else {
    out[t] = x[t] - 1;
  }
}

__global__ void grid_kernel(const float* x, float* between, float* out, int n) {
  cg::grid_group grid = cg::this_grid();
  for (int i = grid.thread_rank(); i < n; i += grid.size()) between[i] = x[i] * 2.f;
  grid.sync();
  for (int i = grid.thread_rank(); i < n; i += grid.size()) out[i] = between[n - 1 - i] + 1.f;
  grid.sync();
  if (grid.thread_rank() == 0) out[0] = out[n - 1];
}

// Block b waits for block b - 1; all are resident, since the launch is cooperative.
__global__ void relay_kernel(volatile int* baton, int* out, int* order) {
  if (threadIdx.x == 0) {
    while (*baton != blockIdx.x) __nanosleep(20);
    __threadfence();
    order[blockIdx.x] = blockIdx.x ? order[blockIdx.x - 1] * 2 + 1 : 1;
    __threadfence();
    *baton = blockIdx.x + 1;
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x + 100 * blockIdx.x;
}

__global__ void clock_kernel(int* out) {
  long long first = clock64();
  unsigned early = clock();
  __nanosleep(100);
  unsigned late = clock();
  long long last = clock64();
  out[threadIdx.x] = last > first && late != early;
}

__global__ void print_kernel(const float* x, int* out) {
  if (threadIdx.x == 0 && blockIdx.x == 0)
    printf("tag %d %s %.2f %lld %c %5u|%-4x|%%\n", -7, "word", x[0], 1LL << 40, 'z', 42u, 255);
  out[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
}

template <void (*kKernel)(const float*, float*, int)>
torch::Tensor floats(torch::Tensor x) {
  auto out = torch::empty_like(x);
  kKernel<<<(x.numel() + 127) / 128, 128, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
torch::Tensor named_barriers(torch::Tensor x) {
  auto out = torch::empty_like(x);
  named_kernel<<<1, 64, 0, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>(), x.numel() / 32);
  return out;
}
torch::Tensor partial_barrier(torch::Tensor x) {
  auto out = torch::empty_like(x);
  partial_kernel<<<1, 96, 0, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>());
  return out;
}
torch::Tensor grid_sync(torch::Tensor x) {
  auto out = torch::empty_like(x), between = torch::empty_like(x);
  const float* from = x.data_ptr<float>();
  float *middle = between.data_ptr<float>(), *to = out.data_ptr<float>();
  int n = x.numel();
  void* arguments[] = {&from, &middle, &to, &n};
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel(grid_kernel, dim3(4), dim3(64), arguments, 0, stream()));
  return out;
}
std::vector<torch::Tensor> relay(torch::Tensor like) {
  auto out = torch::empty({6 * 32}, like.options()), order = torch::empty({6}, like.options());
  auto baton = torch::zeros({1}, like.options());
  int *flag = baton.data_ptr<int>(), *to = out.data_ptr<int>(), *chain = order.data_ptr<int>();
  void* arguments[] = {&flag, &to, &chain};
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel(relay_kernel, dim3(6), dim3(32), arguments, 0, stream()));
  return {out, order};
}
torch::Tensor clocks(torch::Tensor like) {
  auto out = torch::empty({64}, like.options());
  clock_kernel<<<1, 64, 0, stream()>>>(out.data_ptr<int>());
  return out;
}
torch::Tensor device_print(torch::Tensor x) {
  auto out = torch::empty({64}, x.options().dtype(torch::kInt32));
  print_kernel<<<2, 32, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<int>());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &floats<call_kernel>);
  m.def("device_calls", &floats<call_kernel>);
  m.def("struct_calls", &floats<struct_call_kernel>);
  m.def("function_pointers", &floats<pointer_kernel>);
  m.def("local_arrays", &floats<local_kernel>);
  m.def("named_barriers", &named_barriers);
  m.def("partial_barrier", &partial_barrier);
  m.def("grid_sync", &grid_sync);
  m.def("relay", &relay);
  m.def("clocks", &clocks);
  m.def("device_print", &device_print);
}
