// Device memory, of which only addresses exist here; pinned host memory, which is real; memory pools, which do nothing.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "pointers.h"

namespace standin {
namespace {

struct Pinned {
  std::mutex lock;
  std::map<uint64_t, std::pair<uint64_t, bool>> ranges;  // start: bytes, and whether cudaFreeHost frees it
};

Pinned& pinned() {
  static Pinned* made = new Pinned;
  return *made;
}

constexpr uint64_t kPitch = 512;
constexpr int kAlreadyRegistered = 712, kNotRegistered = 713;

int allocate(void** address, Call call, size_t bytes, uint64_t stream) {
  Result result = call_executor(call, {bytes, stream});
  *address = reinterpret_cast<void*>(result.words[0]);
  return result.error;
}

int pin(void** address, size_t bytes) {
  *address = nullptr;
  if (bytes == 0) return cuda::kSuccess;
  if (posix_memalign(address, 4096, bytes)) return set_last_error(cuda::kMemoryAllocation);
  std::lock_guard<std::mutex> hold(pinned().lock);
  pinned().ranges[word(*address)] = {bytes, true};
  return cuda::kSuccess;
}

}  // namespace

bool is_pinned(const void* address) {
  std::lock_guard<std::mutex> hold(pinned().lock);
  auto after = pinned().ranges.upper_bound(word(address));
  if (after == pinned().ranges.begin()) return false;
  --after;
  return word(address) < after->first + after->second.first;
}

bool is_device(const void* address) { return address && call_executor(Call::Pointer, {word(address)}).words[0]; }

}  // namespace standin

using namespace standin;

extern "C" {

int cudaMalloc(void** address, size_t bytes) { return allocate(address, Call::Allocate, bytes, 0); }
int cudaFree(void* address) { return submit(Call::Free, {word(address)}); }
int cudaMallocAsync(void** address, size_t bytes, void* stream) {
  return allocate(address, Call::AllocateAsync, bytes, stream_of(stream));
}
int cudaMallocAsync_ptsz(void** address, size_t bytes, void* stream) {
  return allocate(address, Call::AllocateAsync, bytes, stream_of_ptsz(stream));
}
int cudaMallocFromPoolAsync(void** address, size_t bytes, void*, void* stream) {
  return allocate(address, Call::AllocateAsync, bytes, stream_of(stream));
}
int cudaMallocFromPoolAsync_ptsz(void** address, size_t bytes, void*, void* stream) {
  return allocate(address, Call::AllocateAsync, bytes, stream_of_ptsz(stream));
}
int cudaFreeAsync(void* address, void* stream) { return submit(Call::FreeAsync, {word(address), stream_of(stream)}); }
int cudaFreeAsync_ptsz(void* address, void* stream) {
  return submit(Call::FreeAsync, {word(address), stream_of_ptsz(stream)});
}

int cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height) {
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  return allocate(address, Call::Allocate, *pitch * height, 0);
}

int cudaMalloc3D(Pitched* pitched, Extent extent) {
  pitched->pitch = (extent.width + kPitch - 1) / kPitch * kPitch;
  pitched->width = extent.width;
  pitched->height = extent.height;
  return allocate(&pitched->data, Call::Allocate, pitched->pitch * extent.height * extent.depth, 0);
}

int cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  Result result = call_executor(Call::MemoryInfo, {});
  *free_bytes = result.words[0];
  *total = result.words[1];
  return result.error;
}

int cudaMallocHost(void** address, size_t bytes) { return pin(address, bytes); }
int cudaHostAlloc(void** address, size_t bytes, unsigned) { return pin(address, bytes); }

int cudaFreeHost(void* address) {
  if (!address) return cuda::kSuccess;
  if (int error = submit(Call::DeviceSync, {})) return error;  // a pending copy may still write to it
  std::lock_guard<std::mutex> hold(pinned().lock);
  auto found = pinned().ranges.find(word(address));
  if (found == pinned().ranges.end() || !found->second.second) return set_last_error(cuda::kInvalidValue);
  pinned().ranges.erase(found);
  std::free(address);
  return cuda::kSuccess;
}

int cudaHostRegister(void* address, size_t bytes, unsigned) {
  if (!address || !bytes) return set_last_error(cuda::kInvalidValue);
  if (is_pinned(address)) return set_last_error(kAlreadyRegistered);
  std::lock_guard<std::mutex> hold(pinned().lock);
  pinned().ranges[word(address)] = {bytes, false};
  return cuda::kSuccess;
}

int cudaHostUnregister(void* address) {
  if (int error = submit(Call::DeviceSync, {})) return error;
  std::lock_guard<std::mutex> hold(pinned().lock);
  auto found = pinned().ranges.find(word(address));
  if (found == pinned().ranges.end() || found->second.second) return set_last_error(kNotRegistered);
  pinned().ranges.erase(found);
  return cuda::kSuccess;
}

int cudaHostGetFlags(unsigned* flags, void* address) {
  *flags = 0;
  return is_pinned(address) ? cuda::kSuccess : set_last_error(cuda::kInvalidValue);
}

int cudaPointerGetAttributes(PointerAttributes* attributes, const void* address) {
  constexpr int kUnregistered = 0, kHost = 1, kDevice = 2;
  std::memset(attributes, 0, sizeof *attributes);
  void* plain = const_cast<void*>(address);
  bool host = is_pinned(address), here = !host && is_device(address);
  attributes->type = here ? kDevice : host ? kHost : kUnregistered;
  attributes->device = here || host ? 0 : -2;
  attributes->device_pointer = here ? plain : nullptr;
  attributes->host_pointer = here ? nullptr : plain;
  return cuda::kSuccess;
}

// There is one pool. Its attributes are accepted and have no effect.
int cudaDeviceGetDefaultMemPool(void** pool, int) {
  *pool = handle(1);
  return cuda::kSuccess;
}
int cudaDeviceGetMemPool(void** pool, int) {
  *pool = handle(1);
  return cuda::kSuccess;
}
int cudaDeviceSetMemPool(int, void*) { return cuda::kSuccess; }
int cudaMemPoolCreate(void** pool, const void*) {
  *pool = handle(1);
  return cuda::kSuccess;
}
int cudaMemPoolDestroy(void*) { return cuda::kSuccess; }
int cudaMemPoolTrimTo(void*, size_t) { return cuda::kSuccess; }
int cudaMemPoolSetAttribute(void*, int, void*) { return cuda::kSuccess; }
int cudaMemPoolSetAccess(void*, const void*, size_t) { return cuda::kSuccess; }
int cudaMemPoolGetAttribute(void*, int, void* value) {
  std::memset(value, 0, sizeof(uint64_t));
  return cuda::kSuccess;
}

}  // extern "C"
