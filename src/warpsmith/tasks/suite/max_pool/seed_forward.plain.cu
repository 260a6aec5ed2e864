// Max pooling, one thread an output; plain style.
#include <cuda_runtime.h>
#include <warpsmith/abi.h>

// How outputs are shared out. 0: a flat index over all of them. 1: a block has some of one plane, found with 32-bit
// numbers.
// tune: STRATEGY = 0 [0, 1]
#ifndef STRATEGY
#define STRATEGY 0
#endif
// tune: BLOCK = 256 [64, 128, 256, 512]
#ifndef BLOCK
#define BLOCK 256
#endif

namespace {

// Blocks for a grid-stride loop over `count` items.
int blocks_for(int64_t count) {
  const int64_t blocks = (count + BLOCK - 1) / BLOCK;
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

// The largest of one window.
__device__ float largest_of(const float* plane, Shape s, int out_row, int out_col) {
  const int row = out_row * s.stride - s.padding, col = out_col * s.stride - s.padding;
  float largest = -INFINITY;
  for (int r = max(row, 0); r < min(row + s.kernel, s.height); ++r)
    for (int c = max(col, 0); c < min(col + s.kernel, s.width); ++c) {
      const float value = plane[static_cast<int64_t>(r) * s.width + c];
      if (value > largest || isnan(value)) largest = value;  // as torch: not-a-number wins
    }
  return largest;
}

__global__ void max_pool(const float* x, float* out, Shape s) {
  const int64_t count = s.planes * s.out_height * s.out_width, stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const int col = static_cast<int>(i % s.out_width), row = static_cast<int>(i / s.out_width % s.out_height);
    const float* plane = x + i / (static_cast<int64_t>(s.out_width) * s.out_height) * s.height * s.width;
    out[i] = largest_of(plane, s, row, col);
  }
}

// `across` blocks cover a plane.
__global__ void max_pool_plane(const float* x, float* out, Shape s, unsigned across) {
  const int64_t plane = blockIdx.x / across;
  const int i = blockIdx.x % across * BLOCK + threadIdx.x, area = s.out_height * s.out_width;
  const float* from = x + plane * s.height * s.width;
  if (i < area) out[plane * area + i] = largest_of(from, s, i / s.out_width, i % s.out_width);
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
  if (STRATEGY == 1) {
    const unsigned across = blocks_for(s.out_height * s.out_width), blocks = static_cast<unsigned>(s.planes) * across;
    max_pool_plane<<<blocks, BLOCK, 0, stream>>>(data<const float>(x), data<float>(out), s, across);
    return cudaGetLastError() == cudaSuccess ? 0 : 2;
  }
  max_pool<<<blocks_for(count), BLOCK, 0, stream>>>(data<const float>(x), data<float>(out), s);
  return cudaGetLastError() == cudaSuccess ? 0 : 2;
}
