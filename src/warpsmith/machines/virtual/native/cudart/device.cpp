// Attributes, properties and versions of the modelled GPU.
#include <cstring>

#include "link.h"

using namespace standin;

namespace {

constexpr int kMost = 2147483647;
constexpr int kWindow = 128 << 20;
constexpr int kVersion = STANDIN_MAJOR * 1000;

struct Row {
  int attribute;
  int value;
};

int fixed(int attribute) {
  static constexpr Row rows[] = {{2, 1024},      {3, 1024},   {4, 64},     {5, kMost}, {6, 65535}, {7, 65535},
                                 {9, 65536},     {10, 32},    {11, kMost}, {14, 512},  {15, 1},    {30, 512},
                                 {31, 1},        {32, 1},     {40, 3},     {41, 1},    {51, 32},   {78, 1},
                                 {79, 1},        {80, 1},     {87, 2},     {90, 1},    {95, 1},    {99, 1},
                                 {109, kWindow}, {111, 1024}, {115, 1},    {120, 1},   {126, 4}};
  for (const Row& row : rows)
    if (row.attribute == attribute) return row.value;
  return 0;  // textures, managed memory, interoperation: not supported
}

// On Hopper five eighths of the L2 cache may be set aside for persisting accesses.
int persisting(const wire::Device& device) { return int(device.l2_bytes / 8 * 5); }

int attribute_value(int attribute) {
  const wire::Device& modelled = device();
  switch (attribute) {
    case 1: return modelled.threads_per_block;
    case 8: return int(modelled.shared_per_block);
    case 12:
    case 82: return modelled.registers_per_sm;
    case 13: return modelled.clock_khz;
    case 16: return modelled.sm_count;
    case 36: return modelled.memory_clock_khz;
    case 37: return modelled.bus_bits;
    case 38: return int(modelled.l2_bytes);
    case 39: return modelled.threads_per_sm;
    case 75: return modelled.major;
    case 76: return modelled.minor;
    case 81: return int(modelled.shared_per_sm);
    case 97: return int(modelled.shared_per_block_optin);
    case 106: return modelled.blocks_per_sm;
    case 108: return persisting(modelled);
    default: return fixed(attribute);
  }
}

int properties(Properties* filled, int number) {
  if (number != 0) return set_last_error(cuda::kInvalidDevice);
  const wire::Device& modelled = device();
  std::memset(filled, 0, sizeof *filled);
  std::memcpy(filled->name, modelled.name, sizeof modelled.name);
  filled->memory_bytes = modelled.memory_bytes;
  filled->shared_per_block = modelled.shared_per_block;
  filled->registers_per_block = filled->registers_per_sm = modelled.registers_per_sm;
  filled->warp = 32;
  filled->pitch = size_t(kMost);
  filled->threads_per_block = filled->block_most[0] = filled->block_most[1] = modelled.threads_per_block;
  filled->block_most[2] = 64;
  filled->grid_most[0] = kMost;
  filled->grid_most[1] = filled->grid_most[2] = 65535;
  filled->constant_bytes = 65536;
  filled->major = modelled.major;
  filled->minor = modelled.minor;
  filled->texture_alignment = filled->surface_alignment = 512;
  filled->texture_pitch_alignment = 32;
  filled->sm_count = modelled.sm_count;
  filled->concurrent_kernels = filled->ecc = filled->unified_addressing = filled->priorities = filled->global_l1 =
      filled->local_l1 = 1;
  filled->engines = 3;
  filled->bus_bits = modelled.bus_bits;
  filled->l2_bytes = int(modelled.l2_bytes);
  filled->persisting_l2_bytes = persisting(modelled);
  filled->window_bytes = kWindow;
  filled->threads_per_sm = modelled.threads_per_sm;
  filled->shared_per_sm = modelled.shared_per_sm;
  filled->preemption = filled->cooperative = filled->host_register = filled->pools = 1;
  filled->shared_per_block_optin = modelled.shared_per_block_optin;
  filled->blocks_per_sm = modelled.blocks_per_sm;
  filled->reserved_shared = 1024;
#if STANDIN_MAJOR == 12
  filled->clock_khz = modelled.clock_khz;
  filled->memory_clock_khz = modelled.memory_clock_khz;
  filled->overlap = 1;
  filled->single_to_double = 2;
#endif
  return modelled.sm_count ? cuda::kSuccess : set_last_error(cuda::kNoDevice);
}

}  // namespace

extern "C" {

int cudaGetDeviceCount(int* count) {
  *count = device().sm_count ? 1 : 0;
  return *count ? cuda::kSuccess : set_last_error(cuda::kNoDevice);
}
int cudaGetDevice(int* number) {
  *number = 0;
  return cuda::kSuccess;
}
int cudaSetDevice(int number) { return number == 0 ? cuda::kSuccess : set_last_error(cuda::kInvalidDevice); }
int cudaInitDevice(int number, unsigned, unsigned) { return cudaSetDevice(number); }
int cudaSetDeviceFlags(unsigned) { return cuda::kSuccess; }
int cudaGetDeviceFlags(unsigned* flags) {
  *flags = 0;
  return cuda::kSuccess;
}
int cudaChooseDevice(int* number, const void*) { return cudaGetDevice(number); }
int cudaDeviceGetAttribute(int* value, int attribute, int number) {
  if (number != 0) return set_last_error(cuda::kInvalidDevice);
  if (attribute < 1 || attribute > 160) return set_last_error(cuda::kInvalidValue);
  *value = attribute_value(attribute);
  return cuda::kSuccess;
}
int cudaGetDeviceProperties(Properties* filled, int number) { return properties(filled, number); }
int cudaGetDeviceProperties_v2(Properties* filled, int number) { return properties(filled, number); }
int cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cuda::kSuccess;
}
int cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cuda::kSuccess;
}

int cudaDeviceGetLimit(size_t* value, int limit) {
  constexpr size_t kStack = 1024, kPrintf = 1 << 20, kHeap = 8 << 20;
  if (limit < 0 || limit > 2) return set_last_error(cuda::kInvalidValue);
  *value = limit == 0 ? kStack : limit == 1 ? kPrintf : kHeap;
  return cuda::kSuccess;
}
int cudaDeviceGetCacheConfig(int* config) {
  *config = 0;
  return cuda::kSuccess;
}
int cudaDeviceSetCacheConfig(int) { return cuda::kSuccess; }
int cudaDeviceGetSharedMemConfig(int* config) {
  *config = 1;  // banks of four bytes
  return cuda::kSuccess;
}
int cudaDeviceSetSharedMemConfig(int) { return cuda::kSuccess; }

// There is one device, so there are no peers.
int cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cuda::kSuccess;
}
int cudaDeviceEnablePeerAccess(int, unsigned) { return set_last_error(cuda::kPeerAccessUnsupported); }
int cudaDeviceDisablePeerAccess(int) { return set_last_error(cuda::kPeerAccessUnsupported); }
int cudaProfilerStart() { return cuda::kSuccess; }
int cudaProfilerStop() { return cuda::kSuccess; }

}  // extern "C"
