// refused: host memory seen by the device
#include <cuda_runtime.h>

extern "C" int forward(cudaStream_t stream) {
  void* p;
  cudaHostAlloc(&p, 4, 0);
  return 0;
}
