// refused: raw system calls
#include <cuda_runtime.h>
#include <unistd.h>

extern "C" int forward(cudaStream_t stream) {
  syscall(39);
  return 0;
}
