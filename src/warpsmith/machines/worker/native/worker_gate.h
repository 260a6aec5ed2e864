// A gate: a kernel that fills every multiprocessor until it is let go, so that launch gaps of what is queued behind it
// are hidden and nothing on any other stream can run ahead of the clock meanwhile.
// It opens by itself after a bound, since a candidate may wait for its own work inside the call.
#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace worker {

class Gate {
 public:
  ~Gate();
  // Makes the kernel and its flags; empty when all is well. Starts a thread: before seccomp forbids it.
  std::string prepare();
  int close(void* stream);  // a CUDA error, 0 when the stream now waits
  void open();

 private:
  void watch();
  volatile unsigned* flag_ = nullptr;  // pinned host memory; the first block reads it and tells the others
  void *function_ = nullptr, *shown_ = nullptr,
       *told_ = nullptr;  // the kernel; the flag as the device sees it; the device's own
  unsigned blocks_ = 0;
  std::atomic<unsigned> wanted_{0};
  std::atomic<bool> closed_{false}, ending_{false};
  std::atomic<long> opens_at_us_{0};
  std::thread watch_;
};

}  // namespace worker
