// The functions of the CUDA driver that the worker needs, looked up by name: it is built on machines without a driver,
// and the virtual GPU has none.
#pragma once

#include <cstddef>
#include <dlfcn.h>
#include <type_traits>

namespace worker {

struct Location {
  int type, id;
};
struct AccessDescription {
  Location location;
  int flags;
};
constexpr int kLocationDevice = 1, kReadWrite = 3, kHandleIsDescriptor = 1;
constexpr unsigned kWaitAtLeast = 0;

struct Driver {
  int (*import)(unsigned long long* handle, void* descriptor, int type) = nullptr;
  int (*reserve)(unsigned long long* address, size_t bytes, size_t alignment, unsigned long long wish, unsigned long long flags) = nullptr;
  int (*map)(unsigned long long address, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags) = nullptr;
  int (*set_access)(unsigned long long address, size_t bytes, const AccessDescription* access, size_t count) = nullptr;
  int (*wait_value)(void* stream, unsigned long long address, unsigned value, unsigned flags) = nullptr;

  // Looked up once, before a candidate is loaded; nullptr where there is no driver.
  static const Driver* find() {
    static Driver driver;
    static const bool whole = driver.look_up();
    return whole ? &driver : nullptr;
  }

 private:
  bool look_up() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    auto find = [library](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
      return *function != nullptr;
    };
    return find("cuMemImportFromShareableHandle", &import) && find("cuMemAddressReserve", &reserve) && find("cuMemMap", &map) &&
           find("cuMemSetAccess", &set_access) && find("cuStreamWaitValue32_v2", &wait_value);
  }
};

}  // namespace worker
