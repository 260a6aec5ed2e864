// refused: profilers and monitors
#include <cuda_runtime.h>
extern "C" int nvmlInit_v2();

extern "C" int forward(cudaStream_t stream) {
  nvmlInit_v2();
  return 0;
}
