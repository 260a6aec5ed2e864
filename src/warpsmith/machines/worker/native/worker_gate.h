// Gate: a kernel that occupies every multiprocessor until the host opens it. Work that is queued behind the gate starts
// without launch gaps, and no other stream can run work ahead of the start event. The gate opens by itself after 2 ms,
// because a candidate may wait inside the call for its own work.
#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace worker {

class Gate {
 public:
  ~Gate();
  // Loads the kernel and allocates its flags. Returns an empty string or a reason. Starts a thread, so it must run
  // before the seccomp filter forbids new threads.
  std::string prepare();
  int close(void* stream);  // returns a CUDA error; 0 if the stream now waits
  void open();

 private:
  void watch();
  volatile unsigned* flag_ = nullptr;  // pinned host memory that the first block polls
  void* function_ = nullptr;           // the kernel
  void* flag_on_device_ = nullptr;     // device address of flag_
  void* device_flag_ = nullptr;        // flag in device memory, which the other blocks poll
  unsigned blocks_ = 0;
  std::atomic<unsigned> wanted_{0};
  std::atomic<bool> closed_{false}, ending_{false};
  std::atomic<long> opens_at_us_{0};
  std::thread watch_;
};

}  // namespace worker
