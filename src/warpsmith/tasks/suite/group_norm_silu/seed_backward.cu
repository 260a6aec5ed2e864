// Gradients of GroupNorm and SiLU: one block a group of an image, then one block a channel.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// How sums are made. 0: a block a group for the input, read twice, then a block a channel for the parameters. 1: a
// block a plane for its sums, from which those of groups and channels follow, then a block a plane for the input.
// tune: STRATEGY = 0 [0, 1]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [128, 256, 512]
#ifndef BLOCK
#define BLOCK 256
#endif
// Neighbours that a thread reads at once, where a plane's size allows.
// tune: VEC = 1 [1, 4, 8]
#ifndef VEC
#define VEC 1
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

template <typename scalar_t, int Vec>
struct alignas(sizeof(scalar_t) * Vec) Pack {
  scalar_t at[Vec];
};

template <int Vec, typename scalar_t>
__device__ void load(float (&values)[Vec], const scalar_t* from) {
  const auto pack = *reinterpret_cast<const Pack<scalar_t, Vec>*>(from);
#pragma unroll
  for (int j = 0; j < Vec; ++j) values[j] = static_cast<float>(pack.at[j]);
}

// The sum over the block, the same in every thread.
__device__ float block_sum(float value) {
  __shared__ float partial[BLOCK / 32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  __syncthreads();  // a sum before this one may still be read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0.0f;
  for (int warp = 0; warp < BLOCK / 32; ++warp) total += partial[warp];
  return total;
}

template <typename scalar_t>
struct Planes {
  const scalar_t *grad_out, *x, *weight, *bias;
  const float *mean, *rstd;
  scalar_t *grad_x, *grad_weight, *grad_bias;
  int64_t batch, channels, groups, share, plane;
};

// The neighbours at `place`: the normalized input, and the gradient that reaches it scaled and shifted, through SiLU's
// derivative.
template <int Vec, typename scalar_t>
__device__ void read(Planes<scalar_t> p, int64_t place, int64_t channel, int64_t group, float (&hat)[Vec],
                     float (&inner)[Vec]) {
  const float gain = static_cast<float>(p.weight[channel]), shift = static_cast<float>(p.bias[channel]);
  load(hat, p.x + place);
  load(inner, p.grad_out + place);
#pragma unroll
  for (int j = 0; j < Vec; ++j) {
    hat[j] = (hat[j] - p.mean[group]) * p.rstd[group];
    const float normal = hat[j] * gain + shift, open = 1.0f / (1.0f + expf(-normal));
    inner[j] *= open * (1.0f + normal * (1.0f - open));
  }
}

template <int Vec, typename scalar_t>
__device__ void write(Planes<scalar_t> p, int64_t place, int64_t channel, int64_t group, float sum, float turned) {
  const float gain = static_cast<float>(p.weight[channel]);
  float hat[Vec], inner[Vec];
  read(p, place, channel, group, hat, inner);
  Pack<scalar_t, Vec> result;
#pragma unroll
  for (int j = 0; j < Vec; ++j)
    result.at[j] = static_cast<scalar_t>((inner[j] * gain - sum - hat[j] * turned) * p.rstd[group]);
  *reinterpret_cast<Pack<scalar_t, Vec>*>(p.grad_x + place) = result;
}

template <typename scalar_t, int Vec>
__global__ void input_gradient(Planes<scalar_t> p) {
  const int64_t count = p.share * p.plane, start = blockIdx.x * count, channel0 = blockIdx.x % p.groups * p.share;
  float hat[Vec], inner[Vec], sum = 0.0f, turned = 0.0f;
  for (int64_t i = threadIdx.x * Vec; i < count; i += BLOCK * Vec) {
    const int64_t channel = channel0 + i / p.plane;
    read(p, start + i, channel, blockIdx.x, hat, inner);
    const float gain = static_cast<float>(p.weight[channel]);
    for (int j = 0; j < Vec; ++j) sum += inner[j] * gain, turned += inner[j] * gain * hat[j];
  }
  sum = block_sum(sum) / static_cast<float>(count);
  turned = block_sum(turned) / static_cast<float>(count);
  for (int64_t i = threadIdx.x * Vec; i < count; i += BLOCK * Vec)
    write<Vec>(p, start + i, channel0 + i / p.plane, blockIdx.x, sum, turned);
}

template <typename scalar_t, int Vec>
__global__ void parameter_gradients(Planes<scalar_t> p) {
  const int64_t channel = blockIdx.x;
  float hat[Vec], inner[Vec], gains = 0.0f, shifts = 0.0f;
  for (int64_t image = 0; image < p.batch; ++image) {
    const int64_t start = (image * p.channels + channel) * p.plane, group = image * p.groups + channel / p.share;
    for (int64_t i = threadIdx.x * Vec; i < p.plane; i += BLOCK * Vec) {
      read(p, start + i, channel, group, hat, inner);
      for (int j = 0; j < Vec; ++j) gains += inner[j] * hat[j], shifts += inner[j];
    }
  }
  gains = block_sum(gains);
  shifts = block_sum(shifts);
  if (threadIdx.x != 0) return;
  p.grad_weight[channel] = static_cast<scalar_t>(gains);
  p.grad_bias[channel] = static_cast<scalar_t>(shifts);
}

// The sums of one plane of one image: of the gradient, and of the gradient times the normalized input.
template <typename scalar_t, int Vec>
__global__ void plane_sums(Planes<scalar_t> p, float* sums) {
  const int64_t channel = blockIdx.x % p.channels, group = blockIdx.x / p.share, start = blockIdx.x * p.plane;
  float hat[Vec], inner[Vec], gains = 0.0f, shifts = 0.0f;
  for (int64_t i = threadIdx.x * Vec; i < p.plane; i += BLOCK * Vec) {
    read(p, start + i, channel, group, hat, inner);
    for (int j = 0; j < Vec; ++j) gains += inner[j] * hat[j], shifts += inner[j];
  }
  gains = block_sum(gains);
  shifts = block_sum(shifts);
  if (threadIdx.x == 0) sums[2 * blockIdx.x] = shifts, sums[2 * blockIdx.x + 1] = gains;
}

// The input's gradient in one plane, from the sums of its group's planes; image 0 joins those of its channel too.
template <typename scalar_t, int Vec>
__global__ void plane_gradient(Planes<scalar_t> p, const float* sums) {
  const int64_t channel = blockIdx.x % p.channels, group = blockIdx.x / p.share, start = blockIdx.x * p.plane;
  float sum = 0.0f, turned = 0.0f, gains = 0.0f, shifts = 0.0f;
  for (int64_t i = 0; i < p.share; ++i) {
    const float gain = static_cast<float>(p.weight[group % p.groups * p.share + i]);
    sum += gain * sums[2 * (group * p.share + i)], turned += gain * sums[2 * (group * p.share + i) + 1];
  }
  const float count = static_cast<float>(p.share * p.plane);
  for (int64_t i = threadIdx.x * Vec; i < p.plane; i += BLOCK * Vec)
    write<Vec>(p, start + i, channel, group, sum / count, turned / count);
  if (blockIdx.x >= p.channels || threadIdx.x != 0) return;
  for (int64_t i = channel; i < p.batch * p.channels; i += p.channels) shifts += sums[2 * i], gains += sums[2 * i + 1];
  p.grad_weight[channel] = static_cast<scalar_t>(gains);
  p.grad_bias[channel] = static_cast<scalar_t>(shifts);
}

template <typename scalar_t, int Vec>
void launch(Planes<scalar_t> p, torch::Tensor mean) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const unsigned planes = static_cast<unsigned>(p.batch * p.channels);
  if constexpr (STRATEGY == 1) {
    auto sums = torch::empty({planes, 2}, mean.options());
    plane_sums<scalar_t, Vec><<<planes, BLOCK, 0, stream>>>(p, sums.template data_ptr<float>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    plane_gradient<scalar_t, Vec><<<planes, BLOCK, 0, stream>>>(p, sums.template data_ptr<float>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  } else {
    input_gradient<scalar_t, Vec><<<static_cast<unsigned>(p.batch * p.groups), BLOCK, 0, stream>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    parameter_gradients<scalar_t, Vec><<<static_cast<unsigned>(p.channels), BLOCK, 0, stream>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                    int64_t groups, double eps, torch::Tensor mean, torch::Tensor rstd) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight.is_contiguous(), "tensors must be contiguous");
  auto grad_x = torch::empty_like(x), grad_weight = torch::empty_like(weight), grad_bias = torch::empty_like(bias);
  const int64_t channels = x.size(1), plane = x.size(2) * x.size(3);
  DISPATCH(x, "group_norm_silu_backward", [&] {
    const Planes<scalar_t> p = {
        grad_out.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(),
        mean.data_ptr<float>(), rstd.data_ptr<float>(), grad_x.data_ptr<scalar_t>(), grad_weight.data_ptr<scalar_t>(),
        grad_bias.data_ptr<scalar_t>(), x.size(0), channels, groups, channels / groups, plane};
    (plane % VEC == 0 ? launch<scalar_t, VEC> : launch<scalar_t, 1>)(p, mean);
  });
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
