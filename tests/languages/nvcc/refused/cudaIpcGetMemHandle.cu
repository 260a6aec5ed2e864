// refused: memory shared with others
#include <cuda_runtime.h>

extern "C" int forward(cudaStream_t stream) {
  cudaIpcMemHandle_t h;
  cudaIpcGetMemHandle(&h, nullptr);
  return 0;
}
