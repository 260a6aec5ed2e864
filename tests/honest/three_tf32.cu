// control: 3xTF32 products on the matrix unit
// task: linear_relu
// direction: forward
// device: vgpu
// Each operand is split in two TF32 parts and three products are summed in float32: nearly all of float32's precision
// at the matrix unit's rate.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

namespace {

__device__ uint32_t tf32(float value) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

// The large and the small part of an element; zeros outside of the matrix.
__device__ void split(const float* from, int row, int col, int rows, int cols, uint32_t* large, uint32_t* small) {
  const float value = row < rows && col < cols ? from[row * cols + col] : 0.0f;
  *large = tf32(value);
  *small = tf32(value - __uint_as_float(*large));
}

__device__ void multiply(float* c, const uint32_t* a, const uint32_t* b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// One warp a tile of 16 by 8.
__global__ void tile(const float* x, const float* weight, const float* bias, float* out, int rows, int inner,
    int cols) {
  const int across = (cols + 7) / 8, row0 = blockIdx.x / across * 16, col0 = blockIdx.x % across * 8;
  const int group = threadIdx.x / 4, place = threadIdx.x % 4;
  float c[4] = {}, rest[4] = {};
  for (int k = 0; k < inner; k += 8) {
    uint32_t a[4], a_small[4], b[2], b_small[2];
    for (int i = 0; i < 4; ++i)
      split(x, row0 + group + i % 2 * 8, k + place + i / 2 * 4, rows, inner, a + i, a_small + i);
    for (int i = 0; i < 2; ++i) split(weight, col0 + group, k + place + i * 4, cols, inner, b + i, b_small + i);
    multiply(rest, a_small, b);
    multiply(rest, a, b_small);
    multiply(c, a, b);
  }
  for (int i = 0; i < 4; ++i) {
    const int row = row0 + group + i / 2 * 8, col = col0 + place * 2 + i % 2;
    if (row < rows && col < cols) out[row * cols + col] = fmaxf(c[i] + rest[i] + bias[col], 0.0f);
  }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  const int rows = x.size(0), inner = x.size(1), cols = weight.size(0);
  auto out = torch::empty({rows, cols}, x.options());
  tile<<<(rows + 15) / 16 * ((cols + 7) / 8), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), rows, inner, cols);
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
