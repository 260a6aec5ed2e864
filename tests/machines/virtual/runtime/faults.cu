// Candidates that go wrong, one an entry.
#include "artifact.h"

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <unistd.h>

__global__ void bump(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1.0f;
}
__global__ void overrun(float* x, int n) { x[n + 1024 + threadIdx.x] = 1.0f; }
__global__ void spin(volatile float* x) {
  while (x[0] != -1.0f) {}
}
__global__ void talk(int lines) {
  for (int i = 0; i < lines; ++i) printf("line %d of thread %d says nothing new to anybody at all\n", i,
      int(threadIdx.x));
}
__global__ void trapped() { asm volatile("trap;"); }
__global__ void __launch_bounds__(1024) pair(float* x) {
  reinterpret_cast<float2*>(x + 1)[0] = make_float2(1.0f, 2.0f);
}

static int out_of_bounds(Call& call) {  // the error shows when somebody waits, and then stays
  overrun<<<1, 32, 0, call.stream>>>(call.x, call.n);
  OK(cudaGetLastError());
  EXPECT(cudaStreamSynchronize(call.stream) == cudaErrorIllegalAddress);
  EXPECT(cudaGetLastError() == cudaErrorIllegalAddress && cudaGetLastError() == cudaErrorIllegalAddress);
  void* more = nullptr;
  EXPECT(cudaMalloc(&more, 16) == cudaErrorIllegalAddress);
  EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  return same(call);
}
static int misaligned(Call& call) {
  pair<<<1, 1, 0, call.stream>>>(call.x);
  EXPECT(cudaStreamSynchronize(call.stream) == cudaErrorMisalignedAddress);
  return same(call);
}
static int unseen_fault(Call& call) {
  overrun<<<1, 32, 0, call.stream>>>(call.x, call.n);
  return same(call);
}
static int wild_pointer(Call& call) {
  bump<<<1, 32, 0, call.stream>>>(reinterpret_cast<float*>(0xdead0000beef00), 32);
  return same(call);
}
static int no_threads(Call& call) {
  bump<<<1, 0, 0, call.stream>>>(call.x, call.n);
  EXPECT(cudaPeekAtLastError() == cudaErrorInvalidValue);
  return same(call);
}
static int no_blocks(Call& call) {
  bump<<<0, 32, 0, call.stream>>>(call.x, call.n);
  return same(call);
}
static int too_many_threads(Call& call) {
  bump<<<1, 2048, 0, call.stream>>>(call.x, call.n);
  return same(call);
}
static int swallowed(Call& call) {  // looked at, forgotten: the finding stays
  bump<<<1, 2048, 0, call.stream>>>(call.x, call.n);
  cudaGetLastError();
  return same(call);
}
static int endless(Call& call) {
  spin<<<1, 32, 0, call.stream>>>(call.x);
  return same(call);
}
static int trap(Call& call) {
  trapped<<<1, 1, 0, call.stream>>>();
  return same(call);
}
static int chatty(Call& call) {
  talk<<<1, 32, 0, call.stream>>>(100000);
  return same(call);
}
static int managed(Call& call) {
  void* shared = nullptr;
  cudaMallocManaged(&shared, 64);
  return same(call);
}
static int set_limit(Call& call) {
  cudaDeviceSetLimit(cudaLimitStackSize, 4096);
  return same(call);
}
static int callback(Call& call) {
  cudaLaunchHostFunc(call.stream, [](void*) {}, nullptr);
  return same(call);
}
static int dereference(Call& call) {
  call.x[0] = 1.0f;
  return same(call);
}
static int bad_host_pointer(Call& call) {
  cudaMemcpy(call.x, reinterpret_cast<void*>(0x10), 16, cudaMemcpyHostToDevice);
  return same(call);
}
static int leaves(Call&) { _exit(0); }
static int aborts(Call&) { std::abort(); }
static int throws(Call&) { throw std::runtime_error("not my day"); }
static int hangs(Call& call) {
  while (true) pause();
  return same(call);
}
static int prints(Call& call) {
  static char line[1 << 16];
  std::memset(line, 'x', sizeof line);
  for (int i = 0; i < 1 << 15; ++i)
    if (write(1, line, sizeof line) < 0) break;
  return same(call);
}
static int host_bomb(Call& call) {
  for (int i = 0; i < 64; ++i) std::memset(std::malloc(size_t(1) << 28), 1, size_t(1) << 28);
  return same(call);
}
static int device_bomb(Call& call) {
  void* block = nullptr;
  while (true) OK(cudaMalloc(&block, size_t(1) << 28));
}
static int gives_host_pointer(Call& call) {
  float* out = fresh(call);
  (void)out;
  call.results[0].as.tensor->data = call.host->scratch(call.host->context, 64);
  return 1;
}
static int gives_too_long(Call& call) {
  fresh(call);
  static int64_t shape[1] = {1 << 20}, strides[1] = {1};
  call.results[0].as.tensor->shape = shape;
  call.results[0].as.tensor->strides = strides;
  return 1;
}
static int gives_negative(Call& call) {
  fresh(call);
  static int64_t shape[1] = {-1}, strides[1] = {1};
  call.results[0].as.tensor->shape = shape;
  call.results[0].as.tensor->strides = strides;
  return 1;
}
static int gives_nothing_written(Call& call) {
  fresh(call);
  return 1;
}
static int gives_a_thousand(Call&) { return 1000; }
static int forges(Call& call) {  // an answer of its own, before the worker's
  const char junk[] = "an answer that nobody asked for";
  if (write(4, junk, sizeof junk) < 0) return WS_REFUSED;
  return same(call);
}
static int answers_twice(Call& call) {  // a whole frame of the right kind, done without a result, before the worker's
  const char frame[44] = "WSF1\x01\0f\0\x18\0\0\0\0\0\0\0\xe0\xc9\x07\xc7";
  if (write(4, frame, sizeof frame) < 0) return WS_REFUSED;
  return same(call);
}

ENTRIES(ROW(out_of_bounds), ROW(misaligned), ROW(unseen_fault), ROW(wild_pointer), ROW(no_threads), ROW(no_blocks),
    ROW(too_many_threads),
        ROW(swallowed), ROW(endless), ROW(trap), ROW(chatty), ROW(managed), ROW(set_limit), ROW(callback),
            ROW(dereference),
        ROW(bad_host_pointer), ROW(leaves), ROW(aborts), ROW(throws), ROW(hangs), ROW(prints), ROW(host_bomb),
            ROW(device_bomb),
        ROW(gives_host_pointer), ROW(gives_too_long), ROW(gives_negative), ROW(gives_nothing_written),
            ROW(gives_a_thousand), ROW(forges), ROW(answers_twice))
