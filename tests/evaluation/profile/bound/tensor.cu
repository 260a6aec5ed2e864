// Matrix products of fragments that stay in registers, four accumulators a warp.
// cuda: tensor 1024 ROUNDS=4000
// vgpu: tensor 1024 ROUNDS=48
#include <torch/extension.h>

__device__ void product(float* sum, const unsigned* a, const unsigned* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__global__ void products(const float* x, float* y) {
  unsigned a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = __float_as_uint(x[threadIdx.x % 32 + 32 * i]) & 0x3f803f80u;
  for (int i = 0; i < 2; ++i) b[i] = __float_as_uint(x[threadIdx.x % 32 + 32 * i + 128]) & 0x3f803f80u;
  float sums[4][4] = {};
  for (int i = 0; i < ROUNDS; ++i)
    for (int j = 0; j < 4; ++j) product(sums[j], a, b);
  float sum = 0;
  for (int j = 0; j < 16; ++j) sum += sums[j / 4][j % 4];
  y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({132 * 8 * 128}, x.options());
  products<<<132 * 8, 128>>>(x.data_ptr<float>(), y.data_ptr<float>());
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
