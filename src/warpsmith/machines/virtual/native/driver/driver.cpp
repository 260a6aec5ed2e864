// Stand-in for the CUDA driver: the functions with which a worker imports shared memory, so that the session of a real
// GPU runs on the virtual GPU. Candidates use the runtime only.
#include <sys/stat.h>

#include "link.h"

namespace {

using namespace standin;

constexpr int kNoMemory = 2, kInvalid = 1;
uint64_t imported = 0;  // address of the last import: it is reserved and mapped before the next import

}  // namespace

extern "C" {

int cuMemImportFromShareableHandle(unsigned long long* handle, void* descriptor, int) {
  struct stat found{};
  if (fstat(int(word(descriptor)), &found) != 0) return kInvalid;
  const Result result = call_executor(Call::Import, {uint64_t(found.st_size)});
  if (result.error) return kNoMemory;
  *handle = imported = result.words[0];
  return 0;
}

// The executor chooses addresses. Imports of the same sizes get the same addresses in every process.
int cuMemAddressReserve(unsigned long long* address, size_t, size_t, unsigned long long, unsigned long long) {
  *address = imported;
  return imported ? 0 : kInvalid;
}

int cuMemMap(unsigned long long address, size_t, size_t, unsigned long long handle, unsigned long long) {
  return address == handle ? 0 : kInvalid;
}

int cuMemSetAccess(unsigned long long, size_t, const void*, size_t) { return 0; }

// The gate is the only kernel that is loaded this way. It does nothing here, because the executor runs work lazily.
int cuModuleLoadData(void** module, const void* image) {
  *module = const_cast<void*>(image);
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char*) {
  *function = module;
  return 0;
}
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) {
  return 0;
}

// Resolved before the stand-in runtime's function, which returns an error, because no kernel of the virtual GPU can
// read host memory.
int cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return 0;
}
}
