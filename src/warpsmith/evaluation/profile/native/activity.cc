// Activity trace: a library that libcuda loads into a process (CUDA_INJECTION64_PATH). It writes each executed kernel
// with its times to the file that WARPSMITH_ACTIVITY names. CUPTI activities use no hardware counters, so they need no
// permission for them.
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>

#include <initializer_list>

namespace {

constexpr size_t kBuffer_bytes = 1 << 20;

FILE* out = nullptr;

void provide_buffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, kBuffer_bytes));
  *size = *buffer ? kBuffer_bytes : 0;
  *max_records = 0;
}

// Writes kernel line: start ns, end ns, grid, block, registers, static and dynamic shared bytes, mangled name
void write_kernel(const CUpti_ActivityKernel10& kernel) {
  fprintf(out, "%llu %llu %d,%d,%d %d,%d,%d %d %d %d %s\n", static_cast<unsigned long long>(kernel.start),
          static_cast<unsigned long long>(kernel.end), kernel.gridX, kernel.gridY, kernel.gridZ, kernel.blockX,
          kernel.blockY, kernel.blockZ, int(kernel.registersPerThread), kernel.staticSharedMemory,
          kernel.dynamicSharedMemory, kernel.name ? kernel.name : "?");
}

void write_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL)
      write_kernel(*reinterpret_cast<CUpti_ActivityKernel10*>(record));
  }
  free(buffer);
  fflush(out);
}

// The worker ends with _exit, which runs no destructors. The buffers are therefore written after every synchronization.
void CUPTIAPI after_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* raw) {
  if (static_cast<const CUpti_CallbackData*>(raw)->callbackSite == CUPTI_API_EXIT) cuptiActivityFlushAll(0);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* path = getenv("WARPSMITH_ACTIVITY");
  out = path ? fopen(path, "w") : nullptr;
  if (!out) return 0;
  CUpti_SubscriberHandle subscriber;
  if (cuptiSubscribe(&subscriber, after_call, nullptr) != CUPTI_SUCCESS) return 0;
  for (const CUpti_CallbackId call :
       {CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020})
    cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, call);
  cuptiActivityRegisterCallbacks(provide_buffer, write_buffer);
  return cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) == CUPTI_SUCCESS;
}
