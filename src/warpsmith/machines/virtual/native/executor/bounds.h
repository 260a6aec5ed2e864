// Launch limits of the modelled GPU, and the number of blocks that fit on one SM.
#pragma once

#include <string>

#include "../engine/engine.h"
#include "errors.h"

namespace executor {

// Resources of one kernel, as ptxas and the PTX state them, and the limit that the host set.
struct Needs {
  int registers = 0;
  size_t static_shared = 0, local_bytes = 0, constant_bytes = 0;
  int max_threads = 0;  // .maxntid; 0 if absent
  size_t max_dynamic_shared = 49152;
};

struct Refusal {
  cuda::Error error = cuda::kSuccess;
  std::string sentence;
};

size_t registers_per_block(const Needs& needs, uint32_t threads);
int blocks_per_sm(const vgpu::Gpu& gpu, const Needs& needs, uint32_t threads, size_t dynamic_shared);
int threads_at_most(const vgpu::Gpu& gpu, const Needs& needs);
Refusal check_cluster(const vgpu::Launch& launch, bool large);
Refusal check_launch(const vgpu::Gpu& gpu, const Needs& needs, const vgpu::Launch& launch);

}  // namespace executor
