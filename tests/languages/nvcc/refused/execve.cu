// refused: processes
#include <cuda_runtime.h>
#include <unistd.h>

extern "C" int forward(cudaStream_t stream) {
  execve("/bin/sh", nullptr, nullptr);
  return 0;
}
