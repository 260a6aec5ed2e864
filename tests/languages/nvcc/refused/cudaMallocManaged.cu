// refused: host memory seen by the device
#include <cuda_runtime.h>

extern "C" int forward(cudaStream_t stream) {
  void* p;
  cudaMallocManaged(&p, 4);
  return 0;
}
