// Correct habits that look odd: each is allowed, and no checker may object.
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }

// Threads beyond the end leave before the barrier; hardware does not wait for them.
__global__ void leave_kernel(const float* x, float* out, int n) {
  __shared__ float tile[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  tile[threadIdx.x] = x[i];
  __syncthreads();
  int last = min(128, n - int(blockIdx.x) * 128) - 1;
  out[i] = tile[last - threadIdx.x];
}

// Two buffers need one barrier a step, not two.
__global__ void one_barrier_kernel(const float* x, float* out, int n) {
  __shared__ float tile[2][128];
  float sum = 0;
  for (int at = 0, side = 0; at < n; at += 128, side ^= 1) {
    tile[side][threadIdx.x] = at + threadIdx.x < n ? x[at + threadIdx.x] : 0.f;
    __syncthreads();
    sum += tile[side][127 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

// Many threads say the same thing at one place.
__global__ void same_flag_kernel(const float* x, float* out, int n) {
  __shared__ int found;
  int i = blockIdx.x * 128 + threadIdx.x;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  if (i < n && x[i] > 3.f) found = 1;
  __syncthreads();
  if (i < n) out[i] = found;
}

// Neighbours write the bytes of one word, and read them as a word after the barrier.
__global__ void bytes_kernel(const float* x, float* out, int n) {
  __shared__ __align__(4) unsigned char bytes[128];
  __shared__ __align__(4) __half halves[128];
  int i = threadIdx.x;
  bytes[i] = static_cast<unsigned char>(x[i] + 8.f);
  halves[i] = __float2half(x[i]);
  __syncthreads();
  unsigned word = reinterpret_cast<unsigned*>(bytes)[i / 4];
  __half2 pair = reinterpret_cast<__half2*>(halves)[i / 2];
  out[i] = (word >> (i % 4 * 8) & 255) + __high2float(pair);
}

// Shared memory used for one thing, and after a barrier for another.
__global__ void reused_kernel(const float* x, float* out, int n) {
  extern __shared__ char raw[];
  float* floats = reinterpret_cast<float*>(raw);
  int* counts = reinterpret_cast<int*>(raw);
  int i = threadIdx.x;
  floats[i] = x[i];
  __syncthreads();
  float v = floats[127 - i];
  __syncthreads();
  if (i < 16) counts[i] = 0;
  __syncthreads();
  atomicAdd(&counts[static_cast<int>(v + 8.f) % 16], 1);
  __syncthreads();
  out[i] = counts[i % 16];
}

// In place: each thread reads and writes its own.
__global__ void in_place_kernel(float* x, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = x[i] * x[i] + 1.f;
}

// A workspace of which only a part is written, and only that part is read.
__global__ void fill_part_kernel(const float* x, float* work, int n) {
  int i = threadIdx.x;
  if (i % 2 == 0) work[i] = x[i];
}
__global__ void read_part_kernel(const float* work, float* out, int n) {
  int i = threadIdx.x;
  out[i] = i % 2 == 0 ? work[i] : -1.f;
}

// Warps with different work meet at one counted barrier from different places.
__global__ void specialised_kernel(const float* x, float* out, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  if (i < 64) {
    tile[i] = x[i] * 2.f;
    asm volatile("bar.sync 1, 128;" ::: "memory");
  } else {
    float own = x[i];
    asm volatile("bar.sync 1, 128;" ::: "memory");
    out[i] = own + tile[i - 64];
  }
  if (i < 64) out[i] = tile[63 - i];
}

// Every thread fences, the block meets, one thread publishes; the last block reads what all wrote.
__global__ void published_kernel(const float* x, float* parts, int* done, float* out, int n) {
  __shared__ bool last;
  parts[blockIdx.x * 64 + threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(done, 1) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  float sum = 0;
  for (int b = 0; b < gridDim.x; ++b) sum += __ldcg(&parts[b * 64 + threadIdx.x]);
  out[threadIdx.x] = sum;
}

// A pointer one past the end is made, and never read.
__global__ void past_end_kernel(const float* x, float* out, int n) {
  const float *at = x + threadIdx.x, *end = x + n;
  float sum = 0;
  for (; at != end && at < end; at += blockDim.x) sum += *at;
  out[threadIdx.x] = sum;
}

template <void (*kKernel)(const float*, float*, int), int kThreads>
torch::Tensor mapped(torch::Tensor x) {
  auto out = torch::empty_like(x);
  int blocks = (x.numel() + kThreads - 1) / kThreads;
  kKernel<<<blocks, kThreads, 1024, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
template <void (*kKernel)(const float*, float*, int)>
torch::Tensor summed(torch::Tensor x) {
  auto out = torch::empty({128}, x.options());
  kKernel<<<1, 128, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
torch::Tensor in_place(torch::Tensor x) {
  in_place_kernel<<<2, 64, 0, stream()>>>(x.data_ptr<float>(), x.numel());
  return x.clone();
}
torch::Tensor partly_written(torch::Tensor x) {
  auto work = torch::empty_like(x), out = torch::empty_like(x);
  fill_part_kernel<<<1, x.numel(), 0, stream()>>>(x.data_ptr<float>(), work.data_ptr<float>(), x.numel());
  read_part_kernel<<<1, x.numel(), 0, stream()>>>(work.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
torch::Tensor published(torch::Tensor x) {
  auto parts = torch::empty_like(x), out = torch::empty({64}, x.options());
  auto done = torch::zeros({1}, x.options().dtype(torch::kInt32));
  published_kernel<<<x.numel() / 64, 64, 0, stream()>>>(x.data_ptr<float>(), parts.data_ptr<float>(),
                                                        done.data_ptr<int>(), out.data_ptr<float>(), x.numel());
  return out;
}
// Launched without a stream: the default one, which the caller's waits for.
torch::Tensor default_stream(torch::Tensor x) {
  auto out = x.clone();
  in_place_kernel<<<2, 64>>>(out.data_ptr<float>(), x.numel());
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &in_place);
  m.def("leave_before_barrier", &mapped<leave_kernel, 128>);
  m.def("one_barrier_a_step", &summed<one_barrier_kernel>);
  m.def("same_flag", &mapped<same_flag_kernel, 128>);
  m.def("bytes_of_a_word", &mapped<bytes_kernel, 128>);
  m.def("reused_shared", &mapped<reused_kernel, 128>);
  m.def("in_place", &in_place);
  m.def("partly_written", &partly_written);
  m.def("specialised_warps", &mapped<specialised_kernel, 128>);
  m.def("published", &published);
  m.def("past_the_end", &summed<past_end_kernel>);
  m.def("default_stream", &default_stream);
}
