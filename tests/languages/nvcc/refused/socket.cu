// refused: sockets
#include <cuda_runtime.h>
#include <sys/socket.h>

extern "C" int forward(cudaStream_t stream) {
  socket(2, 1, 0);
  return 0;
}
