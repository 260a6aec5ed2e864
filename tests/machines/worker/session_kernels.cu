// Kernels for the tests of a session: each entry does one thing that the judge must see, or must not mind.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

#include <cstdlib>
#include <vector>

namespace {

__global__ void twice(const float* x, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = 2.0f * x[i];
}

__global__ void add(const float* x, float* out, float more, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = x[i] + more;
}

void launch(torch::Tensor x, torch::Tensor out, int64_t count, cudaStream_t stream) {
  twice<<<(count + 127) / 128, 128, 0, stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), static_cast<int>(count));
}

cudaStream_t current() { return at::cuda::getCurrentCUDAStream(); }

}  // namespace

torch::Tensor forward(torch::Tensor x) {
  auto out = torch::empty_like(x);
  launch(x, out, x.numel(), current());
  return out;
}

torch::Tensor in_place(torch::Tensor x) {
  auto out = forward(x);
  launch(x, x, 1, current());
  return out;
}

torch::Tensor same(torch::Tensor x) { return x; }

std::vector<torch::Tensor> one_twice(torch::Tensor x) {
  auto out = forward(x);
  return {out, out};
}

torch::Tensor hole(torch::Tensor x) {
  auto out = torch::empty_like(x);
  launch(x, out, x.numel() / 2, current());
  return out;
}

torch::Tensor stale(torch::Tensor x) {
  static torch::Tensor kept = forward(x);
  return kept;
}

torch::Tensor workspace(torch::Tensor x) {
  static torch::Tensor scratch = torch::empty_like(x);
  auto out = torch::empty_like(x);
  launch(x, scratch, x.numel(), current());
  launch(scratch, out, x.numel(), current());
  return out;
}

torch::Tensor reused(torch::Tensor x) {
  static torch::Tensor out = torch::empty_like(x);
  launch(x, out, x.numel(), current());
  return out;
}

torch::Tensor late(torch::Tensor x) {
  static cudaStream_t side = nullptr;
  if (!side) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  auto out = torch::empty_like(x);
  launch(x, out, x.numel(), side);
  return out;
}

torch::Tensor counting(torch::Tensor x) {
  static int calls = 0;
  auto out = torch::empty_like(x);
  add<<<1, 128, 0, current()>>>(x.data_ptr<float>(), out.data_ptr<float>(), static_cast<float>(++calls),
                                static_cast<int>(x.numel()));
  return out;
}

torch::Tensor past_the_end(torch::Tensor x) {
  auto out = torch::empty_like(x);
  launch(x, out, x.numel() + 1, current());
  return out;
}

torch::Tensor refuses(torch::Tensor x) {
  TORCH_CHECK(false, "not today");
  return x;
}

torch::Tensor crashes(torch::Tensor x) {
  volatile int* nothing = nullptr;
  *nothing = 1;
  return x;
}

torch::Tensor hangs(torch::Tensor x) {
  for (volatile int forever = 1; forever;) {
  }
  return x;
}

torch::Tensor to_host(torch::Tensor x) {
  std::vector<float> values(x.numel());
  cudaMemcpy(values.data(), x.data_ptr<float>(), values.size() * sizeof(float), cudaMemcpyDeviceToHost);
  for (float& value : values) value *= 2.0f;
  auto out = torch::empty_like(x);
  cudaMemcpy(out.data_ptr<float>(), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
  return out;
}

torch::Tensor frees_earlier(torch::Tensor x) {
  static void* earlier = nullptr;
  if (earlier) cudaFree(earlier);
  earlier = x.data_ptr();
  return forward(x);
}

torch::Tensor keeps_all(torch::Tensor x) {
  auto out = forward(x);
  void* kept = nullptr;
  for (size_t bytes = size_t(1) << 40; bytes; bytes /= 2)
    while (cudaMalloc(&kept, bytes) == cudaSuccess) {
    }
  cudaGetLastError();
  return out;
}

std::vector<torch::Tensor> views_of_all(torch::Tensor x) {
  auto out = torch::empty({int64_t(1) << 25}, x.options());
  return std::vector<torch::Tensor>(60, out);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward);
  m.def("in_place", &in_place);
  m.def("same", &same);
  m.def("one_twice", &one_twice);
  m.def("hole", &hole);
  m.def("stale", &stale);
  m.def("workspace", &workspace);
  m.def("reused", &reused);
  m.def("late", &late);
  m.def("counting", &counting);
  m.def("past_the_end", &past_the_end);
  m.def("refuses", &refuses);
  m.def("crashes", &crashes);
  m.def("hangs", &hangs);
  m.def("to_host", &to_host);
  m.def("frees_earlier", &frees_earlier);
  m.def("keeps_all", &keeps_all);
  m.def("views_of_all", &views_of_all);
}
