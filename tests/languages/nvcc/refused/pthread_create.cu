// refused: threads
#include <cuda_runtime.h>
#include <pthread.h>

extern "C" int forward(cudaStream_t stream) {
  pthread_t t; pthread_create(&t, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
  return 0;
}
