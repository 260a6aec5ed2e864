#include "worker_gate.h"

#include <chrono>

#include "cuda_calls.h"
#include "driver.h"

namespace worker {
namespace {

constexpr long kBound_us = 2000;

long now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Gate::~Gate() {
  ending_ = true;
  closed_ = true;
  closed_.notify_one();
  if (watch_.joinable()) watch_.join();
}

std::string Gate::prepare() {
  void *host = nullptr, *device = nullptr;
  if (!Driver::find()) return "libcuda.so.1 lacks cuStreamWaitValue32";
  if (cudaHostAlloc(&host, sizeof(unsigned), kHostMapped) || cudaHostGetDevicePointer(&device, host, 0)) return "no pinned memory for the gate";
  flag_ = static_cast<volatile unsigned*>(host);
  *flag_ = 0;
  device_flag_ = reinterpret_cast<unsigned long long>(device);
  watch_ = std::thread([this] { watch(); });
  return "";
}

int Gate::close(void* stream) {
  const unsigned value = ++wanted_;
  opens_at_us_ = now_us() + kBound_us;
  closed_ = true;
  closed_.notify_one();
  return Driver::find()->wait_value(stream, device_flag_, value, kWaitAtLeast);
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
