// control: a kernel that beats torch by eight for a good reason
// task: rope
// direction: forward
// device: vgpu
// Queries and keys in one launch that reads and writes each element once, where the spelled-out torch version reads
// and writes everything several times.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <vector>

#define EACH_TYPE(TENSOR, ...)                                   \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), "kernel",           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)   \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)    \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

// One thread a pair of entries; the first `turns` pairs are queries.
template <typename T>
__global__ void rotate(const T* q, const T* k, const T* cos, const T* sin, T* out_q, T* out_k, int64_t turns,
                       int64_t pairs, int seq, int half) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= pairs) return;
  const T* from = i < turns ? q : k;
  T* to = i < turns ? out_q : out_k;
  i = i < turns ? i : i - turns;
  const int64_t row = i / half, pair = i % half, place = row * 2 * half + pair, angle = row % seq * half + pair;
  const float c = static_cast<float>(cos[angle]), s = static_cast<float>(sin[angle]);
  const float low = static_cast<float>(from[place]), high = static_cast<float>(from[place + half]);
  to[place] = static_cast<T>(low * c - high * s);
  to[place + half] = static_cast<T>(high * c + low * s);
}

std::vector<torch::Tensor> forward(torch::Tensor q, torch::Tensor k, torch::Tensor cos, torch::Tensor sin) {
  auto out_q = torch::empty_like(q), out_k = torch::empty_like(k);
  const int64_t turns = q.numel() / 2, pairs = turns + k.numel() / 2;
  const int seq = q.size(2), half = q.size(3) / 2;
  EACH_TYPE(q, [&] {
    rotate<<<static_cast<unsigned>((pairs + 255) / 256), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<scalar_t>(), k.data_ptr<scalar_t>(), cos.data_ptr<scalar_t>(), sin.data_ptr<scalar_t>(),
        out_q.data_ptr<scalar_t>(), out_k.data_ptr<scalar_t>(), turns, pairs, seq, half);
  });
  return {out_q, out_k};
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
