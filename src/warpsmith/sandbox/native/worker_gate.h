// A gate on a stream: what is queued behind it starts only when it opens, so that launch gaps are hidden.
// It opens by itself after a bound, since a candidate may wait for its own work inside the call.
#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace worker {

class Gate {
 public:
  ~Gate();
  // Makes the flag that the stream waits for; empty when all is well. Starts a thread: before seccomp forbids it.
  std::string prepare();
  int close(void* stream);  // a CUDA error, 0 when the stream now waits
  void open();

 private:
  void watch();
  volatile unsigned* flag_ = nullptr;  // pinned host memory that the device reads
  unsigned long long device_flag_ = 0;
  std::atomic<unsigned> wanted_{0};
  std::atomic<bool> closed_{false}, ending_{false};
  std::atomic<long> opens_at_us_{0};
  std::thread watch_;
};

}  // namespace worker
