// refused: environment, time and randomness
#include <cuda_runtime.h>
#include <time.h>

extern "C" int forward(cudaStream_t stream) {
  timespec t;
  clock_gettime(0, &t);
  return 0;
}
