// The plain style: DLPack in, DLPack out, a stream; nothing is allocated here.
#include <warpsmith/plain.h>

static float* floats(const DLTensor* t) { return reinterpret_cast<float*>(static_cast<char*>(t->data) + t->byte_offset); }

__global__ void rows_kernel(const float* x, int64_t stride, const float* bias, float scale, float* out, int columns) {
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    out[blockIdx.x * columns + c] = x[blockIdx.x * stride + c] * scale + (bias ? bias[c] : 0.f);
}

// x may have any row stride; the bias may be absent.
extern "C" int forward(const DLTensor* x, const DLTensor* bias, double scale, DLTensor* out, cudaStream_t stream) {
  rows_kernel<<<x->shape[0], 64, 0, stream>>>(floats(x), x->strides[0], bias ? floats(bias) : nullptr,
                                              static_cast<float>(scale), floats(out), x->shape[1]);
  return cudaGetLastError();
}
