// Passes over a buffer that the L2 holds, past the L1.
// cuda: l2 2097152 ROUNDS=400
// vgpu: l2 1048576 ROUNDS=40
#include <torch/extension.h>

__global__ void passes(const float4* x, float* y, long pieces) {
  float sum = 0;
  long me = blockIdx.x * (long)blockDim.x + threadIdx.x, all = (long)gridDim.x * blockDim.x;
  for (int round = 0; round < ROUNDS; ++round) {
    for (long i = me; i < pieces; i += all) {
      float4 v = __ldcg(x + ((i + round * 4099) & (pieces - 1)));
      sum += v.x + v.y + v.z + v.w;
    }
  }
  y[me] = sum;
}

torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({132 * 8 * 256}, x.options());
  passes<<<132 * 8, 256>>>((const float4*)x.data_ptr<float>(), y.data_ptr<float>(), x.numel() / 4);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
