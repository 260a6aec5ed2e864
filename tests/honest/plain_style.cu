// control: plain style: results given by the caller
// task: max_pool
// direction: forward
// device: vgpu
// No torch at all: DLPack tensors and a stream.
#include <cuda_runtime.h>
#include <warpsmith/abi.h>

namespace {

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

float* data(const DLTensor* tensor) {
  return reinterpret_cast<float*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

}  // namespace

extern "C" int forward(const DLTensor* x, int64_t kernel, int64_t stride, int64_t padding, DLTensor* out,
                       cudaStream_t stream) {
  const int64_t *from = x->shape, *to = out->shape;
  const Pool p{int(from[2]), int(from[3]), int(to[2]), int(to[3]), int(kernel), int(stride), int(padding)};
  const int count = to[0] * to[1] * to[2] * to[3];
  pool<<<(count + 31) / 32, 32, 0, stream>>>(data(x), data(out), p, count);
  return cudaGetLastError() == cudaSuccess ? 0 : 2;
}
