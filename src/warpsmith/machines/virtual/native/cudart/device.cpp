// The device as the modelled GPU's description has it: attributes, properties, versions.
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
  return 0;  // textures, managed memory, interoperation: not here
}

// Five eighths of the L2 may be set aside, on every Hopper seen.
int persisting(const wire::Device& d) { return int(d.l2_bytes / 8 * 5); }

int attribute_value(int attribute) {
  const wire::Device& d = device();
  switch (attribute) {
    case 1: return d.threads_per_block;
    case 8: return int(d.shared_per_block);
    case 12:
    case 82: return d.registers_per_sm;
    case 13: return d.clock_khz;
    case 16: return d.sm_count;
    case 36: return d.memory_clock_khz;
    case 37: return d.bus_bits;
    case 38: return int(d.l2_bytes);
    case 39: return d.threads_per_sm;
    case 75: return d.major;
    case 76: return d.minor;
    case 81: return int(d.shared_per_sm);
    case 97: return int(d.shared_per_block_optin);
    case 106: return d.blocks_per_sm;
    case 108: return persisting(d);
    default: return fixed(attribute);
  }
}

int properties(Properties* p, int number) {
  if (number != 0) return settle(cuda::kInvalidDevice);
  const wire::Device& d = device();
  std::memset(p, 0, sizeof *p);
  std::memcpy(p->name, d.name, sizeof d.name);
  p->memory_bytes = d.memory_bytes;
  p->shared_per_block = d.shared_per_block;
  p->registers_per_block = p->registers_per_sm = d.registers_per_sm;
  p->warp = 32;
  p->pitch = size_t(kMost);
  p->threads_per_block = p->block_most[0] = p->block_most[1] = d.threads_per_block;
  p->block_most[2] = 64;
  p->grid_most[0] = kMost;
  p->grid_most[1] = p->grid_most[2] = 65535;
  p->constant_bytes = 65536;
  p->major = d.major;
  p->minor = d.minor;
  p->texture_alignment = p->surface_alignment = 512;
  p->texture_pitch_alignment = 32;
  p->sm_count = d.sm_count;
  p->concurrent_kernels = p->ecc = p->unified_addressing = p->priorities = p->global_l1 = p->local_l1 = 1;
  p->engines = 3;
  p->bus_bits = d.bus_bits;
  p->l2_bytes = int(d.l2_bytes);
  p->persisting_l2_bytes = persisting(d);
  p->window_bytes = kWindow;
  p->threads_per_sm = d.threads_per_sm;
  p->shared_per_sm = d.shared_per_sm;
  p->preemption = p->cooperative = p->host_register = p->pools = 1;
  p->shared_per_block_optin = d.shared_per_block_optin;
  p->blocks_per_sm = d.blocks_per_sm;
  p->reserved_shared = 1024;
#if STANDIN_MAJOR == 12
  p->clock_khz = d.clock_khz;
  p->memory_clock_khz = d.memory_clock_khz;
  p->overlap = 1;
  p->single_to_double = 2;
#endif
  return d.sm_count ? cuda::kSuccess : settle(cuda::kNoDevice);
}

}  // namespace

extern "C" {

int cudaGetDeviceCount(int* count) {
  *count = device().sm_count ? 1 : 0;
  return *count ? cuda::kSuccess : settle(cuda::kNoDevice);
}
int cudaGetDevice(int* number) {
  *number = 0;
  return cuda::kSuccess;
}
int cudaSetDevice(int number) { return number == 0 ? cuda::kSuccess : settle(cuda::kInvalidDevice); }
int cudaInitDevice(int number, unsigned, unsigned) { return cudaSetDevice(number); }
int cudaSetDeviceFlags(unsigned) { return cuda::kSuccess; }
int cudaGetDeviceFlags(unsigned* flags) {
  *flags = 0;
  return cuda::kSuccess;
}
int cudaChooseDevice(int* number, const void*) { return cudaGetDevice(number); }
int cudaDeviceGetAttribute(int* value, int attribute, int number) {
  if (number != 0) return settle(cuda::kInvalidDevice);
  if (attribute < 1 || attribute > 160) return settle(cuda::kInvalidValue);
  *value = attribute_value(attribute);
  return cuda::kSuccess;
}
int cudaGetDeviceProperties(Properties* p, int number) { return properties(p, number); }
int cudaGetDeviceProperties_v2(Properties* p, int number) { return properties(p, number); }
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
  if (limit < 0 || limit > 2) return settle(cuda::kInvalidValue);
  *value = limit == 0 ? kStack : limit == 1 ? kPrintf : kHeap;
  return cuda::kSuccess;
}
int cudaDeviceGetCacheConfig(int* config) {
  *config = 0;
  return cuda::kSuccess;
}
int cudaDeviceSetCacheConfig(int) { return cuda::kSuccess; }
int cudaDeviceGetSharedMemConfig(int* config) {
  *config = 1;  // four-byte banks
  return cuda::kSuccess;
}
int cudaDeviceSetSharedMemConfig(int) { return cuda::kSuccess; }

// One device: no peers.
int cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cuda::kSuccess;
}
int cudaDeviceEnablePeerAccess(int, unsigned) { return settle(cuda::kPeerAccessUnsupported); }
int cudaDeviceDisablePeerAccess(int) { return settle(cuda::kPeerAccessUnsupported); }
int cudaProfilerStart() { return cuda::kSuccess; }
int cudaProfilerStop() { return cuda::kSuccess; }

}  // extern "C"
