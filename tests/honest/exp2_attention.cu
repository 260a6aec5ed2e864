// control: attention by powers of two, keys split over warps
// task: attention
// direction: forward
// device: vgpu
// Queries are scaled by log2(e) / sqrt(dim) before the products. Each of four warps goes through every fourth block of keys
// from the last one to the first, with a running maximum; shares are rounded to the element type before they weigh
// values, as matrix units want them, and what the warps found is merged in shared memory.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#define EACH_TYPE(TENSOR, ...)                                   \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), "kernel",           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)   \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)    \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kWarps = 4, kWidest = 256, kParts = kWidest / 32;

// One block a query; a warp has 32 keys at once.
template <typename T>
__global__ void attention(const T* q, const T* k, const T* v, T* out, int seq, int dim, float scale) {
  __shared__ float query[kWidest], largest_of[kWarps], sum_of[kWarps], total_of[kWarps][kWidest];
  const int row = blockIdx.x % seq, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t head = static_cast<int64_t>(blockIdx.x - row) * dim;
  for (int d = threadIdx.x; d < dim; d += blockDim.x)
    query[d] = static_cast<float>(q[static_cast<int64_t>(blockIdx.x) * dim + d]) * scale;
  __syncthreads();
  float largest = -INFINITY, sum = 0.0f, total[kParts] = {};
  for (int block = row / 32 - warp; block >= 0; block -= kWarps) {
    const int j = block * 32 + lane;
    float score = -INFINITY;
    if (j <= row) {
      score = 0.0f;
      for (int d = 0; d < dim; ++d) score += query[d] * static_cast<float>(k[head + static_cast<int64_t>(j) * dim + d]);
    }
    float next = score;
    for (int step = 16; step > 0; step /= 2) next = fmaxf(next, __shfl_xor_sync(0xffffffffu, next, step));
    next = fmaxf(next, largest);
    const float shrink = exp2f(largest - next), share = j <= row ? exp2f(score - next) : 0.0f;
    const float rounded = static_cast<float>(static_cast<T>(share));
    sum = sum * shrink + share;
    largest = next;
    for (int part = 0; part * 32 < dim; ++part) total[part] *= shrink;
    for (int key = 0; key < 32 && block * 32 + key <= row; ++key) {
      const float one = __shfl_sync(0xffffffffu, rounded, key);
      for (int part = 0; part * 32 < dim; ++part) {
        const int d = part * 32 + lane;
        if (d < dim) total[part] += one * static_cast<float>(v[head + static_cast<int64_t>(block * 32 + key) * dim + d]);
      }
    }
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  for (int part = 0; part * 32 < dim; ++part)
    if (part * 32 + lane < dim) total_of[warp][part * 32 + lane] = total[part];
  if (lane == 0) {
    largest_of[warp] = largest;
    sum_of[warp] = sum;
  }
  __syncthreads();
  float most = -INFINITY, every = 0.0f;
  for (int other = 0; other < kWarps; ++other) most = fmaxf(most, largest_of[other]);
  for (int other = 0; other < kWarps; ++other) every += exp2f(largest_of[other] - most) * sum_of[other];
  for (int d = threadIdx.x; d < dim; d += blockDim.x) {
    float value = 0.0f;
    for (int other = kWarps - 1; other >= 0; --other) value += exp2f(largest_of[other] - most) * total_of[other][d];
    out[static_cast<int64_t>(blockIdx.x) * dim + d] = static_cast<T>(value / every);
  }
}

}  // namespace

torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
  const int seq = q.size(2), dim = q.size(3);
  auto out = torch::empty_like(q);
  const float scale = 1.4426950408889634f / sqrtf(static_cast<float>(dim));
  EACH_TYPE(q, [&] {
    attention<<<static_cast<unsigned>(q.numel() / dim), 32 * kWarps, 0, at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<scalar_t>(), k.data_ptr<scalar_t>(), v.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), seq, dim, scale);
  });
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
