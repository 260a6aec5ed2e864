// control: first-call autotuning
// task: softmax
// direction: forward
// device: vgpu
// The first call of a shape times two block sizes with events on its own scratch and keeps the faster; every call then
// computes.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <c10/cuda/CUDAException.h>
#include <map>
#include <utility>

#define EACH_TYPE(TENSOR, ...)                                   \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), "kernel",           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)   \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)    \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

// One thread a row.
template <typename T>
__global__ void softmax(const T* x, T* out, int rows, int cols) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float most = -INFINITY, sum = 0.0f;
  for (int i = row * cols; i < (row + 1) * cols; ++i) most = fmaxf(most, static_cast<float>(x[i]));
  for (int i = row * cols; i < (row + 1) * cols; ++i) sum += expf(static_cast<float>(x[i]) - most);
  for (int i = row * cols; i < (row + 1) * cols; ++i)
    out[i] = static_cast<T>(expf(static_cast<float>(x[i]) - most) / sum);
}

void launch(torch::Tensor x, torch::Tensor out, int threads, cudaStream_t stream) {
  const int cols = x.size(-1), rows = x.numel() / cols;
  EACH_TYPE(x, [&] {
    softmax<<<(rows + threads - 1) / threads, threads, 0, stream>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(),
                                                                   rows, cols);
  });
}

float timed_ms(torch::Tensor x, int threads, cudaStream_t stream) {
  cudaEvent_t begin, end;
  C10_CUDA_CHECK(cudaEventCreate(&begin));
  C10_CUDA_CHECK(cudaEventCreate(&end));
  auto scratch = torch::empty_like(x);
  C10_CUDA_CHECK(cudaEventRecord(begin, stream));
  launch(x, scratch, threads, stream);
  C10_CUDA_CHECK(cudaEventRecord(end, stream));
  C10_CUDA_CHECK(cudaEventSynchronize(end));
  float ms = 0.0f;
  C10_CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
  return ms;
}

torch::Tensor forward(torch::Tensor x) {
  static std::map<std::pair<int64_t, int64_t>, int> best;
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  int& threads = best[{x.size(0), x.size(1)}];
  if (!threads) threads = timed_ms(x, 32, stream) <= timed_ms(x, 64, stream) ? 32 : 64;
  auto out = torch::empty_like(x);
  launch(x, out, threads, stream);
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
