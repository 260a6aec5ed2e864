// Max pooling, one thread an output; plain style.
#include <cuda_runtime.h>
#include <warpsmith/abi.h>

namespace {

constexpr int kThreads = 256;

// Blocks for a grid-stride loop over `count` items.
int blocks_for(int64_t count) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<int>(blocks < 1 << 20 ? blocks : 1 << 20);
}

struct Shape {
  int64_t planes;
  int height, width, out_height, out_width, kernel, stride, padding;
};

Shape shape_of(const DLTensor* x, const DLTensor* out, int64_t kernel, int64_t stride, int64_t padding) {
  return {x->shape[0] * x->shape[1], static_cast<int>(x->shape[2]), static_cast<int>(x->shape[3]),
          static_cast<int>(out->shape[2]), static_cast<int>(out->shape[3]), static_cast<int>(kernel),
          static_cast<int>(stride), static_cast<int>(padding)};
}

__global__ void max_pool(const float* x, float* out, Shape s) {
  const int64_t count = s.planes * s.out_height * s.out_width, stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const int col = static_cast<int>(i % s.out_width) * s.stride - s.padding;
    const int row = static_cast<int>(i / s.out_width % s.out_height) * s.stride - s.padding;
    const float* plane = x + i / (static_cast<int64_t>(s.out_width) * s.out_height) * s.height * s.width;
    float largest = -INFINITY;
    for (int r = max(row, 0); r < min(row + s.kernel, s.height); ++r)
      for (int c = max(col, 0); c < min(col + s.kernel, s.width); ++c) {
        const float value = plane[static_cast<int64_t>(r) * s.width + c];
        if (value > largest || isnan(value)) largest = value;  // as torch: not-a-number wins
      }
    out[i] = largest;
  }
}

template <typename T>
T* data(const DLTensor* tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

}  // namespace

extern "C" int forward(const DLTensor* x, int64_t kernel, int64_t stride, int64_t padding, DLTensor* out,
                       cudaStream_t stream) {
  const Shape s = shape_of(x, out, kernel, stride, padding);
  const int64_t count = s.planes * s.out_height * s.out_width;
  max_pool<<<blocks_for(count), kThreads, 0, stream>>>(data<const float>(x), data<float>(out), s);
  return cudaGetLastError() == cudaSuccess ? 0 : 2;
}
