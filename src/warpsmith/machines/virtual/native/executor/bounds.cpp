// Checks of a launch against the limits, and occupancy (CUDA C++ Programming Guide, "Compute Capabilities").
#include "bounds.h"

#include <algorithm>

namespace executor {
namespace {

constexpr size_t kReservedShared = 1024;  // bytes of each block that the system uses, on compute capability 8 and later
constexpr uint32_t kWarp = 32;
constexpr size_t kRegisterUnit = 256;  // registers are allocated to a warp in units of 8 a thread
constexpr size_t kSharedUnit = 128;
constexpr uint64_t kPortableCluster = 8, kMostCluster = 16;
constexpr uint32_t kMaxGridX = 2147483647, kMaxGridYZ = 65535, kMaxBlockZ = 64;

size_t rounded(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

std::string over(const std::string& noun, uint64_t value, uint64_t bound) {
  return noun + " is " + std::to_string(value) + "; the bound is " + std::to_string(bound) + ".";
}

Refusal check_shape(const vgpu::Gpu& gpu, const vgpu::Launch& launch) {
  const vgpu::Dim3 &grid = launch.grid, &block = launch.block;
  auto bad = [](std::string sentence) { return Refusal{cuda::kInvalidConfiguration, std::move(sentence)}; };
  if (!grid.x || !grid.y || !grid.z) return bad("A dimension of the grid is 0; a launch needs at least one block.");
  if (!block.x || !block.y || !block.z)
    return bad("A dimension of the block is 0; a launch needs at least one thread.");
  uint64_t threads = uint64_t(block.x) * block.y * block.z;
  uint64_t most = uint64_t(gpu.max_threads_per_block);
  if (block.x > most || block.y > most || threads > most)
    return bad(over("The number of threads in a block", std::max<uint64_t>(threads, block.x), most));
  if (block.z > kMaxBlockZ) return bad(over("The z dimension of the block", block.z, kMaxBlockZ));
  if (grid.x > kMaxGridX) return bad(over("The x dimension of the grid", grid.x, kMaxGridX));
  if (grid.y > kMaxGridYZ) return bad(over("The y dimension of the grid", grid.y, kMaxGridYZ));
  if (grid.z > kMaxGridYZ) return bad(over("The z dimension of the grid", grid.z, kMaxGridYZ));
  return {};
}

}  // namespace

size_t registers_per_block(const Needs& needs, uint32_t threads) {
  size_t warps = rounded(threads, kWarp) / kWarp;
  return warps * rounded(size_t(std::max(needs.registers, 1)) * kWarp, kRegisterUnit);
}

int blocks_per_sm(const vgpu::Gpu& gpu, const Needs& needs, uint32_t threads, size_t dynamic_shared) {
  if (threads == 0 || threads > uint32_t(threads_at_most(gpu, needs))) return 0;
  size_t warps = rounded(threads, kWarp) / kWarp;
  size_t by_threads = size_t(gpu.max_threads_per_sm) / (warps * kWarp);
  size_t by_registers = size_t(gpu.registers_per_sm) / registers_per_block(needs, threads);
  size_t shared = rounded(needs.static_shared + dynamic_shared, kSharedUnit) + kReservedShared;
  bool fits = dynamic_shared <= gpu.shared_per_block_optin &&
              needs.static_shared + dynamic_shared <= gpu.shared_per_block_optin;
  size_t by_shared = fits ? gpu.shared_per_sm / shared : 0;
  return int(std::min({by_threads, by_registers, by_shared, size_t(gpu.max_blocks_per_sm)}));
}

int threads_at_most(const vgpu::Gpu& gpu, const Needs& needs) {
  int most = needs.max_threads ? std::min(needs.max_threads, gpu.max_threads_per_block) : gpu.max_threads_per_block;
  while (most > int(kWarp) && registers_per_block(needs, uint32_t(most)) > size_t(gpu.registers_per_sm))
    most -= int(kWarp);
  return most;
}

Refusal check_cluster(const vgpu::Launch& launch, bool large) {
  const vgpu::Dim3 &grid = launch.grid, &cluster = launch.cluster;
  uint64_t blocks = uint64_t(cluster.x) * cluster.y * cluster.z, most = large ? kMostCluster : kPortableCluster;
  if (blocks > most)
    return {cuda::kInvalidClusterSize,
            over("The number of blocks in a cluster", blocks, most) +
                (large ? "" : " cudaFuncAttributeNonPortableClusterSizeAllowed raises it to 16.")};
  if (grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z)
    return {cuda::kInvalidConfiguration, "A side of the grid is not a multiple of the cluster's."};
  return {};
}

Refusal check_launch(const vgpu::Gpu& gpu, const Needs& needs, const vgpu::Launch& launch) {
  if (Refusal shape = check_shape(gpu, launch); shape.error) return shape;
  uint32_t threads = launch.block.x * launch.block.y * launch.block.z;
  if (needs.max_threads && threads > uint32_t(needs.max_threads))
    return {cuda::kInvalidValue, over("The number of threads in a block", threads, uint64_t(needs.max_threads)) +
                                     " __launch_bounds__ set it."};
  if (registers_per_block(needs, threads) > size_t(gpu.registers_per_sm))
    return {cuda::kLaunchOutOfResources, over("The number of registers of a block", registers_per_block(needs, threads),
                                              uint64_t(gpu.registers_per_sm))};
  size_t without = gpu.shared_per_block - std::min(gpu.shared_per_block, needs.static_shared);
  size_t allowed = std::max(needs.max_dynamic_shared, without);
  if (launch.dynamic_shared > allowed)
    return {cuda::kInvalidValue, over("The dynamic shared memory of a block in bytes", launch.dynamic_shared, allowed) +
                                     " cudaFuncSetAttribute raises it."};
  size_t shared = needs.static_shared + launch.dynamic_shared;
  if (std::max({shared, needs.static_shared, launch.dynamic_shared}) > gpu.shared_per_block_optin)
    return {cuda::kInvalidValue, over("The shared memory of a block in bytes", shared, gpu.shared_per_block_optin)};
  if (!launch.cooperative) return {};
  uint64_t blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
  uint64_t resident = uint64_t(blocks_per_sm(gpu, needs, threads, launch.dynamic_shared)) * uint64_t(gpu.sm_count);
  if (blocks > resident)
    return {cuda::kCooperativeLaunchTooLarge, over("The number of blocks of a cooperative launch", blocks, resident)};
  return {};
}

}  // namespace executor
