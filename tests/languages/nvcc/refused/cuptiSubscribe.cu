// refused: profilers and monitors
#include <cuda_runtime.h>
extern "C" int cuptiSubscribe(void*, void*, void*);

extern "C" int forward(cudaStream_t stream) {
  cuptiSubscribe(nullptr, nullptr, nullptr);
  return 0;
}
