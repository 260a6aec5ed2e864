// control: a slow first call
// task: max_pool
// direction: forward
// device: vgpu
// The first call of a geometry builds a table of window corners on the host and keeps it, as a library keeps a plan.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include <c10/cuda/CUDAException.h>
#include <map>
#include <vector>

namespace {

// One thread an output; corners holds the row and column where each window of a plane begins.
__global__ void pool(const float* x, const int2* corners, float* out, int height, int width, int kernel, int windows,
                     int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int2 corner = corners[i % windows];
  const float* plane = x + i / windows * height * width;
  float best = -INFINITY;
  for (int r = max(corner.x, 0); r < min(corner.x + kernel, height); ++r)
    for (int c = max(corner.y, 0); c < min(corner.y + kernel, width); ++c) best = fmaxf(best, plane[r * width + c]);
  out[i] = best;
}

int2* plan_for(int out_height, int out_width, int stride, int padding) {
  std::vector<int2> corners;
  for (int row = 0; row < out_height; ++row)
    for (int col = 0; col < out_width; ++col) corners.push_back({row * stride - padding, col * stride - padding});
  int2* made = nullptr;
  C10_CUDA_CHECK(cudaMalloc(&made, corners.size() * sizeof(int2)));
  C10_CUDA_CHECK(cudaMemcpy(made, corners.data(), corners.size() * sizeof(int2), cudaMemcpyHostToDevice));
  return made;
}

torch::Tensor forward(torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding) {
  static std::map<std::vector<int>, int2*> plans;
  const int height = x.size(2), width = x.size(3), k = kernel, s = stride, p = padding;
  const int out_height = (height + 2 * p - k) / s + 1, out_width = (width + 2 * p - k) / s + 1;
  auto out = torch::empty({x.size(0), x.size(1), out_height, out_width}, x.options());
  int2*& corners = plans[{out_height, out_width, s, p}];
  if (!corners) corners = plan_for(out_height, out_width, s, p);
  const int count = out.numel();
  pool<<<(count + 31) / 32, 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), corners, out.data_ptr<float>(), height, width, k, out_height * out_width, count);
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
