// The caller's loan for the current call: memory, stream, blas. One call at a time in a process.
#pragma once

#include "error.h"

namespace warpsmith {

inline const WsHost*& current_host() {
  static const WsHost* host = nullptr;
  return host;
}

inline const WsHost& host() {
  if (!current_host()) throw c10::Error("a tensor operation outside of a call of the module's function");
  return *current_host();
}

// The stream that `getCurrentCUDAStream` names: the caller's, unless a guard of the candidate put another in place.
inline cudaStream_t& current_stream() {
  static cudaStream_t stream = nullptr;
  return stream;
}

// Lends `host` to one call and takes it back, whatever the call does.
class Loan {
 public:
  explicit Loan(const WsHost* host) : before_(current_host()), stream_(current_stream()) {
    current_host() = host;
    current_stream() = static_cast<cudaStream_t>(host->stream);
  }
  ~Loan() {
    current_host() = before_;
    current_stream() = stream_;
  }
  Loan(const Loan&) = delete;

 private:
  const WsHost* before_;
  cudaStream_t stream_;
};

inline void* device_memory(size_t bytes) {
  void* data = host().allocate(host().context, bytes ? bytes : 1);
  if (!data) throw c10::Error(text("out of device memory: ", bytes, " bytes were asked for"));
  return data;
}

template <class T>
T* scratch(size_t count) {
  void* data = host().scratch(host().context, (count ? count : 1) * sizeof(T));
  if (!data) throw c10::Error(text("out of host memory: ", count * sizeof(T), " bytes were asked for"));
  return static_cast<T*>(data);
}

}  // namespace warpsmith
