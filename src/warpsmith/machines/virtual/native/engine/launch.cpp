// Execution of a grid: limits of a launch, resident clusters and their turns, and the counters at the end.
#include "launch.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "cluster.h"
#include "control.h"

namespace vgpu {

namespace {

constexpr int64_t kQuantum = 20000;  // warp instructions of one warp before the next warp runs
// CUDA allows 512 KiB. The bound is larger here, because the frames of all functions lie side by side.
constexpr size_t kMostLocal = size_t(1) << 20;
constexpr int kPasses = 64;  // rounds over the warps of a block before another block runs

std::string describe_excess(const char* what, uint64_t value, uint64_t bound) {
  return std::string(what) + " is " + std::to_string(value) + "; the limit is " + std::to_string(bound);
}

size_t max_resident_blocks(const Gpu& gpu, uint64_t threads, size_t shared, int registers) {
  uint64_t warps = (threads + 31) / 32;
  uint64_t blocks =
      std::min<uint64_t>(uint64_t(gpu.max_blocks_per_sm), uint64_t(gpu.max_threads_per_sm) / (warps * 32));
  if (shared) blocks = std::min<uint64_t>(blocks, gpu.shared_per_sm / (shared + 1024));
  if (registers)
    blocks =
        std::min<uint64_t>(blocks, uint64_t(gpu.registers_per_sm) / (uint64_t((registers + 7) / 8 * 8) * warps * 32));
  return size_t(blocks) * size_t(gpu.sm_count);
}

void fill_tids(Grid& grid, uint32_t threads) {
  const Dim3& dims = grid.launch->block;
  grid.tids.assign((threads + 31) / 32, std::vector<uint32_t>(96));
  for (uint32_t thread = 0; thread < grid.tids.size() * 32; ++thread) {
    auto& of_warp = grid.tids[thread / 32];
    of_warp[thread % 32] = thread % dims.x;
    of_warp[32 + thread % 32] = thread / dims.x % dims.y;
    of_warp[64 + thread % 32] = thread / dims.x / dims.y;
  }
}

class ResidentClusters {
 public:
  explicit ResidentClusters(Grid& running) : g_(running) {
    const Dim3 &grid = running.launch->grid, &block = running.launch->block;
    const Dim3& cluster = running.launch->cluster;
    across_ = {grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z};
    members_ = cluster.x * cluster.y * cluster.z;
    total_ = uint64_t(across_.x) * across_.y * across_.z;
    threads_ = block.x * block.y * block.z;
    size_t resident = max_resident_blocks(*running.gpu, threads_, running.shared_bytes, 0);
    // Resident blocks are limited to about 1 GiB of host memory, except in a cooperative grid, whose blocks wait for
    // each other.
    size_t bytes = (running.program->register_bytes + running.program->local_bytes * 32) * ((threads_ + 31) / 32) +
                   running.shared_bytes * 3;
    if (!running.launch->cooperative) resident = std::min(resident, (size_t(1) << 30) / (bytes + 1));
    limit_ = std::max<size_t>(1, std::min<uint64_t>(total_, resident / members_));
    fill_tids(running, threads_);
  }

  void run() {
    while (!g_.stop && (next_ < total_ || !resident_.empty())) {
      if (resident_.empty()) admit();
      turn();
    }
  }

 private:
  // The first cluster, mostly a single block, runs until it ends or its turn ends. It then moves to the end of the
  // queue, and a new cluster may start.
  void turn() {
    bool finished = advance(*resident_.front());
    if (g_.stop) return;
    if (finished) {
      spare_.push_back(std::move(resident_.front()));
      resident_.pop_front();
      return;
    }
    resident_.push_back(std::move(resident_.front()));
    resident_.pop_front();
    if (next_ < total_ && resident_.size() < limit_) {
      admit();
      std::rotate(resident_.begin(), resident_.end() - 1, resident_.end());
    }
  }

  bool advance(Cluster& cluster) {
    for (int pass = 0; pass < kPasses; ++pass) {
      bool any = false, live = false;
      g_.stalled = false;
      for (auto& block : cluster.blocks) {
        any |= advance(*block);
        if (g_.stop) return true;
        live |= block->live_threads != 0;
      }
      if (!live) return true;
      if (!any && !any_ready(cluster) && !resolve_deadlock(cluster)) return true;
      if (g_.stalled) return false;
    }
    return false;
  }

  // Runs every warp for one turn. Returns false if none advanced.
  bool advance(Block& block) {
    bool any = false;
    for (Warp& warp : block.warps) {
      if (!warp.live) continue;
      uint64_t before = warp.executed;
      Ran ran = vgpu::run(warp, kQuantum);
      spend(warp.executed - before);
      if (g_.stop) return true;
      any |= ran != Ran::Blocked || warp.executed != before;
      if (ran == Ran::Finished) leave(warp);
    }
    return any;
  }

  static bool any_ready(const Cluster& cluster) {
    for (auto& block : cluster.blocks)
      for (const Warp& warp : block->warps) {
        if (warp.mask) return true;
        for (int i = 0; i < warp.group_count; ++i)
          if (warp.groups[i].state == GroupState::Ready) return true;
      }
    return false;
  }

  void leave(Warp& warp) { g_.counters.longest_thread = std::max(g_.counters.longest_thread, warp.executed); }

  void spend(uint64_t warp_instructions) {
    g_.clock += warp_instructions;
    g_.spent += warp_instructions * 32;
    uint64_t budget = g_.options->instruction_budget;
    if (!budget || g_.spent < budget || g_.stop) return;
    g_.outcome.status = Status::BudgetSpent;
    g_.outcome.detail = "the launch has executed " + std::to_string(g_.spent) + " thread-instructions, its budget is " +
                        std::to_string(budget);
    report_endless();
    g_.stop = true;
  }

  void report_endless() {
    for (auto& block : resident_.front()->blocks)
      for (Warp& warp : block->warps)
        if (warp.live && warp.mask) return report_endless(warp);
  }

  void report_endless(Warp& warp) {
    const BasicBlock& at = g_.program->blocks[warp.at];
    Inst inst = at.last;
    if (at.count) inst = g_.program->code[at.first];
    report(warp, inst, __builtin_ctz(warp.mask), {"endless", 0, 0, "", false},
           [&] { return "still runs here when " + g_.outcome.detail + ": an endless loop, or one far too long"; });
  }

  void admit() {
    std::unique_ptr<Cluster> cluster;
    if (!spare_.empty()) {
      cluster = std::move(spare_.back());
      spare_.pop_back();
    } else cluster = allocate_storage();
    begin(*cluster, next_++);
    resident_.push_back(std::move(cluster));
  }

  std::unique_ptr<Cluster> allocate_storage() {
    auto cluster = std::make_unique<Cluster>();
    for (uint32_t rank = 0; rank < members_; ++rank) {
      cluster->blocks.push_back(std::make_unique<Block>());
      cluster->blocks.back()->cluster = cluster.get();
      allocate_storage(*cluster->blocks.back());
    }
    return cluster;
  }

  void allocate_storage(Block& block) {
    const Program& program = *g_.program;
    block.grid = &g_;
    block.warp_count = int(g_.tids.size());
    block.warps = std::vector<Warp>(g_.tids.size());
    block.register_storage.resize(program.register_bytes * block.warps.size() + 64);
    block.predicate_storage.resize((program.predicate_count + 1) * block.warps.size());
    block.local_storage.resize(program.local_bytes * 32 * block.warps.size());
    block.shared.resize(g_.shared_bytes + 64);
    if (g_.check && g_.shared_bytes) block.cells.make(g_.shared_bytes, program.shared_shift);
    uint8_t* regs = block.register_storage.data();
    regs += (64 - reinterpret_cast<uintptr_t>(regs) % 64) % 64;
    for (size_t i = 0; i < block.warps.size(); ++i) {
      Warp& warp = block.warps[i];
      warp.index = int(i);
      warp.grid = &g_;
      warp.block = &block;
      warp.regs = regs + program.register_bytes * i;
      warp.consts = program.constants_end;
      warp.preds = block.predicate_storage.data() + (program.predicate_count + 1) * i;
      warp.local = block.local_storage.data() + program.local_bytes * 32 * i;
      warp.local_stride = program.local_bytes;
      for (int axis = 0; axis < 3; ++axis) warp.tid[axis] = g_.tids[i].data() + axis * 32;
      uint32_t left = threads_ - uint32_t(i) * 32;
      warp.exist = left >= 32 ? UINT32_MAX : (1u << left) - 1;
    }
  }

  void begin(Cluster& cluster, uint64_t number) {
    const Dim3& shape = g_.launch->cluster;
    uint32_t index = uint32_t(number), x = index % across_.x, y = index / across_.x % across_.y,
             z = index / across_.x / across_.y;
    cluster.arrived = 0;
    cluster.released = 0;
    for (uint32_t rank = 0; rank < members_; ++rank)
      begin(*cluster.blocks[rank], {x * shape.x + rank % shape.x, y * shape.y + rank / shape.x % shape.y,
                                    z * shape.z + rank / shape.x / shape.y});
  }

  void begin(Block& block, Dim3 id) {
    const Dim3& grid = g_.launch->grid;
    block.linear = id.x + grid.x * (id.y + grid.y * id.z);
    block.id = id;
    block.live_threads = threads_;
    if (block.cells.wrote) block.cells.clear();
    for (Barrier& bar : block.barriers)
      if (bar.arrived) bar = Barrier();
    for (Warp& warp : block.warps) {
      warp.live = warp.exist;
      warp.group_count = 0;
      warp.executed = 0;
      warp.without_missing = false;
      warp.cluster_pending = warp.cluster_passes = 0;
      warp.copies.clear();
      warp.sends.clear();
      warp.products.clear();
      warp.product_group = 0;
      std::fill(warp.copy_group, warp.copy_group + 32, 0);
      std::fill(warp.send_group, warp.send_group + 32, 0);
      std::fill(warp.depth, warp.depth + 32, 0);
      warp.preds[0] = 0;
      warp.preds[1] = UINT32_MAX;
      warp.others = UINT32_MAX;
      warp.at = g_.program->entry_block;
      set_mask(warp, warp.exist);
    }
    if (g_.check) start_clocks(block);
  }

  Grid& g_;
  uint64_t total_ = 0, next_ = 0;
  uint32_t threads_ = 0, members_ = 1;
  Dim3 across_;
  size_t limit_ = 1;
  std::deque<std::unique_ptr<Cluster>> resident_;
  std::vector<std::unique_ptr<Cluster>> spare_;
};

}  // namespace

std::string check_limits(const Gpu& gpu, const Launch& launch, const Program& program, const ptx::Function& function,
                         std::pair<int, size_t> resources) {
  uint64_t threads = uint64_t(launch.block.x) * launch.block.y * launch.block.z;
  if (!launch.grid.x || !launch.grid.y || !launch.grid.z)
    return "the grid has a side of 0 blocks; every side is at least 1";
  if (!threads) return "the block has a side of 0 threads; every side is at least 1";
  if (launch.block.x > 1024 || launch.block.y > 1024)
    return describe_excess("a side of the block", std::max(launch.block.x, launch.block.y), 1024);
  if (launch.block.z > 64) return describe_excess("the third side of the block", launch.block.z, 64);
  if (threads > uint64_t(gpu.max_threads_per_block))
    return describe_excess("the number of threads in a block", threads, uint64_t(gpu.max_threads_per_block));
  if (launch.grid.x > 2147483647u) return describe_excess("the first side of the grid", launch.grid.x, 2147483647u);
  if (launch.grid.y > 65535 || launch.grid.z > 65535)
    return describe_excess("a side of the grid", std::max(launch.grid.y, launch.grid.z), 65535);
  const Dim3& cluster = launch.cluster;
  if (!cluster.x || !cluster.y || !cluster.z) return "the cluster has a side of 0 blocks; every side is at least 1";
  uint64_t members = uint64_t(cluster.x) * cluster.y;  // three sides multiplied at once could overflow
  members = members > 16 ? members : members * cluster.z;
  if (members > 16) return describe_excess("the number of blocks in a cluster", members, 16);
  if (launch.grid.x % cluster.x || launch.grid.y % cluster.y || launch.grid.z % cluster.z)
    return "a side of the grid is no multiple of the cluster's, (" + std::to_string(cluster.x) + "," +
           std::to_string(cluster.y) + "," + std::to_string(cluster.z) + ")";
  if (function.max_threads && threads > uint64_t(function.max_threads))
    return describe_excess("the number of threads in a block", threads, uint64_t(function.max_threads)) +
           " by __launch_bounds__";
  if (launch.dynamic_shared > std::max(launch.max_dynamic_shared, size_t(0)))
    return describe_excess("dynamic shared memory in bytes", launch.dynamic_shared, launch.max_dynamic_shared) +
           "; more needs cudaFuncAttributeMaxDynamicSharedMemorySize";
  size_t shared = program.static_shared + launch.dynamic_shared;
  size_t bound = launch.max_dynamic_shared > gpu.shared_per_block ? gpu.shared_per_block_optin : gpu.shared_per_block;
  if (shared > bound) return describe_excess("shared memory of a block in bytes", shared, bound);
  if (program.local_bytes > kMostLocal)
    return describe_excess("local memory of a thread in bytes", program.local_bytes, kMostLocal);
  uint64_t registers = uint64_t((resources.first + 7) / 8 * 8) * ((threads + 31) / 32 * 32);
  if (resources.first && registers > uint64_t(gpu.registers_per_sm))
    return describe_excess("the number of registers of a block", registers, uint64_t(gpu.registers_per_sm));
  if (launch.cooperative) {
    uint64_t blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z,
             most = max_resident_blocks(gpu, threads, shared, resources.first);
    if (blocks > most) return describe_excess("the number of blocks of a cooperative grid", blocks, most);
  }
  return "";
}

void run_grid(Grid& grid) { ResidentClusters(grid).run(); }

void gather_counters(Grid& grid) {
  uint64_t classes[size_t(Class::Count)] = {};
  Counters& counters = grid.counters;
  for (size_t i = 0; i < grid.runs.size(); ++i) {
    const BasicBlock& basic = grid.program->blocks[i];
    if (!grid.runs[i]) continue;
    counters.warp_instructions += grid.runs[i] * basic.weight;
    counters.thread_instructions += grid.threads[i] * basic.weight;
    for (size_t k = 0; k < size_t(Class::Count); ++k) classes[k] += grid.runs[i] * basic.classes[k];
  }
  for (size_t k = 0; k < size_t(Class::Count); ++k)
    if (classes[k]) counters.classes[class_name(Class(k))] = classes[k];
  counters.unique_read_bytes = grid.memory->sectors(false) * 32;
  counters.unique_written_bytes = grid.memory->sectors(true) * 32;
}

}  // namespace vgpu
