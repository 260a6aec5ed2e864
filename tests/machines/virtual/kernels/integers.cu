// Integer instructions and conversions, one column of the result an operation.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }

__global__ void bits_kernel(const int* a, const int* b, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned x = a[i], y = b[i];
  int* row = out + i * 12;
  row[0] = __popc(x);
  row[1] = __clz(x);
  row[2] = __brev(x);
  row[3] = __ffs(x);
  row[4] = __funnelshift_l(x, y, y);
  row[5] = __funnelshift_r(x, y, y);
  row[6] = __byte_perm(x, y, 0x7215);
  row[7] = __umulhi(x, y);
  row[8] = __mulhi(a[i], b[i]);
  row[9] = __umul24(x, y);
  row[10] = __dp4a(a[i], b[i], i);
  row[11] = __popcll((static_cast<unsigned long long>(x) << 32) | y);
}

// Shifts beyond the width, division and remainder by numbers that are not zero, saturation, 64-bit products.
__global__ void arithmetic_kernel(const int* a, const int* b, int64_t* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int x = a[i], y = b[i] | 1;
  unsigned u = x, v = y;
  int64_t* row = out + i * 12;
  row[0] = x / 7;
  row[1] = x % 10;
  row[2] = u / v;
  row[3] = u % v;
  row[4] = static_cast<int64_t>(x) * y;
  row[5] = static_cast<int64_t>(static_cast<unsigned long long>(u) * v >> 3);
  row[6] = min(x, y) ^ max(u, v);
  row[7] = static_cast<int>(static_cast<unsigned>(abs(x >> 1)) + (x & ~y | 5));
  row[8] = __sad(x, y, 3u);
  row[9] = __hadd(x, y);
  row[10] = __mul64hi(row[4], row[5] - (1LL << 59));
  row[11] = row[4] / (y - (1LL << 33));
}

// PTX clamps a shift amount to the width; C++ leaves it undefined, so it is asked for by name.
__global__ void shift_kernel(const int* a, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned amount = i;  // 0 .. 63
  int* row = out + i * 4;
  asm("shl.b32 %0, %1, %2;" : "=r"(row[0]) : "r"(a[i]), "r"(amount));
  asm("shr.u32 %0, %1, %2;" : "=r"(row[1]) : "r"(a[i]), "r"(amount));
  asm("shr.s32 %0, %1, %2;" : "=r"(row[2]) : "r"(a[i]), "r"(amount));
  asm("bfe.s32 %0, %1, %2, 7;" : "=r"(row[3]) : "r"(a[i]), "r"(amount));
}

// Columns: rn, rz, ru, rd of a float to int; saturated; to unsigned; to 8 bits and back; the float's bits.
__global__ void convert_kernel(const float* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  int* row = out + i * 8;
  row[0] = __float2int_rn(v);
  row[1] = __float2int_rz(v);
  row[2] = __float2int_ru(v);
  row[3] = __float2int_rd(v);
  row[4] = static_cast<int>(__float2uint_rz(v));
  row[5] = static_cast<signed char>(__float2int_rz(v));
  row[6] = __float_as_int(v);
  row[7] = __float_as_int(__int2float_rn(__float_as_int(v)));
}

__global__ void small_kernel(const unsigned char* a, const int16_t* b, int16_t* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = static_cast<int16_t>(a[i] * 3 - b[i] + (b[n - 1 - i] >> 2));
}

torch::Tensor bit_operations(torch::Tensor a, torch::Tensor b) {
  auto out = torch::empty({a.numel(), 12}, a.options());
  bits_kernel<<<(a.numel() + 127) / 128, 128, 0, stream()>>>(a.data_ptr<int>(), b.data_ptr<int>(), out.data_ptr<int>(),
                                                             a.numel());
  return out;
}
torch::Tensor integer_arithmetic(torch::Tensor a, torch::Tensor b) {
  auto out = torch::empty({a.numel(), 12}, a.options().dtype(torch::kInt64));
  arithmetic_kernel<<<(a.numel() + 127) / 128, 128, 0, stream()>>>(a.data_ptr<int>(), b.data_ptr<int>(),
                                                                   out.data_ptr<int64_t>(), a.numel());
  return out;
}
torch::Tensor shifts(torch::Tensor a) {
  auto out = torch::empty({a.numel(), 4}, a.options());
  shift_kernel<<<1, 64, 0, stream()>>>(a.data_ptr<int>(), out.data_ptr<int>(), a.numel());
  return out;
}
torch::Tensor conversions(torch::Tensor x) {
  auto out = torch::empty({x.numel(), 8}, x.options().dtype(torch::kInt32));
  convert_kernel<<<(x.numel() + 127) / 128, 128, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<int>(), x.numel());
  return out;
}
torch::Tensor small_integers(torch::Tensor a, torch::Tensor b) {
  auto out = torch::empty_like(b);
  small_kernel<<<(a.numel() + 127) / 128, 128, 0, stream()>>>(a.data_ptr<uint8_t>(), b.data_ptr<int16_t>(),
                                                              out.data_ptr<int16_t>(), a.numel());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &bit_operations);
  m.def("bit_operations", &bit_operations);
  m.def("integer_arithmetic", &integer_arithmetic);
  m.def("shifts", &shifts);
  m.def("conversions", &conversions);
  m.def("small_integers", &small_integers);
}
