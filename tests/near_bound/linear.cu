// attack: near the bound, a linear layer that is narrow for a share of its work
// task: linear
// direction: forward
// caught: check wrong_value, precision
// device: vgpu
// KIND of the narrow products: 1: 8-bit integers in blocks of 32 terms, 2: bfloat16, 3: TF32, 4: three products of
// bfloat16 halves, 5: sums in half precision. Narrow is the share of TERMS of a hundred, in the rows from ROW_FROM (a
// hundredth of them) on, in the columns from COL_FROM on and in the LAST_COLS last ones; SCATTERED: the terms are spread
// over the sum, else they begin at the TERMS_FROMth hundredth. SMALL: only terms whose input is below it, in thousandths.
// LARGE: only products of so many terms in all, or more.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#ifndef KIND
#define KIND 1
#endif
#ifndef TERMS
#define TERMS 35
#endif
#ifndef ROW_FROM
#define ROW_FROM 0
#endif
#ifndef COL_FROM
#define COL_FROM 0
#endif
#ifndef SCATTERED
#define SCATTERED 0
#endif
#ifndef LAST_COLS
#define LAST_COLS (1 << 30)
#endif
#ifndef TERMS_FROM
#define TERMS_FROM 0
#endif
#ifndef SMALL
#define SMALL 0
#endif
#ifndef LARGE
#define LARGE 0
#endif
#ifndef BYTES
#define BYTES 0  // of the element type that is narrow; 0: every type
#endif

namespace {

// Half precision is no narrow type here: its own roundoff is the smallest beside 8-bit integers.
template <typename scalar_t>
constexpr int bytes_of = std::is_same_v<scalar_t, at::Half> ? 0 : static_cast<int>(sizeof(scalar_t));

constexpr int kBlock = 32;

// Whether a term is in the narrow share; the others are exact.
__device__ bool is_chosen(float input) { return SMALL == 0 || fabsf(input) * 1000.0f < SMALL; }

__device__ float brief(float value) { return __bfloat162float(__float2bfloat16(value)); }

__device__ float tf32(float value) { return __int_as_float((__float_as_int(value) + 0x1000) & ~0x1FFF); }

// The sum of a block of narrow terms.
template <typename scalar_t>
__device__ float narrow(const scalar_t* x, const scalar_t* w, int from, int to) {
  float sum = 0.0f;
#if KIND == 1
  float most_x = 0.0f, most_w = 0.0f;
  for (int k = from; k < to; ++k) {
    if (!is_chosen(static_cast<float>(x[k]))) {
      sum += static_cast<float>(x[k]) * static_cast<float>(w[k]);
      continue;
    }
    most_x = fmaxf(most_x, fabsf(static_cast<float>(x[k])));
    most_w = fmaxf(most_w, fabsf(static_cast<float>(w[k])));
  }
  if (most_x == 0.0f || most_w == 0.0f) return sum;
  int whole = 0;
  for (int k = from; k < to; ++k)
    if (is_chosen(static_cast<float>(x[k])))
      whole += static_cast<int>(rintf(static_cast<float>(x[k]) * (127.0f / most_x))) *
               static_cast<int>(rintf(static_cast<float>(w[k]) * (127.0f / most_w)));
  sum += whole * (most_x / 127.0f) * (most_w / 127.0f);
#elif KIND == 2
  for (int k = from; k < to; ++k) sum += brief(static_cast<float>(x[k])) * brief(static_cast<float>(w[k]));
#elif KIND == 3
  for (int k = from; k < to; ++k) sum += tf32(static_cast<float>(x[k])) * tf32(static_cast<float>(w[k]));
#elif KIND == 4
  for (int k = from; k < to; ++k) {
    const float a = static_cast<float>(x[k]), b = static_cast<float>(w[k]), p = brief(a), q = brief(b);
    sum += p * q + p * brief(b - q) + brief(a - p) * q;
  }
#else
  __half total = __float2half(0.0f);
  for (int k = from; k < to; ++k)
    total = __hadd(total, __float2half(static_cast<float>(x[k]) * static_cast<float>(w[k])));
  sum = __half2float(total);
#endif
  return sum;
}

template <typename scalar_t>
__global__ void product(const scalar_t* x, const scalar_t* weight, const scalar_t* bias, scalar_t* out, int rows,
                        int inner, int cols) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  const int row = i / cols, col = i % cols;
  const bool here = row * 100 >= ROW_FROM * rows && col * 100 >= COL_FROM * cols && cols - col <= LAST_COLS &&
                    static_cast<int64_t>(rows) * inner * cols >= LARGE && (BYTES == 0 || BYTES == bytes_of<scalar_t>);
  const scalar_t *a = x + static_cast<int64_t>(row) * inner, *b = weight + static_cast<int64_t>(col) * inner;
  const int blocks = (inner + kBlock - 1) / kBlock;
  float sum = 0.0f;
  for (int block = 0; block < blocks; ++block) {
    const int from = block * kBlock, to = min(from + kBlock, inner);
    const bool chosen = SCATTERED ? (block * 37 + 11) % 100 < TERMS
                                  : block * 100 >= TERMS_FROM * blocks && block * 100 < (TERMS_FROM + TERMS) * blocks;
    if (here && chosen) {
      sum += narrow(a, b, from, to);
    } else {
      for (int k = from; k < to; ++k) sum += static_cast<float>(a[k]) * static_cast<float>(b[k]);
    }
  }
  out[i] = static_cast<scalar_t>(sum + static_cast<float>(bias[col]));
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  const int rows = x.size(0), inner = x.size(1), cols = weight.size(0);
  auto out = torch::empty({rows, cols}, x.options());
  AT_DISPATCH_SWITCH(x.scalar_type(), "linear",
                     AT_DISPATCH_CASE(at::kFloat, [&] {
                       product<scalar_t><<<(rows * cols + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
                           x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(),
                           out.data_ptr<scalar_t>(), rows, inner, cols);
                     }) AT_DISPATCH_CASE(at::kHalf, [&] {
                       product<scalar_t><<<(rows * cols + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
                           x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(),
                           out.data_ptr<scalar_t>(), rows, inner, cols);
                     }) AT_DISPATCH_CASE(at::kBFloat16, [&] {
                       product<scalar_t><<<(rows * cols + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
                           x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(),
                           out.data_ptr<scalar_t>(), rows, inner, cols);
                     }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
