// A max-pool in plain style that first does a deed; DEED says which. 0 is none.
#include <cuda_runtime.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <warpsmith/abi.h>

struct Pool {
  int height, width, out_height, out_width, kernel, stride, padding;
};

__global__ void pool(const float* x, float* out, Pool p, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int top = i / p.out_width % p.out_height * p.stride - p.padding, left = i % p.out_width * p.stride - p.padding;
  const float* plane = x + i / (p.out_width * p.out_height) * p.height * p.width;
  float best = -INFINITY;
  for (int r = max(top, 0); r < min(top + p.kernel, p.height); ++r)
    for (int c = max(left, 0); c < min(left + p.kernel, p.width); ++c) best = fmaxf(best, plane[r * p.width + c]);
  out[i] = best;
}

__global__ void endless(volatile float* out) {
  while (out[0] == out[0] || out[0] != out[0]) {
  }
}

static void deed(DLTensor* out, cudaStream_t stream) {
#if DEED == 1
  *(int*)(long)getpid() = 1;
#elif DEED == 2
  for (volatile int forever = 1; forever;) {
  }
#elif DEED == 3
  _exit(0);
#elif DEED == 4
  for (;;) fork();
#elif DEED == 5
  for (;;) memset(malloc(1 << 26), 1, 1 << 26);
#elif DEED == 6
  static char page[1 << 16];
  memset(page, 'x', sizeof page);
  for (;;) fwrite(page, 1, sizeof page, stdout);
#elif DEED == 7
  memset((char*)out - 4096, 0xff, 1 << 16);
#elif DEED == 8
  kill(getppid(), SIGKILL);
  kill(-1, SIGKILL);
#elif DEED == 9
  endless<<<1, 1, 0, stream>>>((float*)out->data);
#elif DEED == 10
  for (void* more = 0; cudaMalloc(&more, 1 << 26) == 0;) {
  }
#endif
}

extern "C" int forward(const DLTensor* x, int64_t kernel, int64_t stride, int64_t padding, DLTensor* out,
                       cudaStream_t stream) {
  deed(out, stream);
  const Pool p = {(int)x->shape[2],   (int)x->shape[3], (int)out->shape[2], (int)out->shape[3],
                  (int)kernel,        (int)stride,      (int)padding};
  const int count = (int)(out->shape[0] * out->shape[1] * out->shape[2] * out->shape[3]);
  if (count) pool<<<(count + 127) / 128, 128, 0, stream>>>((const float*)x->data, (float*)out->data, p, count);
  return 0;
}
