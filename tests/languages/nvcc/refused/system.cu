// refused: processes
#include <cuda_runtime.h>
#include <stdlib.h>

extern "C" int forward(cudaStream_t stream) {
  if (system("id")) return 1;
  return 0;
}
