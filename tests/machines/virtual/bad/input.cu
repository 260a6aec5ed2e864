// Calls that go wrong on the host, at the launch or in the kernel: each must end in a verdict.
#include <ATen/cuda/CUDAContext.h>
#include <cstdio>
#include <cstdlib>
#include <sys/syscall.h>
#include <torch/extension.h>

static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }

__global__ void scale_kernel(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * 2.f;
}
static torch::Tensor launched(torch::Tensor x, const float* from, dim3 grid, dim3 block) {
  auto out = torch::zeros_like(x);
  scale_kernel<<<grid, block, 0, stream()>>>(from, out.data_ptr<float>(), int(x.numel()));
  return out;
}
torch::Tensor scaled(torch::Tensor x) { return launched(x, x.data_ptr<float>(), 1, 64); }
torch::Tensor no_threads(torch::Tensor x) { return launched(x, x.data_ptr<float>(), 1, 0); }
torch::Tensor too_many_threads(torch::Tensor x) { return launched(x, x.data_ptr<float>(), 1, 1025); }
torch::Tensor pointer_from_nowhere(torch::Tensor x) { return launched(x, reinterpret_cast<float*>(0x123456789000), 1, 64); }
torch::Tensor null_pointer(torch::Tensor x) { return launched(x, nullptr, 1, 64); }
torch::Tensor host_pointer(torch::Tensor x) {
  float here[64] = {};
  auto out = launched(x, here, 1, 64);
  C10_CUDA_CHECK(cudaStreamSynchronize(stream()));
  return out;
}

// Unspecified by PTX, but no trap.
__global__ void divide_kernel(const int* x, int* out) {
  int i = threadIdx.x;
  out[i * 4] = 100 / x[i];
  out[i * 4 + 1] = 100 % x[i];
  out[i * 4 + 2] = static_cast<int>(100u / static_cast<unsigned>(x[i]));
  out[i * 4 + 3] = static_cast<int>(((-9223372036854775807LL - 1) / (x[i] - 1)) >> 32);
}
torch::Tensor division_by_zero(torch::Tensor like) {
  auto x = torch::zeros({32}, like.options().dtype(torch::kInt32)), out = torch::zeros({128}, x.options());
  divide_kernel<<<1, 32, 0, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>());
  return out;
}

__global__ void endless_kernel(float* out) {
  volatile float* flag = out;
  while (*flag == 0.f) {}
}
torch::Tensor endless(torch::Tensor x) {
  auto out = torch::zeros_like(x);
  endless_kernel<<<1, 32, 0, stream()>>>(out.data_ptr<float>());
  return out;
}

// 64 characters eight times in one line, from 32768 threads in 128 rounds: two gigabytes.
#define WORDS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n"
__global__ void flood_kernel(int rounds) {
  for (int i = 0; i < rounds; ++i) printf(WORDS WORDS WORDS WORDS WORDS WORDS WORDS WORDS);
}
torch::Tensor flood(torch::Tensor x) {
  flood_kernel<<<128, 256, 0, stream()>>>(128);
  return torch::zeros_like(x);
}

// A matrix instruction on doubles, which is not modelled.
__global__ void double_kernel(float* out) {
  double sums[2] = {};
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%2}, {%0, %1};"
               : "+d"(sums[0]), "+d"(sums[1]) : "d"(1.0));
  out[threadIdx.x] = static_cast<float>(sums[0]);
}
torch::Tensor unknown_instruction(torch::Tensor x) {
  auto out = torch::zeros_like(x);
  double_kernel<<<1, 32, 0, stream()>>>(out.data_ptr<float>());
  return out;
}

torch::Tensor unknown_call(torch::Tensor x) {
  cudaResourceDesc resource = {};
  cudaTextureDesc texture = {};
  cudaTextureObject_t made = 0;
  C10_CUDA_CHECK(cudaCreateTextureObject(&made, &resource, &texture, nullptr));
  return x;
}

__global__ void trap_kernel() { __trap(); }
torch::Tensor trapped(torch::Tensor x) {
  trap_kernel<<<1, 1, 0, stream()>>>();
  return x.clone();
}

torch::Tensor host_reads_device(torch::Tensor x) {
  auto out = torch::zeros_like(x);
  TORCH_CHECK(*x.data_ptr<float>() >= 0.f, "never said");
  return out;
}
torch::Tensor refuses(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 7, "seven dimensions or nothing");
  return x;
}
torch::Tensor asks_for_too_much(torch::Tensor x) {
  void* made = nullptr;
  C10_CUDA_CHECK(cudaMalloc(&made, size_t(1) << 44));
  return x;
}
torch::Tensor host_loops(torch::Tensor x) {
  for (volatile int i = 0;; i = i ^ 1) {}
  return x;
}
torch::Tensor leaves(torch::Tensor x) {
  exit(0);
  return x;
}
// By a system call without a symbol for it.
static void write_raw(long to, const void* from, long bytes) {
#ifdef __x86_64__
  long number = SYS_write;
  asm volatile("syscall" : "+a"(number) : "D"(to), "S"(from), "d"(bytes) : "rcx", "r11", "memory");
#else
  register long x8 asm("x8") = SYS_write, x0 asm("x0") = to, x1 asm("x1") = long(from), x2 asm("x2") = bytes;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
#endif
}
// Answers for the worker that all is done, with the rest of a request to the virtual GPU still to come, and never ends.
torch::Tensor half_a_request(torch::Tensor x) {
  const uint32_t frame[11] = {0x31465357, 1 | 102 << 16, 24, 0, 0xc707c9e0};
  write_raw(5, "half", 4);
  write_raw(4, frame, sizeof frame);
  return host_loops(x);
}
torch::Tensor answers_elsewhere(torch::Tensor x) {
  return torch::from_blob(reinterpret_cast<void*>(0x700012340000), {64}, x.options());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &scaled);
  m.def("no_threads", &no_threads);
  m.def("too_many_threads", &too_many_threads);
  m.def("pointer_from_nowhere", &pointer_from_nowhere);
  m.def("null_pointer", &null_pointer);
  m.def("host_pointer", &host_pointer);
  m.def("division_by_zero", &division_by_zero);
  m.def("endless", &endless);
  m.def("flood", &flood);
  m.def("unknown_instruction", &unknown_instruction);
  m.def("unknown_call", &unknown_call);
  m.def("trapped", &trapped);
  m.def("host_reads_device", &host_reads_device);
  m.def("refuses", &refuses);
  m.def("asks_for_too_much", &asks_for_too_much);
  m.def("host_loops", &host_loops);
  m.def("leaves", &leaves);
  m.def("half_a_request", &half_a_request);
  m.def("answers_elsewhere", &answers_elsewhere);
}
