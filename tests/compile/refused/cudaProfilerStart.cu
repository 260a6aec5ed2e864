// refused: profilers and monitors
#include <cuda_runtime.h>
#include <cuda_profiler_api.h>

extern "C" int forward(cudaStream_t stream) {
  cudaProfilerStart();
  return 0;
}
