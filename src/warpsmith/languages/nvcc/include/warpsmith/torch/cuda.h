// Streams, guards and device properties. There is one device, the caller's, so device guards hold nothing.
#pragma once

#include "tensor.h"

struct cublasContext;

namespace c10::cuda {

class CUDAStream {
 public:
  explicit CUDAStream(cudaStream_t stream) : stream_(stream) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  DeviceIndex device_index() const { return static_cast<DeviceIndex>(warpsmith::host().device); }
  Device device() const { return Device(kCUDA, device_index()); }
  void synchronize() const { C10_CUDA_CHECK(cudaStreamSynchronize(stream_)); }
  bool query() const { return cudaStreamQuery(stream_) == cudaSuccess; }

 private:
  cudaStream_t stream_;
};

inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return CUDAStream(warpsmith::current_stream()); }
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) {
  return CUDAStream(static_cast<cudaStream_t>(warpsmith::host().stream));
}
inline CUDAStream getStreamFromPool(bool = false, DeviceIndex = -1) {
  cudaStream_t made = nullptr;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return CUDAStream(made);
}
inline void setCurrentCUDAStream(CUDAStream stream) { warpsmith::current_stream() = stream; }

class CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(CUDAStream stream) : before_(warpsmith::current_stream()) { setCurrentCUDAStream(stream); }
  ~CUDAStreamGuard() { warpsmith::current_stream() = before_; }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;

 private:
  cudaStream_t before_;
};

inline DeviceIndex current_device() { return static_cast<DeviceIndex>(warpsmith::host().device); }
inline DeviceIndex device_count() { return 1; }
inline void set_device(DeviceIndex) {}
inline void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
inline void stream_synchronize(cudaStream_t stream) { C10_CUDA_CHECK(cudaStreamSynchronize(stream)); }

}  // namespace c10::cuda

namespace c10 {

struct DeviceGuard {
  explicit DeviceGuard(Device) {}
  void reset_device(Device) {}
};
struct OptionalDeviceGuard {
  OptionalDeviceGuard() {}
  explicit OptionalDeviceGuard(Device) {}
  explicit OptionalDeviceGuard(std::optional<Device>) {}
  void reset_device(Device) {}
};

inline std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::make_optional(tensor.device()) : std::nullopt;
}

namespace cuda {
struct CUDAGuard {
  explicit CUDAGuard(DeviceIndex) {}
  explicit CUDAGuard(Device) {}
  void set_device(Device) {}
  void set_index(DeviceIndex) {}
  void reset_device(Device) {}
};
struct OptionalCUDAGuard {
  OptionalCUDAGuard() {}
  explicit OptionalCUDAGuard(Device) {}
  explicit OptionalCUDAGuard(std::optional<Device>) {}
  explicit OptionalCUDAGuard(DeviceIndex) {}
  void set_device(Device) {}
  void set_index(DeviceIndex) {}
};
}  // namespace cuda
}  // namespace c10

namespace at {
using namespace c10;

namespace cuda {
using namespace c10::cuda;

inline cudaDeviceProp* getDeviceProperties(int64_t device) {
  static cudaDeviceProp found;
  static bool known = false;
  if (!known) C10_CUDA_CHECK(cudaGetDeviceProperties(&found, static_cast<int>(device)));
  known = true;
  return &found;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(warpsmith::host().device); }
inline int warp_size() { return 32; }
inline bool is_available() { return true; }

#ifdef WARPSMITH_LIBRARY_CUBLAS
inline ::cublasContext* getCurrentCUDABlasHandle() {
  const WsHost& host = warpsmith::host();
  void* handle = host.blas ? host.blas(host.context) : nullptr;
  TORCH_CHECK(handle, "getCurrentCUDABlasHandle: the caller lends no cuBLAS handle");
  return static_cast<::cublasContext*>(handle);
}
#endif

}  // namespace cuda
}  // namespace at
