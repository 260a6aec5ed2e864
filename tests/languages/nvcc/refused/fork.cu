// refused: processes
#include <cuda_runtime.h>
#include <unistd.h>

extern "C" int forward(cudaStream_t stream) {
  if (fork() == 0) return 1;
  return 0;
}
