// refused: memory maps
#include <cuda_runtime.h>
#include <sys/mman.h>

extern "C" int forward(cudaStream_t stream) {
  mmap(nullptr, 4096, 7, 34, -1, 0);
  return 0;
}
