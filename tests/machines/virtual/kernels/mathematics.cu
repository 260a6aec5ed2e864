// Functions of one float, one column each; the documented error of each is in the table of expectations.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }

__global__ void full_kernel(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i], p = fabsf(v) + 0.01f;
  float* row = out + i * 16;
  row[0] = expf(v);
  row[1] = logf(p);
  row[2] = sinf(v);
  row[3] = cosf(v);
  row[4] = powf(p, 1.75f);
  row[5] = erff(v);
  row[6] = rsqrtf(p);
  row[7] = tanhf(v);
  row[8] = cbrtf(v);
  row[9] = log1pf(p);
  row[10] = expm1f(v);
  row[11] = exp2f(v);
  row[12] = log2f(p);
  row[13] = sqrtf(p);
  row[14] = 1.0f / p;
  row[15] = v / p;
}

__global__ void fast_kernel(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i], p = fabsf(v) + 0.01f;
  float* row = out + i * 8;
  row[0] = __expf(v);
  row[1] = __logf(p);
  row[2] = __sinf(v);
  row[3] = __cosf(v);
  row[4] = __fdividef(v, p);
  asm("tanh.approx.f32 %0, %1;" : "=f"(row[5]) : "f"(v));
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(row[6]) : "f"(p));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(row[7]) : "f"(p));
}

// Exact by IEEE 754: every rounding of sum, product, quotient, root and fused multiply-add.
__global__ void rounding_kernel(const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i], b = y[i];
  float* row = out + i * 12;
  row[0] = __fadd_rn(a, b);
  row[1] = __fadd_rz(a, b);
  row[2] = __fadd_ru(a, b);
  row[3] = __fadd_rd(a, b);
  row[4] = __fmul_rn(a, b);
  row[5] = __fmul_rz(a, b);
  row[6] = __fmaf_rn(a, b, a);
  row[7] = __fdiv_rn(a, b);
  row[8] = __fsqrt_rn(fabsf(a));
  row[9] = __frcp_rn(b);
  row[10] = fminf(a, b) + fmaxf(a, b);
  row[11] = rintf(a) + floorf(b) - ceilf(a) + truncf(b) + roundf(a);
}

template <void (*kKernel)(const float*, float*, int), int kColumns>
torch::Tensor columns(torch::Tensor x) {
  auto out = torch::empty({x.numel(), kColumns}, x.options());
  kKernel<<<(x.numel() + 127) / 128, 128, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
torch::Tensor roundings(torch::Tensor x, torch::Tensor y) {
  auto out = torch::empty({x.numel(), 12}, x.options());
  rounding_kernel<<<(x.numel() + 127) / 128, 128, 0, stream()>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                                                 out.data_ptr<float>(), x.numel());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &columns<full_kernel, 16>);
  m.def("math_functions", &columns<full_kernel, 16>);
  m.def("fast_functions", &columns<fast_kernel, 8>);
  m.def("roundings", &roundings);
}
