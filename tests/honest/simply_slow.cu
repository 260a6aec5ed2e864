// control: a kernel that is simply slow
// task: max_pool
// direction: forward
// device: vgpu
// One block does everything.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

namespace {

struct Pool {
  int height, width, out_height, out_width, kernel, stride, padding;
};

__global__ void alone(const float* x, float* out, Pool p, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const int top = i / p.out_width % p.out_height * p.stride - p.padding,
        left = i % p.out_width * p.stride - p.padding;
    const float* plane = x + i / (p.out_width * p.out_height) * p.height * p.width;
    out[i] = -INFINITY;
    for (int r = max(top, 0); r < min(top + p.kernel, p.height); ++r)
      for (int c = max(left, 0); c < min(left + p.kernel, p.width); ++c) out[i] = fmaxf(out[i], plane[r * p.width + c]);
  }
}

Pool sizes(torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding) {
  const int height = x.size(2), width = x.size(3), k = kernel, s = stride, p = padding;
  return {height, width, (height + 2 * p - k) / s + 1, (width + 2 * p - k) / s + 1, k, s, p};
}

torch::Tensor result(torch::Tensor x, Pool p) {
  return torch::empty({x.size(0), x.size(1), p.out_height, p.out_width}, x.options());
}

torch::Tensor forward(torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding) {
  const Pool p = sizes(x, kernel, stride, padding);
  auto out = result(x, p);
  alone<<<1, 1024, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), p, int(out.numel()));
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
