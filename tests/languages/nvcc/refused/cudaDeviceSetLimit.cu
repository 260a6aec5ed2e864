// refused: limits and settings
#include <cuda_runtime.h>

extern "C" int forward(cudaStream_t stream) {
  cudaDeviceSetLimit(cudaLimitStackSize, 1024);
  return 0;
}
