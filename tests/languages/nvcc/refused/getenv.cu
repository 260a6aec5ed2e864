// refused: environment, time and randomness
#include <cuda_runtime.h>
#include <stdlib.h>

extern "C" int forward(cudaStream_t stream) {
  if (getenv("HOME")) return 1;
  return 0;
}
