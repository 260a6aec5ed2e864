// Functions of the CUDA driver that the worker needs. They are looked up by name, because the worker is also built and
// run on machines without a driver.
#pragma once

#include <dlfcn.h>
#include <cstddef>
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

struct Driver {
  int (*import)(unsigned long long* handle, void* descriptor, int type) = nullptr;
  int (*reserve)(unsigned long long* address, size_t bytes, size_t alignment, unsigned long long wish,
                 unsigned long long flags) = nullptr;
  int (*map)(unsigned long long address, size_t bytes, size_t offset, unsigned long long handle,
             unsigned long long flags) = nullptr;
  int (*set_access)(unsigned long long address, size_t bytes, const AccessDescription* access, size_t count) = nullptr;
  int (*load)(void** module, const void* image) = nullptr;
  int (*get_function)(void** function, void* module, const char* name) = nullptr;
  int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra) = nullptr;

  // Returns the driver, looked up once before a candidate is loaded, or nullptr if the machine has none.
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
    return find("cuMemImportFromShareableHandle", &import) && find("cuMemAddressReserve", &reserve) &&
           find("cuMemMap", &map) && find("cuMemSetAccess", &set_access) && find("cuModuleLoadData", &load) &&
           find("cuModuleGetFunction", &get_function) && find("cuLaunchKernel", &launch);
  }
};

}  // namespace worker
