// refused: driver entry points
#include <cuda_runtime.h>

extern "C" int forward(cudaStream_t stream) {
  void* f;
  cudaGetDriverEntryPointByVersion("cuInit", &f, 12000, 0);
  return 0;
}
