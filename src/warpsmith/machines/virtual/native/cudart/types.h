// Structures of the CUDA runtime API that the stand-in reads or fills, in their published layout.
// tests/machines/virtual/runtime/test_layout.py compares them with NVIDIA's headers.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef STANDIN_MAJOR
#define STANDIN_MAJOR 13
#endif

namespace standin {

struct Dim3 {
  unsigned x, y, z;
};

struct FunctionAttributes {
  size_t shared_bytes, const_bytes, local_bytes;
  int max_threads, registers, ptx_version, binary_version, cache_mode, max_dynamic_shared, carveout;
  int cluster_must_be_set, cluster_width, cluster_height, cluster_depth, cluster_policy, non_portable_cluster;
  int reserved[16];
};

struct PointerAttributes {
  int type, device;
  void *device_pointer, *host_pointer;
  long reserved[8];
};

struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    char bytes[64];
    int cooperative;
    struct {
      unsigned x, y, z;
    } cluster;
  };
};

struct LaunchConfig {
  Dim3 grid, block;
  size_t dynamic_shared;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};

struct KernelNode {
  void* function;
  Dim3 grid, block;
  unsigned shared;
  void** parameters;
  void** extra;
};

struct FillNode {
  void* to;
  size_t pitch;
  unsigned value, element;
  size_t width, height;
};

struct Pitched {
  void* data;
  size_t pitch, width, height;
};

struct Extent {
  size_t width, height, depth;
};

struct Position {
  size_t x, y, z;
};

struct Copy3D {
  void* from_array;
  Position from_position;
  Pitched from;
  void* to_array;
  Position to_position;
  Pitched to;
  Extent extent;
  int kind;
};

struct UpdateResult {
  int result;
  void *node, *from_node;
};

struct InstantiateParameters {
  unsigned long long flags;
  void *upload_stream, *error_node;
  int result;
};

// cudaDeviceProp. Version 13 removed some fields of version 12. Runs of fields that stay 0 are one array.
struct Properties {
  char name[256];
  char uuid[16], luid[8];
  unsigned luid_mask;
  size_t memory_bytes, shared_per_block;
  int registers_per_block, warp;
  size_t pitch;
  int threads_per_block, block_most[3], grid_most[3];
#if STANDIN_MAJOR == 12
  int clock_khz;
#endif
  size_t constant_bytes;
  int major, minor;
  size_t texture_alignment, texture_pitch_alignment;
#if STANDIN_MAJOR == 12
  int overlap;
#endif
  int sm_count;
#if STANDIN_MAJOR == 12
  int timeout;
#endif
  int integrated, maps_host;
#if STANDIN_MAJOR == 12
  int compute_mode, texture_linear;
#endif
  int textures[39];
  size_t surface_alignment;
  int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, engines, unified_addressing;
#if STANDIN_MAJOR == 12
  int memory_clock_khz;
#endif
  int bus_bits, l2_bytes, persisting_l2_bytes, threads_per_sm, priorities, global_l1, local_l1;
  size_t shared_per_sm;
  int registers_per_sm, managed, multi_gpu, multi_gpu_group, native_atomics;
#if STANDIN_MAJOR == 12
  int single_to_double;
#endif
  int pageable, concurrent_managed, preemption, host_pointer, cooperative;
#if STANDIN_MAJOR == 12
  int cooperative_multi;
#endif
  size_t shared_per_block_optin;
  int page_tables, direct_managed, blocks_per_sm, window_bytes;
  size_t reserved_shared;
  int host_register, sparse_arrays, host_register_read_only, timeline, pools;
  int rest[71];
};

}  // namespace standin
