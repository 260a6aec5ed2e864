// The gate's kernel in PTX, and the thread that opens a gate which stays closed too long.
#include "worker_gate.h"

#include <chrono>

#include "cuda_calls.h"
#include "driver.h"

namespace worker {
namespace {

constexpr long kBound_us = 2000;
constexpr unsigned kThreads = 512;                       // divides the threads of a multiprocessor on every GPU so far
constexpr int kMultiprocessors = 16, kThreadsEach = 39;  // values of cudaDeviceAttr

// Thread 0 of each block polls; the other threads wait at the barrier and keep the block resident. Only block 0 polls
// host memory, so that the PCIe link carries one reader. It then sets the flag in device memory for the other blocks.
constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry warpsmith_gate(.param .u64 shown, .param .u64 told, .param .u32 wanted)
{
  .reg .pred %p;
  .reg .b32 %thread, %block, %wanted, %seen;
  .reg .b64 %shown, %told;
  ld.param.u64 %shown, [shown];
  ld.param.u64 %told, [told];
  ld.param.u32 %wanted, [wanted];
  mov.u32 %thread, %tid.x;
  setp.ne.u32 %p, %thread, 0;
  @%p bra DONE;
  mov.u32 %block, %ctaid.x;
  setp.ne.u32 %p, %block, 0;
  @%p bra FOLLOW;
LEAD:
  ld.volatile.u32 %seen, [%shown];
  setp.ge.u32 %p, %seen, %wanted;
  @%p bra TELL;
  nanosleep.u32 200;
  bra LEAD;
TELL:
  st.volatile.u32 [%told], %wanted;
  bra DONE;
FOLLOW:
  ld.volatile.u32 %seen, [%told];
  setp.ge.u32 %p, %seen, %wanted;
  @%p bra DONE;
  nanosleep.u32 200;
  bra FOLLOW;
DONE:
  bar.sync 0;
  ret;
}
)";

long now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Gate::~Gate() {
  ending_ = true;
  closed_ = true;
  closed_.notify_one();
  if (watch_.joinable()) watch_.join();
}

std::string Gate::prepare() {
  const Driver* driver = Driver::find();
  void *host = nullptr, *module = nullptr;
  int processors = 0, threads = 0;
  if (!driver) return "libcuda.so.1 lacks what the gate needs";
  if (cudaHostAlloc(&host, sizeof(unsigned), kHostMapped) || cudaHostGetDevicePointer(&flag_on_device_, host, 0))
    return "no pinned memory for the gate";
  if (cudaMalloc(&device_flag_, sizeof(unsigned)) || cudaMemset(device_flag_, 0, sizeof(unsigned)))
    return "no memory for the gate";
  if (driver->load(&module, kPtx) || driver->get_function(&function_, module, "warpsmith_gate"))
    return "the driver does not take the gate's kernel";
  if (cudaDeviceGetAttribute(&processors, kMultiprocessors, 0) || cudaDeviceGetAttribute(&threads, kThreadsEach, 0))
    return "the device does not say its size";
  blocks_ = unsigned(processors) * unsigned(threads) / kThreads;
  flag_ = static_cast<volatile unsigned*>(host);
  *flag_ = 0;
  watch_ = std::thread([this] { watch(); });
  return "";
}

int Gate::close(void* stream) {
  unsigned value = ++wanted_;
  void* parameters[] = {&flag_on_device_, &device_flag_, &value};
  opens_at_us_ = now_us() + kBound_us;
  closed_ = true;
  closed_.notify_one();
  return Driver::find()->launch(function_, blocks_, 1, 1, kThreads, 1, 1, 0, stream, parameters, nullptr);
}

void Gate::open() {
  *flag_ = wanted_;
  closed_ = false;
}

void Gate::watch() {
  while (true) {
    closed_.wait(false);
    if (ending_) return;
    const long left = opens_at_us_ - now_us();
    if (left > 0) std::this_thread::sleep_for(std::chrono::microseconds(left));
    else open();
  }
}

}  // namespace worker
