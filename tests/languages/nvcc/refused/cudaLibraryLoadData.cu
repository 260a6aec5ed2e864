// refused: module loading
#include <cuda_runtime.h>

extern "C" int forward(cudaStream_t stream) {
  cudaLibrary_t l;
  cudaLibraryLoadData(&l, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0);
  return 0;
}
