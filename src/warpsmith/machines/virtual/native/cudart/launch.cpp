// Launches, attributes of functions, occupancy.
#include <cstring>

#include "registry.h"

namespace standin {
namespace {

struct Shape {
  Dim3 grid{1, 1, 1}, block{1, 1, 1};
  size_t shared = 0;
  void* stream = nullptr;
};

thread_local std::vector<Shape> pushed;  // configurations between <<<...>>> and the stub that it calls

enum Attribute { kCooperative = 2, kCluster = 4 };

struct Extras {
  uint64_t flags = 0;
  Dim3 cluster{1, 1, 1};
};

constexpr Extras kTogether{wire::kCooperative, {1, 1, 1}};

int launch(const void* function, const Shape& shape, void** arguments, uint64_t stream, const Extras& extras = {}) {
  Kernel* kernel = kernel_of(function);
  if (!kernel) return last_error(false);
  std::vector<uint8_t> bytes = packed(*kernel, arguments);
  int error = submit(Call::Launch,
                     {stream, kernel->function, wire::pack(shape.grid.x, shape.grid.y),
                      wire::pack(shape.grid.z, shape.block.x), wire::pack(shape.block.y, shape.block.z), shape.shared,
                      extras.flags | (kernel->large_clusters ? wire::kNonPortable : 0),
                      wire::pack(extras.cluster.x, extras.cluster.y), extras.cluster.z},
                     bytes.data(), bytes.size());
  // CUDA 13 returns "invalid argument" for an invalid shape.
  bool renamed = STANDIN_MAJOR >= 13 && error == cuda::kInvalidConfiguration;
  return renamed ? set_last_error(cuda::kInvalidValue) : error;
}

int launch_config(const LaunchConfig* config, const void* function, void** arguments, uint64_t stream) {
  Extras extras;
  for (unsigned i = 0; i < config->count; ++i) {
    const LaunchAttribute& attribute = config->attributes[i];
    if (attribute.id == kCooperative && attribute.cooperative) extras.flags |= wire::kCooperative;
    if (attribute.id == kCluster) extras.cluster = {attribute.cluster.x, attribute.cluster.y, attribute.cluster.z};
  }
  return launch(function, {config->grid, config->block, config->dynamic_shared, nullptr}, arguments, stream, extras);
}

int occupancy(int* blocks, const void* function, int threads, size_t shared) {
  Kernel* kernel = kernel_of(function);
  if (!kernel) return last_error(false);
  Result result = call_executor(Call::Occupancy, {kernel->function, uint64_t(threads), shared});
  *blocks = int(result.words[0]);
  return result.error;
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared, void* stream) {
  pushed.push_back({grid, block, shared, stream});
  return 0;
}

int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared, void** stream) {
  if (pushed.empty()) return set_last_error(52);  // cudaErrorMissingConfiguration
  Shape shape = pushed.back();
  pushed.pop_back();
  *grid = shape.grid;
  *block = shape.block;
  *shared = shape.shared;
  *stream = shape.stream;
  return cuda::kSuccess;
}

int cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared, void* stream) {
  return launch(function, {grid, block, shared, nullptr}, arguments, stream_of(stream));
}
int cudaLaunchKernel_ptsz(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared, void* stream) {
  return launch(function, {grid, block, shared, nullptr}, arguments, stream_of_ptsz(stream));
}
int __cudaLaunchKernel(void* kernel, Dim3 grid, Dim3 block, void** arguments, size_t shared, void* stream) {
  return launch(kernel, {grid, block, shared, nullptr}, arguments, stream_of(stream));
}
int __cudaLaunchKernel_ptsz(void* kernel, Dim3 grid, Dim3 block, void** arguments, size_t shared, void* stream) {
  return launch(kernel, {grid, block, shared, nullptr}, arguments, stream_of_ptsz(stream));
}
int cudaLaunchCooperativeKernel(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared,
                                void* stream) {
  return launch(function, {grid, block, shared, nullptr}, arguments, stream_of(stream), kTogether);
}
int cudaLaunchCooperativeKernel_ptsz(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared,
                                     void* stream) {
  return launch(function, {grid, block, shared, nullptr}, arguments, stream_of_ptsz(stream), kTogether);
}
int cudaLaunchKernelExC(const LaunchConfig* config, const void* function, void** arguments) {
  return launch_config(config, function, arguments, stream_of(config->stream));
}
int cudaLaunchKernelExC_ptsz(const LaunchConfig* config, const void* function, void** arguments) {
  return launch_config(config, function, arguments, stream_of_ptsz(config->stream));
}

int cudaFuncGetAttributes(FunctionAttributes* attributes, const void* function) {
  Kernel* kernel = kernel_of(function);
  if (!kernel) return last_error(false);
  Result result = call_executor(Call::FunctionFacts, {kernel->function});
  std::memset(attributes, 0, sizeof *attributes);
  attributes->registers = int(result.words[0]);
  attributes->shared_bytes = result.words[1];
  attributes->local_bytes = result.words[2];
  attributes->max_threads = int(result.words[3]);
  attributes->max_dynamic_shared = int(result.words[4]);
  attributes->ptx_version = attributes->binary_version = int(result.words[6]);
  attributes->carveout = -1;
  return result.error;
}

int cudaFuncSetAttribute(const void* function, int attribute, int value) {
  constexpr int kMaxDynamicShared = 8, kLargeClusters = 14, kLast = 15;
  Kernel* kernel = kernel_of(function);
  if (!kernel) return last_error(false);
  if (attribute < kMaxDynamicShared || attribute > kLast || value < -1) return set_last_error(cuda::kInvalidValue);
  if (attribute == kLargeClusters) kernel->large_clusters = value > 0;
  if (attribute != kMaxDynamicShared) return cuda::kSuccess;  // carveouts and cluster hints change no result here
  return submit(Call::AllowShared, {kernel->function, uint64_t(value)});
}

int cudaFuncSetCacheConfig(const void* function, int) {
  return kernel_of(function) ? cuda::kSuccess : last_error(false);
}
int cudaFuncSetSharedMemConfig(const void* function, int) {
  return kernel_of(function) ? cuda::kSuccess : last_error(false);
}

int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads, size_t shared) {
  return occupancy(blocks, function, threads, shared);
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads,
                                                           size_t shared, unsigned) {
  return occupancy(blocks, function, threads, shared);
}

int cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks, int) {
  Kernel* kernel = kernel_of(function);
  if (!kernel || blocks < 1) return kernel ? set_last_error(cuda::kInvalidValue) : last_error(false);
  Result facts = call_executor(Call::FunctionFacts, {kernel->function});
  size_t each = device().shared_per_sm / size_t(blocks), reserved = 1024 + facts.words[1];
  size_t room = each > reserved ? (each - reserved) / 128 * 128 : 0;
  size_t most = facts.words[4];  // the limit of the function, with or without opting in
  *bytes = room < most ? room : most;
  return facts.error;
}

}  // extern "C"
