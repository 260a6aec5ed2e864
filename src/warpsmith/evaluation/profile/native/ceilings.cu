// Ceilings of this GPU: bandwidth of reads, writes, copies and L2 reads, and the time of an empty launch. Prints one
// line `name value` for each, in bytes per second or microseconds. The best of several tries counts, because noise only
// slows.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>

namespace {

constexpr long kBytes = 1L << 30, kL2Bytes = 16L << 20;
constexpr int kTries = 9, kThreads = 512, kUnrolled = 4, kPasses = 64;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}

// Reads data that is used once, with or without the evict-first hint: which is faster depends on the GPU.
template <bool EvictFirst>
__device__ uint4 read_once(const uint4* from) {
  return EvictFirst ? __ldcs(from) : *from;
}

template <bool EvictFirst>
__global__ void read_all(const uint4* x, unsigned* sink, long pieces) {
  unsigned sum = 0;
  const long step = (long)gridDim.x * blockDim.x;
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  for (; i + (kUnrolled - 1) * step < pieces; i += kUnrolled * step) {
    uint4 values[kUnrolled];
    for (int k = 0; k < kUnrolled; ++k) values[k] = read_once<EvictFirst>(x + i + k * step);
    for (int k = 0; k < kUnrolled; ++k) sum += values[k].x ^ values[k].y ^ values[k].z ^ values[k].w;
  }
  if (sum == 0x5eed5eedu) *sink = sum;  // keeps the loads alive
}

__global__ void write_all(uint4* y, long pieces, unsigned value) {
  const long step = (long)gridDim.x * blockDim.x;
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < pieces; i += step)
    y[i] = make_uint4(value, value, value, value);
}

template <bool EvictFirst>
__global__ void copy_all(const uint4* x, uint4* y, long pieces) {
  const long i = (blockIdx.x * (long)blockDim.x) * kUnrolled + threadIdx.x;
  uint4 values[kUnrolled];
  for (int k = 0; k < kUnrolled; ++k)
    if (i + k * blockDim.x < pieces) values[k] = read_once<EvictFirst>(x + i + k * blockDim.x);
  for (int k = 0; k < kUnrolled; ++k)
    if (i + k * blockDim.x < pieces) __stcs(y + i + k * blockDim.x, values[k]);
}

__global__ void read_l2(const uint4* x, unsigned* sink, unsigned pieces) {
  unsigned sum = 0;
  const unsigned step = gridDim.x * blockDim.x, me = blockIdx.x * blockDim.x + threadIdx.x;
  for (int pass = 0; pass < kPasses; ++pass)
#pragma unroll 8
    for (unsigned i = me; i < pieces; i += step) {
      const uint4 values = __ldcg(x + ((i + pass * 4099u) & (pieces - 1)));
      sum += values.x ^ values.y ^ values.z ^ values.w;
    }
  if (sum == 0x5eed5eedu) *sink = sum;
}

__global__ void nothing() {}

template <class Work>
double best_ms(Work work) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  float best = 1e30f;
  for (int i = 0; i < kTries + 1; ++i) {
    check(cudaDeviceSynchronize(), "synchronize");
    check(cudaEventRecord(begin), "record");
    work();
    check(cudaEventRecord(end), "record");
    check(cudaEventSynchronize(end), "kernel");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (i > 0) best = std::min(best, ms);
  }
  return best;
}

}  // namespace

int main() {
  cudaDeviceProp gpu;
  check(cudaGetDeviceProperties(&gpu, 0), "device");
  uint4 *x, *y;
  unsigned* sink;
  check(cudaMalloc(&x, kBytes), "memory");
  check(cudaMalloc(&y, kBytes), "memory");
  check(cudaMalloc(&sink, 4), "memory");
  check(cudaMemset(x, 1, kBytes), "memory");
  const long pieces = kBytes / sizeof(uint4);
  const int sms = gpu.multiProcessorCount, blocks = sms * (gpu.maxThreadsPerMultiProcessor / kThreads);
  const int copying = static_cast<int>((pieces + kThreads * kUnrolled - 1) / (kThreads * kUnrolled));
  const double read_s = 1e-3 * std::min(best_ms([&] { read_all<true><<<blocks, kThreads>>>(x, sink, pieces); }),
                                        best_ms([&] { read_all<false><<<blocks, kThreads>>>(x, sink, pieces); }));
  const double write_s = 1e-3 * best_ms([&] { write_all<<<blocks * 4, kThreads>>>(y, pieces, 7); });
  const double copy_s = 1e-3 * std::min(best_ms([&] { copy_all<true><<<copying, kThreads>>>(x, y, pieces); }),
                                        best_ms([&] { copy_all<false><<<copying, kThreads>>>(x, y, pieces); }));
  const double l2_s = 1e-3 * best_ms([&] { read_l2<<<blocks, kThreads>>>(x, sink, kL2Bytes / sizeof(uint4)); });
  const double launch_ms = best_ms([] { nothing<<<1, 32>>>(); });
  printf("read_bytes_per_s %.6g\n", kBytes / read_s);
  printf("write_bytes_per_s %.6g\n", kBytes / write_s);
  printf("copy_bytes_per_s %.6g\n", 2.0 * kBytes / copy_s);
  printf("l2_bytes_per_s %.6g\n", double(kL2Bytes) * kPasses / l2_s);
  printf("launch_us %.6g\n", launch_ms * 1e3);
}
