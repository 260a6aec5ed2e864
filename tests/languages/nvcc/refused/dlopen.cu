// refused: dynamic loading
#include <cuda_runtime.h>
#include <dlfcn.h>

extern "C" int forward(cudaStream_t stream) {
  dlopen("libcuda.so", RTLD_NOW);
  return 0;
}
