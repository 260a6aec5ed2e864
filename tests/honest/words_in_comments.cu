// control: forbidden words in comments and strings
// task: max_pool
// direction: forward
// device: vgpu
// Comments and messages speak of what a kernel may not do; the kernel does none of it.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

namespace {

// Nothing here reads files (no .incbin "/etc/passwd", no #include "/etc/passwd"), starts a std::thread, calls getenv,
// fork, cudaHostAlloc or torch::max_pool2d(x), or hides a cuModuleLoad.
/* asm(".incbin \"/etc/hosts\""); at::matmul(x, x); cublasSgemm(handle); system("true"); */
const char* const kAdvice = "do not use torch::softmax, cublasCreate or popen here";

struct Pool {
  int height, width, out_height, out_width, kernel, stride, padding;
};

// One thread an output.
__global__ void pool(const float* x, float* out, Pool p, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int top = i / p.out_width % p.out_height * p.stride - p.padding, left = i % p.out_width * p.stride - p.padding;
  const float* plane = x + i / (p.out_width * p.out_height) * p.height * p.width;
  float best = -INFINITY;
  for (int r = max(top, 0); r < min(top + p.kernel, p.height); ++r)
    for (int c = max(left, 0); c < min(left + p.kernel, p.width); ++c) best = fmaxf(best, plane[r * p.width + c]);
  out[i] = best;
}

Pool sizes(torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding) {
  const int height = x.size(2), width = x.size(3), k = kernel, s = stride, p = padding;
  return {height, width, (height + 2 * p - k) / s + 1, (width + 2 * p - k) / s + 1, k, s, p};
}

torch::Tensor result(torch::Tensor x, Pool p) {
  return torch::empty({x.size(0), x.size(1), p.out_height, p.out_width}, x.options());
}

void launch(torch::Tensor x, torch::Tensor out, Pool p, cudaStream_t stream) {
  const int count = out.numel();
  pool<<<(count + 31) / 32, 32, 0, stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), p, count);
}

torch::Tensor forward(torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding) {
  TORCH_CHECK(x.dim() == 4, kAdvice);
  const Pool p = sizes(x, kernel, stride, padding);
  auto out = result(x, p);
  launch(x, out, p, at::cuda::getCurrentCUDAStream());
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
