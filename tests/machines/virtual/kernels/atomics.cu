// Atomic operations of every type, in global and in shared memory.
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }

__global__ void integer_kernel(const int* x, int* s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  auto* u = reinterpret_cast<unsigned*>(s);
  atomicAdd(&s[0], x[i]);
  atomicSub(&s[1], x[i]);
  atomicMin(&s[2], x[i]);
  atomicMax(&s[3], x[i]);
  atomicMin(&u[4], static_cast<unsigned>(x[i]));
  atomicMax(&u[5], static_cast<unsigned>(x[i]));
  atomicAnd(&s[6], x[i] | 0x0ff00000);
  atomicOr(&s[7], x[i] & 0x00f0f0f0);
  atomicXor(&s[8], x[i]);
  atomicInc(&u[9], 9);
  atomicDec(&u[10], 9);
  atomicAdd_block(&s[11 + blockIdx.x % 2], 1);
  atomicAdd_system(&u[13], 2u);
}
torch::Tensor integer_atomics(torch::Tensor x, torch::Tensor start) {
  auto out = start.clone();
  integer_kernel<<<2, (x.numel() + 1) / 2, 0, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>(), x.numel());
  return out;
}

__global__ void wide_kernel(const int64_t* x, int64_t* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  auto* u = reinterpret_cast<unsigned long long*>(out);
  atomicAdd(&u[0], static_cast<unsigned long long>(x[i]));
  atomicMin(reinterpret_cast<long long*>(&out[1]), static_cast<long long>(x[i]));
  atomicMax(reinterpret_cast<long long*>(&out[2]), static_cast<long long>(x[i]));
  atomicAnd(&u[3], static_cast<unsigned long long>(x[i]));
  atomicOr(&u[4], static_cast<unsigned long long>(x[i]));
  atomicXor(&u[5], static_cast<unsigned long long>(x[i]));
  unsigned long long old = *const_cast<volatile unsigned long long*>(&u[6]), seen;
  while ((seen = atomicCAS(&u[6], old, old + 3)) != old) old = seen;
}
torch::Tensor wide_atomics(torch::Tensor x) {
  auto out = torch::zeros({7}, x.options());
  wide_kernel<<<2, 64, 0, stream()>>>(x.data_ptr<int64_t>(), out.data_ptr<int64_t>(), x.numel());
  return out;
}

// Whole numbers, so that every order of adding gives the same sum.
__global__ void float_kernel(const float* x, float* f, double* d, __half2* h, __nv_bfloat162* b, int n) {
  __shared__ float inside;
  if (threadIdx.x == 0) inside = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    atomicAdd(&f[0], x[i]);
    atomicAdd(&d[0], static_cast<double>(x[i]) + 0.5);
    atomicAdd(h, __floats2half2_rn(x[i], 1.f));
    atomicAdd(b, __floats2bfloat162_rn(1.f, -1.f));
    atomicAdd(&inside, x[i] * 2.f);
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&f[1], inside);
}
std::vector<torch::Tensor> float_atomics(torch::Tensor x) {
  auto f = torch::zeros({2}, x.options()), d = torch::zeros({1}, x.options().dtype(torch::kFloat64));
  auto h = torch::zeros({2}, x.options().dtype(torch::kFloat16)), b = torch::zeros({2}, x.options().dtype(torch::kBFloat16));
  float_kernel<<<2, 64, 0, stream()>>>(x.data_ptr<float>(), f.data_ptr<float>(), d.data_ptr<double>(),
                                       reinterpret_cast<__half2*>(h.data_ptr()),
                                       reinterpret_cast<__nv_bfloat162*>(b.data_ptr()), x.numel());
  return {f, d, h, b};
}

// What an atomic returns: each ticket once; the old value of an exchange; a maximum of floats by compare-and-swap.
__device__ void atomic_max(float* at, float v) {
  int* bits = reinterpret_cast<int*>(at);
  int seen = *const_cast<volatile int*>(bits);
  while (__int_as_float(seen) < v) {
    int old = atomicCAS(bits, seen, __float_as_int(v));
    if (old == seen) break;
    seen = old;
  }
}
__global__ void ticket_kernel(const float* x, int* tickets, int* counter, int* swapped, float* top, int n) {
  __shared__ int box;
  if (threadIdx.x == 0) box = -1;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    tickets[atomicAdd(counter, 1)] = 1;
    atomicAdd(swapped, atomicExch(&box, 1) == -1);
    atomic_max(top, x[i]);
  }
}
std::vector<torch::Tensor> atomic_results(torch::Tensor x) {
  auto ints = x.options().dtype(torch::kInt32);
  auto tickets = torch::zeros({x.numel()}, ints), counter = torch::zeros({1}, ints), swapped = torch::zeros({1}, ints);
  auto top = torch::full({1}, -1e30, x.options());
  ticket_kernel<<<(x.numel() + 63) / 64, 64, 0, stream()>>>(x.data_ptr<float>(), tickets.data_ptr<int>(),
                                                            counter.data_ptr<int>(), swapped.data_ptr<int>(),
                                                            top.data_ptr<float>(), x.numel());
  return {tickets, counter, swapped, top};
}

// A lock taken by one thread a block: what it guards needs no atomics.
__global__ void lock_kernel(int* lock, volatile int* guarded) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(lock, 0, 1) != 0) {}
  __threadfence();
  guarded[0] = guarded[0] + 1;
  guarded[1] = guarded[1] * 3 + 1;
  __threadfence();
  atomicExch(lock, 0);
}
torch::Tensor spin_lock(torch::Tensor like) {
  auto guarded = torch::zeros({2}, like.options()), lock = torch::zeros({1}, like.options());
  lock_kernel<<<8, 32, 0, stream()>>>(lock.data_ptr<int>(), guarded.data_ptr<int>());
  return guarded;
}

// Two and four sums by one instruction.
__global__ void vector_kernel(const float* x, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(out), "f"(x[i]), "f"(2 * x[i]) : "memory");
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %1, %2};" ::"l"(out + 4), "f"(x[i]), "f"(1.f) : "memory");
}
torch::Tensor vector_atomics(torch::Tensor x) {
  auto out = torch::zeros({8}, x.options());
  vector_kernel<<<(x.numel() + 63) / 64, 64, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &integer_atomics);
  m.def("integer_atomics", &integer_atomics);
  m.def("wide_atomics", &wide_atomics);
  m.def("float_atomics", &float_atomics);
  m.def("atomic_results", &atomic_results);
  m.def("spin_lock", &spin_lock);
  m.def("vector_atomics", &vector_atomics);
}
