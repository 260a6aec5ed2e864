// What the runtime answers to wrong calls and to questions about the device, as text: one line an answer.
// h200.txt holds the answers of an H200 with CUDA 13.0.
#include "artifact.h"

__global__ void bump(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1.0f;
}
__global__ void __launch_bounds__(128) small(float* x, int n) {
  int i = threadIdx.x;
  if (i < n) x[i] += 1.0f;
}
__global__ void heavy(float* x, int n) {
  __shared__ float kept[2000];
  kept[threadIdx.x] = x[0];
  __syncthreads();
  x[threadIdx.x] = kept[(threadIdx.x * 7) % n];
}
extern __shared__ float dynamic[];
__global__ void wide(float* x) {
  dynamic[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = dynamic[threadIdx.x] * 2;
}

static std::string answers;

static void say(const std::string& what, cudaError_t error) {
  answers += what + "=" + cudaGetErrorName(error) + "\n";
  cudaGetLastError();
}
static void last(const char* what) { say(what, cudaGetLastError()); }
static void number(const std::string& what, long value) { answers += what + "=" + std::to_string(value) + "\n"; }

static void launches(Call& call) {
  void* arguments[] = {&call.x, &call.n};
  bump<<<1, 0, 0, call.stream>>>(call.x, 8), last("zero threads");
  bump<<<0, 32, 0, call.stream>>>(call.x, 8), last("zero blocks");
  bump<<<1, 2048, 0, call.stream>>>(call.x, 8), last("2048 threads");
  bump<<<1, dim3(1, 1, 65), 0, call.stream>>>(call.x, 8), last("z 65");
  bump<<<dim3(1, 65536, 1), 1, 0, call.stream>>>(call.x, 8), last("grid y 65536");
  bump<<<dim3(1, 1, 65536), 1, 0, call.stream>>>(call.x, 8), last("grid z 65536");
  bump<<<dim3(4294967295u, 1, 1), 1, 0, call.stream>>>(call.x, 0), last("grid x 2^32-1");
  small<<<1, 256, 0, call.stream>>>(call.x, 8), last("launch bounds");
  wide<<<1, 32, 49153, call.stream>>>(call.x), last("shared 49153");
  wide<<<1, 32, 300000, call.stream>>>(call.x), last("shared 300000");
  heavy<<<1, 32, 45000, call.stream>>>(call.x, 8), last("static+dynamic over 48k");
  say("set 300000", cudaFuncSetAttribute(wide, cudaFuncAttributeMaxDynamicSharedMemorySize, 300000));
  say("set heavy 225000", cudaFuncSetAttribute(heavy, cudaFuncAttributeMaxDynamicSharedMemorySize, 225000));
  auto* function = reinterpret_cast<void*>(bump);
  say("coop 100000", cudaLaunchCooperativeKernel(function, dim3(100000), dim3(256), arguments, 0, call.stream));
  say("coop ok", cudaLaunchCooperativeKernel(function, dim3(1056), dim3(256), arguments, 0, call.stream));
  say("coop 1057", cudaLaunchCooperativeKernel(function, dim3(1057), dim3(256), arguments, 0, call.stream));
  say("not a kernel", cudaLaunchKernel(&answers, dim3(1), dim3(1), arguments, 0, call.stream));
}

static void memory(Call& call) {
  float here[8];
  void* made = nullptr;
  int value = 0;
  say("free nowhere", cudaFree(reinterpret_cast<void*>(0x1234)));
  say("copy from nowhere", cudaMemcpy(here, reinterpret_cast<void*>(0x40), 16, cudaMemcpyDeviceToHost));
  say("copy past end", cudaMemcpy(here, call.x + (1 << 28), 16, cudaMemcpyDeviceToHost));
  say("memset past end", cudaMemset(call.x, 0, size_t(1) << 34));
  say("h2d from device", cudaMemcpy(call.x, call.x, 16, cudaMemcpyHostToDevice));
  say("d2h to device", cudaMemcpy(call.x, call.x, 16, cudaMemcpyDeviceToHost));
  say("malloc zero", cudaMalloc(&made, 0));
  number("zero ptr", made != nullptr);
  say("bad kind", cudaMemcpy(here, call.x, 4, static_cast<cudaMemcpyKind>(9)));
  say("setdevice 7", cudaSetDevice(7));
  say("attr 0", cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(0), 0));
}

static void streams(Call& call) {
  cudaEvent_t timed, untimed;
  cudaStream_t side, blocking;
  cudaGraph_t graph = nullptr;
  void* made = nullptr;
  float ms = 0;
  cudaEventCreate(&timed);
  cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming);
  say("elapsed unrecorded", cudaEventElapsedTime(&ms, timed, timed));
  cudaEventRecord(timed, call.stream);
  cudaEventRecord(untimed, call.stream);
  cudaStreamSynchronize(call.stream);
  say("elapsed untimed", cudaEventElapsedTime(&ms, timed, untimed));
  say("wait", cudaStreamWaitEvent(call.stream, untimed, 0));
  say("flags 7", cudaStreamCreateWithFlags(&side, 7));
  say("capture legacy", cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal));
  cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  say("end without begin", cudaStreamEndCapture(side, &graph));
  say("begin", cudaStreamBeginCapture(side, cudaStreamCaptureModeGlobal));
  say("malloc in capture", cudaMalloc(&made, 64));
  say("end after malloc", cudaStreamEndCapture(side, &graph));
  cudaStreamBeginCapture(side, cudaStreamCaptureModeGlobal);
  say("query in capture", cudaStreamQuery(side));
  say("end after query", cudaStreamEndCapture(side, &graph));
  cudaStreamBeginCapture(side, cudaStreamCaptureModeGlobal);
  cudaEventRecord(timed, side);
  say("sync captured event", cudaEventSynchronize(timed));
  say("end after sync", cudaStreamEndCapture(side, &graph));
  cudaStreamCreate(&blocking);
  cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal);
  bump<<<1, 32>>>(call.x, 8), last("legacy launch while a blocking stream captures");
  say("end after legacy launch", cudaStreamEndCapture(blocking, &graph));
}

static void occupancy() {
  int blocks = 0;
  size_t bytes = 0;
  for (int threads : {32, 64, 96, 128, 256, 512, 1024}) {
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bump, threads, 0);
    number("occupancy bump " + std::to_string(threads), blocks);
  }
  for (size_t shared : {1000, 5000, 10000, 30000, 49152}) {
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, wide, 64, shared);
    number("occupancy wide " + std::to_string(shared), blocks);
  }
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, heavy, 256, 0);
  number("occupancy heavy", blocks);
  cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, wide, 2, 128);
  number("available wide 2", long(bytes));
  cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, heavy, 4, 128);
  number("available heavy 4", long(bytes));
}

static void functions() {
  cudaFuncAttributes facts{};
  cudaFuncGetAttributes(&facts, heavy);
  number("heavy shared", long(facts.sharedSizeBytes));
  number("heavy max dynamic", facts.maxDynamicSharedSizeBytes);
  number("heavy ptx", facts.ptxVersion);
  number("heavy binary", facts.binaryVersion);
  number("heavy local", long(facts.localSizeBytes));
  number("heavy registers", facts.numRegs);
  number("heavy max threads", facts.maxThreadsPerBlock);
  number("heavy carveout", facts.preferredShmemCarveout);
  cudaFuncGetAttributes(&facts, small);
  number("small max threads", facts.maxThreadsPerBlock);
}

static void device() {
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, 0);
  answers += std::string(properties.name) + "\n";
  number("persisting", properties.persistingL2CacheMaxSize);
  number("reserved", long(properties.reservedSharedMemPerBlock));
  number("window", properties.accessPolicyMaxWindowSize);
  for (int attribute : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 30, 31, 32, 36, 37, 38, 39, 40,
                        41, 51, 75, 76, 78, 79, 80, 81, 82, 83, 87, 90, 91, 95, 97, 99, 106, 108, 109, 111, 113, 115,
                        120, 126}) {
    int value = -1;
    cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(attribute), 0);
    number("attribute " + std::to_string(attribute), value);
  }
  int least = 0, greatest = 0, local = 0;
  cudaDeviceGetStreamPriorityRange(&least, &greatest);
  number("least priority", least);
  number("greatest priority", greatest);
  size_t pitch = 0;
  void* made = nullptr;
  cudaMallocPitch(&made, &pitch, 8, 4);
  number("pitch", long(pitch));
  cudaPointerAttributes what{};
  say("pointer of the stack", cudaPointerGetAttributes(&what, &local));
  number("its type", what.type);
  number("its device", what.device);
}

static int probe(Call& call) {
  launches(call);
  memory(call);
  streams(call);
  occupancy();
  functions();
  device();
  call.host->complain(call.host->context, answers.c_str());
  return WS_REFUSED;
}

ENTRIES(ROW(probe))
