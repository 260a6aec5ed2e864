// One entry for each group of runtime calls; what each expects is in it.
#include "artifact.h"

#include <vector>

__device__ float table[4];
__constant__ float factors[2];

__global__ void bump(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1.0f;
}
__global__ void copy_table(float* x, int n) {
  int i = threadIdx.x;
  if (i < n && i < 4) x[i] = table[i] * factors[i & 1];
}
__global__ void hold(float* x) {
  __shared__ float kept[512];
  kept[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = kept[threadIdx.x ^ 1];
}
extern __shared__ float dynamic[];
__global__ void wide(float* x) {
  dynamic[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = dynamic[threadIdx.x] * 2.0f;
}

static dim3 blocks(int n) { return dim3((n + 255) / 256); }
#define BUMP(target, stream) bump<<<blocks(call.n), 256, 0, stream>>>(target, call.n)

static int launch(Call& call) {
  BUMP(call.x, call.stream);
  OK(cudaGetLastError());
  return same(call);
}

static int legacy_stream(Call& call) {  // no stream named: joined with the current one all the same
  BUMP(call.x, 0);
  return same(call);
}

static int memory(Call& call) {
  float *a = nullptr, *b = nullptr;
  size_t bytes = size_t(call.n) * sizeof(float), left = 0, total = 0, after = 0;
  OK(cudaMemGetInfo(&left, &total));
  OK(cudaMalloc(&a, bytes));
  OK(cudaMallocAsync(&b, bytes, call.stream));
  OK(cudaMemGetInfo(&after, &total));
  EXPECT(left - after == 2 * bytes && total >= left);
  OK(cudaMemcpyAsync(a, call.x, bytes, cudaMemcpyDeviceToDevice, call.stream));
  OK(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDefault, call.stream));
  BUMP(b, call.stream);
  OK(cudaMemcpyAsync(call.x, b, bytes, cudaMemcpyDeviceToDevice, call.stream));
  OK(cudaFreeAsync(b, call.stream));
  OK(cudaFree(a));
  OK(cudaFree(nullptr));
  EXPECT(cudaFree(reinterpret_cast<void*>(0x1234)) == cudaErrorInvalidValue);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  return same(call);
}

static int host_copies(Call& call) {
  std::vector<float> here(size_t(call.n));
  size_t bytes = here.size() * sizeof(float);
  OK(cudaMemcpy(here.data(), call.x, bytes, cudaMemcpyDeviceToHost));
  for (float& value : here) value *= 2.0f;
  OK(cudaMemcpy(call.x, here.data(), bytes, cudaMemcpyHostToDevice));
  OK(cudaMemsetAsync(call.x, 0, sizeof(float), call.stream));
  OK(cudaMemcpyAsync(here.data(), call.x, bytes, cudaMemcpyDeviceToHost, call.stream));
  EXPECT(here[0] == 0.0f && here[1] == 4.0f);
  EXPECT(cudaMemcpy(here.data(), reinterpret_cast<void*>(0x40), 16, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  return same(call);
}

static int rows(Call& call) {  // pitched memory, copies and fills in two dimensions
  void* pitched = nullptr;
  size_t pitch = 0;
  OK(cudaMallocPitch(&pitched, &pitch, 8, 4));
  EXPECT(pitch >= 8 && pitch % 256 == 0);
  OK(cudaMemset2DAsync(pitched, pitch, 0xff, 8, 4, call.stream));
  OK(cudaMemcpy2DAsync(pitched, pitch, call.x, 8, 8, 4, cudaMemcpyDeviceToDevice, call.stream));
  float here[8] = {};
  OK(cudaMemcpy2D(here, 8, pitched, pitch, 8, 4, cudaMemcpyDeviceToHost));
  EXPECT(here[0] == 1.0f && here[7] == 8.0f);
  EXPECT(cudaMemcpy2D(here, 4, pitched, pitch, 8, 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidPitchValue);
  cudaGetLastError();
  return same(call);
}

static int strided(Call& call) {  // every other place is zero, the rest a copy
  float* out = fresh(call);
  const size_t pair = 2 * sizeof(float), half = size_t(call.n) / 2;
  OK(cudaMemset2DAsync(out, pair, 0, sizeof(float), half, call.stream));
  OK(cudaMemcpy2DAsync(out + 1, pair, call.x, sizeof(float), sizeof(float), half, cudaMemcpyDeviceToDevice, call.stream));
  return 1;
}

static int symbols(Call& call) {
  float here[4] = {1, 2, 3, 4}, two[2] = {10, 100}, back[4] = {};
  size_t bytes = 0;
  void* address = nullptr;
  OK(cudaMemcpyToSymbol(table, here, sizeof here));
  OK(cudaMemcpyToSymbolAsync(factors, two, sizeof two, 0, cudaMemcpyHostToDevice, call.stream));
  OK(cudaGetSymbolSize(&bytes, table));
  OK(cudaGetSymbolAddress(&address, table));
  EXPECT(bytes == 16 && address);
  OK(cudaMemcpyFromSymbol(back, table, sizeof back));
  EXPECT(back[3] == 4.0f);
  copy_table<<<1, 32, 0, call.stream>>>(call.x, call.n);
  return same(call);
}

__device__ int left = 0;
__constant__ float added[1];

__global__ void count_calls(float* x, int n) {  // by one thread; the host knows nothing of one of the variables
  static unsigned calls;
  for (int i = 0; i < n; ++i) x[i] += 100.0f * calls + 10.0f * left + added[0];
  ++calls;
  left = 7;
}

static int counting(Call& call) {  // what variables hold was set by the host and by kernels of earlier calls
  static bool is_first = true;
  const float half = 0.5f;
  if (is_first) OK(cudaMemcpyToSymbol(added, &half, sizeof half));
  is_first = false;
  count_calls<<<1, 1, 0, call.stream>>>(call.x, call.n);
  return same(call);
}

static int pinned(Call& call) {  // lazily both ways: nothing arrives before somebody waits
  float *in = nullptr, *out = nullptr;
  OK(cudaMallocHost(&in, 16));
  OK(cudaHostAlloc(&out, 16, cudaHostAllocDefault));
  in[0] = 1.0f;
  out[0] = -1.0f;
  OK(cudaMemcpyAsync(call.x, in, 16, cudaMemcpyHostToDevice, call.stream));
  OK(cudaMemcpyAsync(out, call.x, 16, cudaMemcpyDeviceToHost, call.stream));
  in[0] = 7.0f;
  EXPECT(out[0] == -1.0f);
  OK(cudaStreamSynchronize(call.stream));
  EXPECT(out[0] == 7.0f);
  cudaPointerAttributes what{};
  OK(cudaPointerGetAttributes(&what, out));
  EXPECT(what.type == cudaMemoryTypeHost);
  OK(cudaPointerGetAttributes(&what, call.x));
  EXPECT(what.type == cudaMemoryTypeDevice && what.device == 0);
  OK(cudaFreeHost(in));
  OK(cudaFreeHost(out));
  return same(call);
}

static int streams(Call& call) {
  cudaStream_t side = nullptr;
  int least = 0, greatest = 0, priority = 0;
  unsigned flags = 0;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  OK(cudaStreamCreateWithPriority(&side, cudaStreamNonBlocking, greatest));
  OK(cudaStreamGetFlags(side, &flags));
  OK(cudaStreamGetPriority(side, &priority));
  EXPECT(flags == cudaStreamNonBlocking && priority == greatest);
  OK(cudaStreamQuery(side));
  BUMP(call.x, side);
  EXPECT(cudaStreamQuery(side) == cudaErrorNotReady);
  cudaGetLastError();
  while (cudaStreamQuery(side) == cudaErrorNotReady) {}
  cudaGetLastError();
  OK(cudaStreamSynchronize(side));
  OK(cudaStreamDestroy(side));
  BUMP(call.x, cudaStreamPerThread);
  OK(cudaStreamSynchronize(cudaStreamPerThread));
  return same(call);
}

static int events(Call& call) {
  cudaEvent_t begin = nullptr, end = nullptr;
  float ms = -1;
  OK(cudaEventCreate(&begin));
  OK(cudaEventCreateWithFlags(&end, cudaEventDefault));
  OK(cudaEventRecord(begin, call.stream));
  for (int i = 0; i < 10; ++i) BUMP(call.x, call.stream);
  OK(cudaEventRecord(end, call.stream));
  EXPECT(cudaEventQuery(end) == cudaErrorNotReady);
  EXPECT(cudaEventElapsedTime(&ms, begin, end) == cudaErrorNotReady);
  cudaGetLastError();
  OK(cudaEventSynchronize(end));
  OK(cudaEventElapsedTime(&ms, begin, end));
  EXPECT(ms > 0.03f && ms < 1.0f);  // ten launches of about four microseconds
  OK(cudaEventDestroy(begin));
  OK(cudaEventDestroy(end));
  return same(call);
}

static int joined(Call& call) {
  cudaStream_t side = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  float* out = fresh(call);
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  BUMP(call.x, call.stream);
  OK(cudaEventRecord(fork, call.stream));
  OK(cudaStreamWaitEvent(side, fork, 0));
  OK(cudaMemcpyAsync(out, call.x, size_t(call.n) * 4, cudaMemcpyDeviceToDevice, side));
  BUMP(out, side);
  OK(cudaEventRecord(join, side));
  OK(cudaStreamWaitEvent(call.stream, join, 0));
  OK(cudaStreamDestroy(side));
  return 1;
}

static int unjoined(Call& call) {  // the copy is late by as much as may be: never, as far as the caller sees
  cudaStream_t side = nullptr;
  float* out = fresh(call);
  OK(cudaMemsetAsync(out, 0, size_t(call.n) * 4, call.stream));
  OK(cudaStreamSynchronize(call.stream));
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  OK(cudaMemcpyAsync(out, call.x, size_t(call.n) * 4, cudaMemcpyDeviceToDevice, side));
  BUMP(out, side);
  return 1;
}

static int unjoined_blocking(Call& call) {
  cudaStream_t side = nullptr;
  OK(cudaStreamCreate(&side));
  BUMP(call.x, side);
  return same(call);
}

static int thread_then_legacy(Call& call) {  // the legacy default stream waits for the thread's own, and the current one for it
  BUMP(call.x, 0);
  BUMP(call.x, cudaStreamPerThread);
  BUMP(call.x, 0);
  return same(call);
}

static int pageable_copy(Call& call) {  // which is over when the function returns, and all before it on that stream
  cudaStream_t side = nullptr;
  float here[8] = {};
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  BUMP(call.x, side);
  OK(cudaMemcpyAsync(here, call.x, sizeof here, cudaMemcpyDeviceToHost, side));
  EXPECT(here[0] == 2.0f);
  return same(call);
}

static int waits_before(Call& call) {  // the host waits for the current stream first, and for the other one at the end
  cudaStream_t side = nullptr;
  float here[8] = {};
  OK(cudaStreamSynchronize(call.stream));
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  BUMP(call.x, side);
  OK(cudaMemcpyAsync(here, call.x, sizeof here, cudaMemcpyDeviceToHost, side));
  EXPECT(here[0] == 2.0f);
  return same(call);
}

static int empty_copies(Call& call) {  // wait for nothing, and nobody waits for the work between them
  cudaStream_t side = nullptr;
  float here = 0;
  OK(cudaMemcpyAsync(&here, call.x, 0, cudaMemcpyDeviceToHost, call.stream));
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  BUMP(call.x, side);
  OK(cudaMemcpyAsync(&here, call.x, 0, cudaMemcpyDeviceToHost, side));
  return same(call);
}

static int waits_for_device(Call& call) {
  cudaStream_t side = nullptr;
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  BUMP(call.x, side);
  OK(cudaDeviceSynchronize());
  return same(call);
}

__global__ void bump_parts(unsigned low, unsigned high, int n) {
  float* x = reinterpret_cast<float*>((static_cast<unsigned long long>(high) << 32 | low) >> 3);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1.0f;
}

static int disguised(Call& call) {  // joined but not forked, and no parameter is an address
  cudaStream_t side = nullptr;
  const unsigned long long shifted = reinterpret_cast<unsigned long long>(call.x) << 3;
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  bump_parts<<<blocks(call.n), 256, 0, side>>>(unsigned(shifted), unsigned(shifted >> 32), call.n);
  OK(cudaGetLastError());
  OK(cudaStreamSynchronize(side));
  return same(call);
}

static int cleared_aside(Call& call) {  // no argument is touched on the other stream, which waits for nobody
  cudaStream_t side = nullptr;
  float* out = fresh(call);
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  OK(cudaMemsetAsync(out, 0, size_t(call.n) * 4, side));
  OK(cudaStreamSynchronize(side));
  BUMP(out, call.stream);
  return 1;
}

static int disguised_after_event(Call& call) {  // the side stream waits for an event, but of a third stream that waits for nobody
  cudaStream_t side = nullptr, third = nullptr;
  cudaEvent_t other = nullptr, done = nullptr;
  const unsigned long long shifted = reinterpret_cast<unsigned long long>(call.x) << 3;
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));
  OK(cudaEventCreateWithFlags(&other, cudaEventDisableTiming));
  OK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  OK(cudaEventRecord(other, third));
  OK(cudaStreamWaitEvent(side, other, 0));
  bump_parts<<<blocks(call.n), 256, 0, side>>>(unsigned(shifted), unsigned(shifted >> 32), call.n);
  OK(cudaEventRecord(done, side));
  OK(cudaStreamWaitEvent(call.stream, done, 0));
  return same(call);
}

static int disguised_chain(Call& call) {  // forked by a chain of events over a third stream: in order, whatever it is told
  cudaStream_t side = nullptr, third = nullptr;
  cudaEvent_t first = nullptr, second = nullptr, done = nullptr;
  const unsigned long long shifted = reinterpret_cast<unsigned long long>(call.x) << 3;
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));
  for (cudaEvent_t* one : {&first, &second, &done}) OK(cudaEventCreateWithFlags(one, cudaEventDisableTiming));
  OK(cudaEventRecord(first, call.stream));
  OK(cudaStreamWaitEvent(third, first, 0));
  OK(cudaEventRecord(second, third));
  OK(cudaStreamWaitEvent(side, second, 0));
  bump_parts<<<blocks(call.n), 256, 0, side>>>(unsigned(shifted), unsigned(shifted >> 32), call.n);
  OK(cudaEventRecord(done, side));
  OK(cudaStreamWaitEvent(call.stream, done, 0));
  return same(call);
}

static int disguised_per_thread(Call& call) {  // the thread's own default stream does not wait for the current one
  const unsigned long long shifted = reinterpret_cast<unsigned long long>(call.x) << 3;
  bump_parts<<<blocks(call.n), 256, 0, cudaStreamPerThread>>>(unsigned(shifted), unsigned(shifted >> 32), call.n);
  OK(cudaStreamSynchronize(cudaStreamPerThread));
  return same(call);
}

static int disguised_legacy(Call& call) {  // the legacy default stream does
  const unsigned long long shifted = reinterpret_cast<unsigned long long>(call.x) << 3;
  bump_parts<<<blocks(call.n), 256, 0, cudaStreamLegacy>>>(unsigned(shifted), unsigned(shifted >> 32), call.n);
  return same(call);
}

__device__ float* kept_address;
__global__ void bump_kept(int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) kept_address[i] += 1.0f;
}

static int address_in_memory(Call& call) {  // no parameter is an address: the kernel loads one from device memory
  cudaStream_t side = nullptr;
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  OK(cudaMemcpyToSymbolAsync(kept_address, &call.x, sizeof call.x, 0, cudaMemcpyHostToDevice, side));
  bump_kept<<<blocks(call.n), 256, 0, side>>>(call.n);
  OK(cudaStreamSynchronize(side));
  return same(call);
}

static int graph_aside(Call& call) {  // a graph that was captured is launched where nothing waits for the current stream
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaStream_t side = nullptr;
  const unsigned long long shifted = reinterpret_cast<unsigned long long>(call.x) << 3;
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  OK(cudaStreamBeginCapture(side, cudaStreamCaptureModeThreadLocal));
  bump_parts<<<blocks(call.n), 256, 0, side>>>(unsigned(shifted), unsigned(shifted >> 32), call.n);
  OK(cudaStreamEndCapture(side, &graph));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, side));
  OK(cudaStreamSynchronize(side));
  return same(call);
}

static int captured(Call& call) {  // capture with a fork, instantiate, launch twice, update, launch
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaStream_t main = nullptr, side = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  float *y = nullptr, *z = nullptr;
  size_t bytes = size_t(call.n) * 4, count = 0;
  OK(cudaMalloc(&y, bytes));
  OK(cudaMalloc(&z, bytes));
  OK(cudaStreamSynchronize(call.stream));
  OK(cudaStreamCreateWithFlags(&main, cudaStreamNonBlocking));
  OK(cudaMemsetAsync(y, 0, bytes, main));
  OK(cudaMemsetAsync(z, 0, bytes, main));
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  OK(cudaEventCreate(&fork));
  OK(cudaEventCreate(&join));
  auto record = [&](float* target) -> cudaError_t {
    if (cudaError_t error = cudaStreamBeginCapture(main, cudaStreamCaptureModeGlobal)) return error;
    bump<<<blocks(call.n), 256, 0, main>>>(target, call.n);
    cudaEventRecord(fork, main);
    cudaStreamWaitEvent(side, fork, 0);
    bump<<<blocks(call.n), 256, 0, side>>>(z, call.n);
    bump<<<blocks(call.n), 256, 0, main>>>(target, call.n);
    cudaEventRecord(join, side);
    cudaStreamWaitEvent(main, join, 0);
    cudaStreamIsCapturing(main, &state);
    return cudaStreamEndCapture(main, &graph);
  };
  OK(record(y));
  EXPECT(state == cudaStreamCaptureStatusActive);
  OK(cudaGraphGetNodes(graph, nullptr, &count));
  EXPECT(count == 3);
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphDestroy(graph));
  OK(cudaGraphLaunch(exec, main));
  OK(cudaGraphLaunch(exec, main));
  OK(record(call.x));
  cudaGraphExecUpdateResultInfo found{};
  OK(cudaGraphExecUpdate(exec, graph, &found));
  EXPECT(found.result == cudaGraphExecUpdateSuccess);
  OK(cudaGraphLaunch(exec, main));
  float here = -1;
  OK(cudaMemcpyAsync(&here, y, 4, cudaMemcpyDeviceToHost, main));
  EXPECT(here == 4.0f);
  OK(cudaMemcpyAsync(&here, z, 4, cudaMemcpyDeviceToHost, main));
  EXPECT(here == 3.0f);
  OK(cudaStreamSynchronize(main));
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  return same(call);
}

static int built_graph(Call& call) {  // nodes added by hand, a kernel node's parameters changed
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaGraphNode_t fill = nullptr, copy = nullptr, kernel = nullptr, empty = nullptr;
  float *y = nullptr, *out = fresh(call);
  size_t bytes = size_t(call.n) * 4;
  int n = call.n;
  OK(cudaMalloc(&y, bytes));
  OK(cudaGraphCreate(&graph, 0));
  cudaMemsetParams clear{};
  clear.dst = y;
  clear.elementSize = 4;
  clear.width = size_t(n);
  clear.height = 1;
  OK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &clear));
  void* arguments[] = {&y, &n};
  cudaKernelNodeParams launch{};
  launch.func = reinterpret_cast<void*>(bump);
  launch.gridDim = blocks(n);
  launch.blockDim = dim3(256);
  launch.kernelParams = arguments;
  OK(cudaGraphAddKernelNode(&kernel, graph, &fill, 1, &launch));
  OK(cudaGraphAddEmptyNode(&empty, graph, &kernel, 1));
  OK(cudaGraphAddMemcpyNode1D(&copy, graph, &empty, 1, out, y, bytes, cudaMemcpyDeviceToDevice));
  cudaGraphNodeType type{};
  OK(cudaGraphNodeGetType(copy, &type));
  EXPECT(type == cudaGraphNodeTypeMemcpy);
  cudaKernelNodeParams seen{};
  OK(cudaGraphKernelNodeGetParams(kernel, &seen));
  EXPECT(seen.func == launch.func && seen.gridDim.x == launch.gridDim.x &&
      *static_cast<int*>(seen.kernelParams[1]) == n);
  OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, call.stream));
  int half = n / 2;  // from here only the first half is bumped
  void* fewer[] = {&y, &half};
  launch.kernelParams = fewer;
  OK(cudaGraphExecKernelNodeSetParams(exec, kernel, &launch));
  OK(cudaGraphLaunch(exec, call.stream));
  return 1;
}

static int scrambled_graph(Call& call) {  // the last node is added first, and the edges come at the end
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaGraphNode_t nodes[3] = {}, from[3] = {}, to[3] = {};
  float *y = nullptr, *out = fresh(call);
  int n = call.n;
  OK(cudaMalloc(&y, size_t(n) * 4));
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphAddMemcpyNode1D(&nodes[2], graph, nullptr, 0, out, y, size_t(n) * 4, cudaMemcpyDeviceToDevice));
  void* arguments[] = {&y, &n};
  cudaKernelNodeParams launch{};
  launch.func = reinterpret_cast<void*>(bump);
  launch.gridDim = blocks(n);
  launch.blockDim = dim3(256);
  launch.kernelParams = arguments;
  OK(cudaGraphAddKernelNode(&nodes[1], graph, nullptr, 0, &launch));
  OK(cudaGraphAddMemcpyNode1D(&nodes[0], graph, nullptr, 0, y, call.x, size_t(n) * 4, cudaMemcpyDeviceToDevice));
#if CUDART_VERSION >= 13000
  OK(cudaGraphAddDependencies(graph, nodes, nodes + 1, nullptr, 2));
#else
  OK(cudaGraphAddDependencies(graph, nodes, nodes + 1, 2));
#endif
  size_t count = 3;
#if CUDART_VERSION >= 13000
  OK(cudaGraphGetEdges(graph, from, to, nullptr, &count));
#else
  OK(cudaGraphGetEdges(graph, from, to, &count));
#endif
  EXPECT(count == 2 && from[0] != to[0] && from[2] == nullptr);
  OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, call.stream));
  return 1;
}

static int changed_graph(Call& call) {  // parameters of nodes are set before the graph is made runnable, and after it
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaGraphNode_t fill = nullptr, kernel = nullptr, copy = nullptr;
  float *y = nullptr, *out = fresh(call);
  int n = call.n, none = 0;
  OK(cudaMalloc(&y, size_t(n) * 4));
  OK(cudaGraphCreate(&graph, 0));
  cudaMemsetParams clear{};
  clear.dst = out, clear.elementSize = 4, clear.width = size_t(n), clear.height = 1;
  OK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &clear));
  void *few[] = {&y, &none}, *all[] = {&y, &n};
  cudaKernelNodeParams launch{};
  launch.func = reinterpret_cast<void*>(bump);
  launch.gridDim = blocks(n);
  launch.blockDim = dim3(256);
  launch.kernelParams = few;
  OK(cudaGraphAddKernelNode(&kernel, graph, &fill, 1, &launch));
  OK(cudaGraphAddMemcpyNode1D(&copy, graph, &kernel, 1, y, call.x, size_t(n) * 4, cudaMemcpyDeviceToDevice));
  clear.dst = y;
  launch.kernelParams = all;
  OK(cudaGraphMemsetNodeSetParams(fill, &clear));
  OK(cudaGraphKernelNodeSetParams(kernel, &launch));
  OK(cudaGraphMemcpyNodeSetParams1D(copy, out, call.x, size_t(n) * 4, cudaMemcpyDeviceToDevice));
  OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cudaGraphExecMemcpyNodeSetParams1D(exec, copy, out, y, size_t(n) * 4, cudaMemcpyDeviceToDevice));
  OK(cudaGraphLaunch(exec, call.stream));
  return 1;
}

static int spoiled_capture(Call& call) {
  cudaGraph_t graph = nullptr;
  cudaStream_t main = nullptr, side = nullptr;
  cudaEvent_t fork = nullptr;
  OK(cudaStreamCreateWithFlags(&main, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  OK(cudaEventCreate(&fork));
  OK(cudaStreamBeginCapture(main, cudaStreamCaptureModeGlobal));
  BUMP(call.x, main);
  EXPECT(cudaStreamSynchronize(main) == cudaErrorStreamCaptureUnsupported);
  EXPECT(cudaStreamEndCapture(main, &graph) == cudaErrorStreamCaptureInvalidated);
  OK(cudaStreamBeginCapture(main, cudaStreamCaptureModeRelaxed));
  OK(cudaEventRecord(fork, main));
  OK(cudaStreamWaitEvent(side, fork, 0));
  BUMP(call.x, side);
  EXPECT(cudaStreamEndCapture(main, &graph) == cudaErrorStreamCaptureUnjoined);
  EXPECT(graph == nullptr);
  cudaGetLastError();
  return same(call);
}

static int device(Call& call) {
  cudaDeviceProp properties{};
  int value = 0, count = 0, blocks_per_sm = 0;
  OK(cudaGetDeviceCount(&count));
  OK(cudaGetDeviceProperties(&properties, 0));
  EXPECT(count == 1 && properties.multiProcessorCount == 132 && properties.major == 9 && properties.warpSize == 32);
  EXPECT(std::strcmp(properties.name, "NVIDIA H200") == 0 && properties.sharedMemPerBlockOptin == 232448);
  EXPECT(properties.maxThreadsPerMultiProcessor == 2048 && properties.memoryPoolsSupported == 1 &&
      properties.cooperativeLaunch == 1);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  EXPECT(value == 132);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  EXPECT(value == 232448);
  EXPECT(cudaSetDevice(1) == cudaErrorInvalidDevice);
  EXPECT(cudaGetLastError() == cudaErrorInvalidDevice && cudaGetLastError() == cudaSuccess);
  OK(cudaRuntimeGetVersion(&value));
  EXPECT(value >= 13000);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_sm, bump, 256, 0));
  EXPECT(blocks_per_sm == 8);
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_sm, bump, 256, 100 * 1024));
  EXPECT(blocks_per_sm == 2);
  EXPECT(std::strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress") == 0);
  return same(call);
}

static int function_facts(Call& call) {
  cudaFuncAttributes facts{};
  OK(cudaFuncGetAttributes(&facts, hold));
  EXPECT(facts.sharedSizeBytes == 2048 && facts.numRegs >= 4 && facts.numRegs <= 64 &&
      facts.maxThreadsPerBlock == 1024);
  EXPECT(facts.binaryVersion == 90);
  return same(call);
}

static int opted_in(Call& call) {
  wide<<<1, 32, 100 * 1024, call.stream>>>(call.x);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  OK(cudaFuncSetAttribute(wide, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024));
  wide<<<1, 4, 100 * 1024, call.stream>>>(call.x);
  OK(cudaGetLastError());
  EXPECT(cudaFuncSetAttribute(wide, cudaFuncAttributeMaxDynamicSharedMemorySize, 400 * 1024) == cudaErrorInvalidValue);
  cudaGetLastError();
  return same(call);
}

static int extended_launch(Call& call) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks(call.n);
  config.blockDim = dim3(256);
  config.stream = call.stream;
  OK(cudaLaunchKernelEx(&config, bump, call.x, call.n));
  void* arguments[] = {&call.x, &call.n};
  OK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(bump), blocks(call.n), dim3(256), arguments, 0, call.stream));
  return same(call);
}

ENTRIES(ROW(launch), ROW(legacy_stream), ROW(memory), ROW(host_copies), ROW(rows), ROW(strided), ROW(symbols), ROW(counting), ROW(pinned),
    ROW(streams), ROW(events),
        ROW(joined), ROW(unjoined), ROW(unjoined_blocking), ROW(thread_then_legacy), ROW(pageable_copy), ROW(waits_before), ROW(empty_copies), ROW(waits_for_device), ROW(captured), ROW(built_graph), ROW(scrambled_graph), ROW(changed_graph), ROW(disguised), ROW(cleared_aside), ROW(disguised_after_event), ROW(disguised_chain), ROW(disguised_per_thread), ROW(disguised_legacy),
            ROW(address_in_memory), ROW(graph_aside),
            ROW(spoiled_capture),
        ROW(device), ROW(function_facts), ROW(opted_in), ROW(extended_launch))
