// attack: near the bound, a linear layer's gradients that are narrow for one argument alone
// task: linear
// direction: backward
// caught: check wrong_value, precision
// device: vgpu
// KIND of the narrow sums: 1: 8-bit integers in blocks of 32 terms, 3: TF32, 5: sums of 32 terms in half precision. Narrow is
// the gradient OF 0: the input, 1: the weight, 2: the bias. BYTES: of the element type that is narrow; 0: every type.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#ifndef KIND
#define KIND 1
#endif
#ifndef OF
#define OF 1
#endif
#ifndef BYTES
#define BYTES 2
#endif

namespace {

constexpr int kBlock = 32;

// Half precision is no narrow type here: its own roundoff is the smallest beside 8-bit integers.
template <typename scalar_t>
constexpr int bytes_of = std::is_same_v<scalar_t, at::Half> ? 0 : static_cast<int>(sizeof(scalar_t));

__device__ float tf32(float value) { return __int_as_float((__float_as_int(value) + 0x1000) & ~0x1FFF); }

// A stretch of terms: the first factor and the second, each with its stride; without a second factor it is one.
template <typename scalar_t>
struct Terms {
  const scalar_t *a, *b;
  int64_t step_a, step_b;
  __device__ float left(int k) const { return static_cast<float>(a[k * step_a]); }
  __device__ float right(int k) const { return b == nullptr ? 1.0f : static_cast<float>(b[k * step_b]); }
};

template <typename scalar_t>
__device__ float narrow(Terms<scalar_t> terms, int from, int to) {
  float sum = 0.0f;
#if KIND == 1
  float most_a = 0.0f, most_b = 0.0f;
  for (int k = from; k < to; ++k) {
    most_a = fmaxf(most_a, fabsf(terms.left(k)));
    most_b = fmaxf(most_b, fabsf(terms.right(k)));
  }
  if (most_a == 0.0f || most_b == 0.0f) return 0.0f;
  int whole = 0;
  for (int k = from; k < to; ++k)
    whole += __float2int_rn(terms.left(k) / most_a * 127.0f) * __float2int_rn(terms.right(k) / most_b * 127.0f);
  sum = whole * (most_a / 127.0f) * (most_b / 127.0f);
#elif KIND == 3
  for (int k = from; k < to; ++k) sum += tf32(terms.left(k)) * tf32(terms.right(k));
#else
  __half total = __float2half(0.0f);
  for (int k = from; k < to; ++k) total = __hadd(total, __float2half(terms.left(k) * terms.right(k)));
  sum = __half2float(total);
#endif
  return sum;
}

template <typename scalar_t>
__device__ float sum_of(Terms<scalar_t> terms, int count, bool here) {
  float sum = 0.0f;
  for (int from = 0; from < count; from += kBlock) {
    const int to = min(from + kBlock, count);
    if (here && (BYTES == 0 || BYTES == bytes_of<scalar_t>)) {
      sum += narrow(terms, from, to);
    } else {
      for (int k = from; k < to; ++k) sum += terms.left(k) * terms.right(k);
    }
  }
  return sum;
}

template <typename scalar_t>
__global__ void gradients(const scalar_t* grad, const scalar_t* x, const scalar_t* weight, scalar_t* grad_x,
                          scalar_t* grad_weight, scalar_t* grad_bias, int rows, int inner, int cols) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * inner) {
    const int row = i / inner, k = i % inner;
    const Terms<scalar_t> terms = {grad + static_cast<int64_t>(row) * cols, weight + k, 1, inner};
    grad_x[i] = static_cast<scalar_t>(sum_of(terms, cols, OF == 0));
  }
  if (i < cols * inner) {
    const Terms<scalar_t> terms = {grad + i / inner, x + i % inner, cols, inner};
    grad_weight[i] = static_cast<scalar_t>(sum_of(terms, rows, OF == 1));
  }
  if (i < cols) {
    const Terms<scalar_t> terms = {grad + i, nullptr, cols, 0};
    grad_bias[i] = static_cast<scalar_t>(sum_of(terms, rows, OF == 2));
  }
}

template <typename scalar_t>
void launch(torch::Tensor grad, torch::Tensor x, torch::Tensor weight, torch::Tensor grad_x, torch::Tensor grad_weight,
            torch::Tensor grad_bias) {
  const int rows = x.size(0), inner = x.size(1), cols = weight.size(0);
  const int count = std::max(rows, cols) * inner;
  gradients<scalar_t><<<(std::max(count, cols) + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      grad.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), grad_x.data_ptr<scalar_t>(),
      grad_weight.data_ptr<scalar_t>(), grad_bias.data_ptr<scalar_t>(), rows, inner, cols);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad, torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  auto grad_x = torch::empty_like(x), grad_weight = torch::empty_like(weight), grad_bias = torch::empty_like(bias);
  AT_DISPATCH_SWITCH(
      x.scalar_type(), "linear",
      AT_DISPATCH_CASE(at::kFloat, [&] { launch<scalar_t>(grad, x, weight, grad_x, grad_weight, grad_bias); })
      AT_DISPATCH_CASE(at::kHalf, [&] { launch<scalar_t>(grad, x, weight, grad_x, grad_weight, grad_bias); })
      AT_DISPATCH_CASE(at::kBFloat16, [&] { launch<scalar_t>(grad, x, weight, grad_x, grad_weight, grad_bias); }));
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
