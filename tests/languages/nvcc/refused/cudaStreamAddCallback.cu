// refused: host callbacks
#include <cuda_runtime.h>

extern "C" int forward(cudaStream_t stream) {
  cudaStreamAddCallback(0, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0);
  return 0;
}
