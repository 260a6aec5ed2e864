#include "launch.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "cluster.h"
#include "control.h"

namespace vgpu {

namespace {

constexpr int64_t kQuantum = 20000;  // warp instructions of one warp before the next has its turn
// CUDA has 512 KiB; here the frames of all functions lie side by side.
constexpr size_t kMostLocal = size_t(1) << 20;
constexpr int kPasses = 64;  // rounds over a block's warps before another block has its turn

std::string beyond(const char* what, uint64_t value, uint64_t bound) {
  return std::string(what) + " is " + std::to_string(value) + "; the limit is " + std::to_string(bound);
}

size_t co_resident(const Gpu& gpu, uint64_t threads, size_t shared, int registers) {
  uint64_t warps = (threads + 31) / 32;
  uint64_t n = std::min<uint64_t>(uint64_t(gpu.max_blocks_per_sm), uint64_t(gpu.max_threads_per_sm) / (warps * 32));
  if (shared) n = std::min<uint64_t>(n, gpu.shared_per_sm / (shared + 1024));
  if (registers)
    n = std::min<uint64_t>(n, uint64_t(gpu.registers_per_sm) / (uint64_t((registers + 7) / 8 * 8) * warps * 32));
  return size_t(n) * size_t(gpu.sm_count);
}

void fill_tids(Grid& g, uint32_t threads) {
  const Dim3& d = g.launch->block;
  g.tids.assign((threads + 31) / 32, std::vector<uint32_t>(96));
  for (uint32_t t = 0; t < g.tids.size() * 32; ++t) {
    auto& of_warp = g.tids[t / 32];
    of_warp[t % 32] = t % d.x;
    of_warp[32 + t % 32] = t / d.x % d.y;
    of_warp[64 + t % 32] = t / d.x / d.y;
  }
}

class Residents {
 public:
  explicit Residents(Grid& g) : g_(g) {
    const Dim3 &grid = g.launch->grid, &block = g.launch->block;
    const Dim3& cluster = g.launch->cluster;
    across_ = {grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z};
    members_ = cluster.x * cluster.y * cluster.z;
    total_ = uint64_t(across_.x) * across_.y * across_.z;
    threads_ = block.x * block.y * block.z;
    size_t resident = co_resident(*g.gpu, threads_, g.shared_bytes, 0);
    // Blocks that wait for one another are all kept, in about a gigabyte; a cooperative grid whatever it takes.
    size_t bytes =
        (g.program->register_bytes + g.program->local_bytes * 32) * ((threads_ + 31) / 32) + g.shared_bytes * 3;
    if (!g.launch->cooperative) resident = std::min(resident, (size_t(1) << 30) / (bytes + 1));
    limit_ = std::max<size_t>(1, std::min<uint64_t>(total_, resident / members_));
    fill_tids(g, threads_);
  }

  void run() {
    while (!g_.stop && (next_ < total_ || !resident_.empty())) {
      if (resident_.empty()) admit();
      turn();
    }
  }

 private:
  // The front cluster, mostly one block, runs until it is done or its turn is over; then it goes to the back and a new
  // one may come.
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

  bool advance(Cluster& c) {
    for (int pass = 0; pass < kPasses; ++pass) {
      bool any = false, live = false;
      g_.stalled = false;
      for (auto& b : c.blocks) {
        any |= advance(*b);
        if (g_.stop) return true;
        live |= b->live_threads != 0;
      }
      if (!live) return true;
      if (!any && !any_ready(c) && !settle(c)) return true;
      if (g_.stalled) return false;
    }
    return false;
  }

  // Every warp has a turn; false when none moved.
  bool advance(Block& b) {
    bool any = false;
    for (Warp& w : b.warps) {
      if (!w.live) continue;
      uint64_t before = w.executed;
      Ran ran = vgpu::run(w, kQuantum);
      spend(w.executed - before);
      if (g_.stop) return true;
      any |= ran != Ran::Blocked || w.executed != before;
      if (ran == Ran::Finished) leave(w);
    }
    return any;
  }

  static bool any_ready(const Cluster& c) {
    for (auto& b : c.blocks)
      for (const Warp& w : b->warps) {
        if (w.mask) return true;
        for (int i = 0; i < w.group_count; ++i)
          if (w.groups[i].state == GroupState::Ready) return true;
      }
    return false;
  }

  void leave(Warp& w) { g_.counters.longest_thread = std::max(g_.counters.longest_thread, w.executed); }

  void spend(uint64_t warp_instructions) {
    g_.clock += warp_instructions;
    g_.spent += warp_instructions * 32;
    uint64_t budget = g_.options->instruction_budget;
    if (!budget || g_.spent < budget || g_.stop) return;
    g_.outcome.status = Status::BudgetSpent;
    g_.outcome.detail = "the launch has executed " + std::to_string(g_.spent) + " thread-instructions, its budget is " +
                        std::to_string(budget);
    endless();
    g_.stop = true;
  }

  void endless() {
    for (auto& b : resident_.front()->blocks)
      for (Warp& w : b->warps)
        if (w.live && w.mask) return endless(w);
  }

  void endless(Warp& w) {
    const BasicBlock& at = g_.program->blocks[w.at];
    Inst inst = at.last;
    if (at.count) inst = g_.program->code[at.first];
    report(w, inst, __builtin_ctz(w.mask), {"endless", 0, 0, "", false},
           [&] { return "still runs here when " + g_.outcome.detail + ": an endless loop, or one far too long"; });
  }

  void admit() {
    std::unique_ptr<Cluster> c;
    if (!spare_.empty()) {
      c = std::move(spare_.back());
      spare_.pop_back();
    } else c = provide();
    begin(*c, next_++);
    resident_.push_back(std::move(c));
  }

  std::unique_ptr<Cluster> provide() {
    auto c = std::make_unique<Cluster>();
    for (uint32_t rank = 0; rank < members_; ++rank) {
      c->blocks.push_back(std::make_unique<Block>());
      c->blocks.back()->cluster = c.get();
      provide(*c->blocks.back());
    }
    return c;
  }

  void provide(Block& b) {
    const Program& p = *g_.program;
    b.grid = &g_;
    b.warp_count = int(g_.tids.size());
    b.warps = std::vector<Warp>(g_.tids.size());
    b.register_storage.resize(p.register_bytes * b.warps.size() + 64);
    b.predicate_storage.resize((p.predicate_count + 1) * b.warps.size());
    b.local_storage.resize(p.local_bytes * 32 * b.warps.size());
    b.shared.resize(g_.shared_bytes + 64);
    if (g_.check && g_.shared_bytes) b.cells.make(g_.shared_bytes, p.shared_shift);
    uint8_t* regs = b.register_storage.data();
    regs += (64 - reinterpret_cast<uintptr_t>(regs) % 64) % 64;
    for (size_t i = 0; i < b.warps.size(); ++i) {
      Warp& w = b.warps[i];
      w.index = int(i);
      w.grid = &g_;
      w.block = &b;
      w.regs = regs + p.register_bytes * i;
      w.consts = p.constants_end;
      w.preds = b.predicate_storage.data() + (p.predicate_count + 1) * i;
      w.local = b.local_storage.data() + p.local_bytes * 32 * i;
      w.local_stride = p.local_bytes;
      for (int axis = 0; axis < 3; ++axis) w.tid[axis] = g_.tids[i].data() + axis * 32;
      uint32_t left = threads_ - uint32_t(i) * 32;
      w.exist = left >= 32 ? UINT32_MAX : (1u << left) - 1;
    }
  }

  void begin(Cluster& c, uint64_t number) {
    const Dim3& k = g_.launch->cluster;
    uint32_t n = uint32_t(number), x = n % across_.x, y = n / across_.x % across_.y, z = n / across_.x / across_.y;
    c.arrived = 0;
    c.released = 0;
    for (uint32_t rank = 0; rank < members_; ++rank)
      begin(*c.blocks[rank], {x * k.x + rank % k.x, y * k.y + rank / k.x % k.y, z * k.z + rank / k.x / k.y});
  }

  void begin(Block& b, Dim3 id) {
    const Dim3& grid = g_.launch->grid;
    b.linear = id.x + grid.x * (id.y + grid.y * id.z);
    b.id = id;
    b.live_threads = threads_;
    if (b.cells.wrote) b.cells.clear();
    for (Barrier& bar : b.barriers)
      if (bar.arrived) bar = Barrier();
    for (Warp& w : b.warps) {
      w.live = w.exist;
      w.group_count = 0;
      w.executed = 0;
      w.alone = false;
      w.cluster_pending = w.cluster_passes = 0;
      w.copies.clear();
      w.sends.clear();
      w.products.clear();
      w.product_group = 0;
      std::fill(w.copy_group, w.copy_group + 32, 0);
      std::fill(w.send_group, w.send_group + 32, 0);
      std::fill(w.depth, w.depth + 32, 0);
      w.preds[0] = 0;
      w.preds[1] = UINT32_MAX;
      w.others = UINT32_MAX;
      w.at = g_.program->entry_block;
      set_mask(w, w.exist);
    }
    if (g_.check) start_clocks(b);
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

std::string check_limits(const Gpu& gpu, const Launch& l, const Program& p, const ptx::Function& f,
                         std::pair<int, size_t> resources) {
  uint64_t threads = uint64_t(l.block.x) * l.block.y * l.block.z;
  if (!l.grid.x || !l.grid.y || !l.grid.z) return "the grid has a side of 0 blocks; every side is at least 1";
  if (!threads) return "the block has a side of 0 threads; every side is at least 1";
  if (l.block.x > 1024 || l.block.y > 1024) return beyond("a side of the block", std::max(l.block.x, l.block.y), 1024);
  if (l.block.z > 64) return beyond("the third side of the block", l.block.z, 64);
  if (threads > uint64_t(gpu.max_threads_per_block))
    return beyond("the number of threads in a block", threads, uint64_t(gpu.max_threads_per_block));
  if (l.grid.x > 2147483647u) return beyond("the first side of the grid", l.grid.x, 2147483647u);
  if (l.grid.y > 65535 || l.grid.z > 65535) return beyond("a side of the grid", std::max(l.grid.y, l.grid.z), 65535);
  const Dim3& k = l.cluster;
  if (!k.x || !k.y || !k.z) return "the cluster has a side of 0 blocks; every side is at least 1";
  uint64_t members = uint64_t(k.x) * k.y;  // two sides at a time: three may wrap around
  members = members > 16 ? members : members * k.z;
  if (members > 16) return beyond("the number of blocks in a cluster", members, 16);
  if (l.grid.x % k.x || l.grid.y % k.y || l.grid.z % k.z)
    return "a side of the grid is no multiple of the cluster's, (" + std::to_string(k.x) + "," + std::to_string(k.y) +
           "," + std::to_string(k.z) + ")";
  if (f.max_threads && threads > uint64_t(f.max_threads))
    return beyond("the number of threads in a block", threads, uint64_t(f.max_threads)) + " by __launch_bounds__";
  if (l.dynamic_shared > std::max(l.max_dynamic_shared, size_t(0)))
    return beyond("dynamic shared memory in bytes", l.dynamic_shared, l.max_dynamic_shared) +
           "; more needs cudaFuncAttributeMaxDynamicSharedMemorySize";
  size_t shared = p.static_shared + l.dynamic_shared;
  size_t bound = l.max_dynamic_shared > gpu.shared_per_block ? gpu.shared_per_block_optin : gpu.shared_per_block;
  if (shared > bound) return beyond("shared memory of a block in bytes", shared, bound);
  if (p.local_bytes > kMostLocal) return beyond("local memory of a thread in bytes", p.local_bytes, kMostLocal);
  uint64_t registers = uint64_t((resources.first + 7) / 8 * 8) * ((threads + 31) / 32 * 32);
  if (resources.first && registers > uint64_t(gpu.registers_per_sm))
    return beyond("the number of registers of a block", registers, uint64_t(gpu.registers_per_sm));
  if (l.cooperative) {
    uint64_t blocks = uint64_t(l.grid.x) * l.grid.y * l.grid.z,
             most = co_resident(gpu, threads, shared, resources.first);
    if (blocks > most) return beyond("the number of blocks of a cooperative grid", blocks, most);
  }
  return "";
}

void run_grid(Grid& g) { Residents(g).run(); }

void gather_counters(Grid& g) {
  uint64_t classes[size_t(Class::Count)] = {};
  Counters& c = g.counters;
  for (size_t i = 0; i < g.runs.size(); ++i) {
    const BasicBlock& b = g.program->blocks[i];
    if (!g.runs[i]) continue;
    c.warp_instructions += g.runs[i] * b.weight;
    c.thread_instructions += g.threads[i] * b.weight;
    for (size_t k = 0; k < size_t(Class::Count); ++k) classes[k] += g.runs[i] * b.classes[k];
  }
  for (size_t k = 0; k < size_t(Class::Count); ++k)
    if (classes[k]) c.classes[class_name(Class(k))] = classes[k];
  c.unique_read_bytes = g.memory->sectors(false) * 32;
  c.unique_written_bytes = g.memory->sectors(true) * 32;
}

}  // namespace vgpu
