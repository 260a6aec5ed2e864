// The interpreter's loop over basic blocks of one warp, and its control flow.
#include "access.h"
#include "cluster.h"
#include "control.h"

namespace vgpu {

namespace {

constexpr int64_t kSlice = 4096;  // warp instructions before another group of a diverged warp runs

void advance(Warp& warp, uint32_t to) { warp.at = to; }

void branch(Warp& warp, const BasicBlock& basic) {
  uint32_t taken = warp.mask & pred_in(warp, basic.last.guard, basic.last.negated);
  Counters& counters = warp.grid->counters;
  ++counters.branches;
  if (taken == warp.mask) return advance(warp, basic.target);
  if (taken == 0) return advance(warp, warp.at + 1);
  ++counters.divergent_branches;
  uint32_t rest = warp.mask & ~taken, next = warp.at + 1;
  split_group(warp, basic.target, taken);
  split_group(warp, next, rest);
  warp.mask = 0;
  choose_group(warp);
}

template <class F>
void scatter(Warp& warp, uint32_t mask, F target_of) {
  uint32_t first = target_of(__builtin_ctz(mask)), same = 0;
  each(mask, [&](int lane) { same |= uint32_t(target_of(lane) == first) << lane; });
  if (same == mask) return advance(warp, first);
  ++warp.grid->counters.divergent_branches;
  warp.mask = 0;
  each(mask, [&](int lane) { split_group(warp, target_of(lane), 1u << lane); });
  choose_group(warp);
}

void index_branch(Warp& warp, const BasicBlock& basic) {
  const uint32_t* a = in<uint32_t>(warp, basic.last.a);
  auto& table = *static_cast<const std::vector<uint32_t>*>(basic.last.table);
  ++warp.grid->counters.branches;
  bool inside = true;
  each(warp.mask, [&](int lane) {
    if (a[lane] < table.size()) return;
    inside = false;
    stop(warp, basic.last, Status::UnknownInstruction,
         "brx.idx with the index " + std::to_string(a[lane]) + " into a list of " + std::to_string(table.size()) +
             " targets, which PTX leaves undefined");
  });
  if (inside) scatter(warp, warp.mask, [&](int lane) { return table[a[lane]]; });
}

bool push_return(Warp& warp, uint32_t callee_block) {
  const Program& program = *warp.grid->program;
  uint32_t callee = program.block_function[callee_block];
  size_t limit = program.functions.size() + 1;
  warp.stack.resize(limit * 32);
  bool ok = true;
  each(warp.mask, [&](int lane) {
    for (int depth = 0; depth < warp.depth[lane]; ++depth)
      ok &= program.block_function[warp.stack[size_t(depth) * 32 + size_t(lane)]] != callee;
    ok &= program.block_function[warp.at] != callee;
    if (ok) warp.stack[size_t(warp.depth[lane]++) * 32 + size_t(lane)] = warp.at + 1;
  });
  return ok;
}

void call(Warp& warp, const BasicBlock& basic) {
  if (!push_return(warp, basic.target))
    return stop(warp, basic.last, Status::UnknownInstruction,
                "call of " + warp.grid->program->functions[warp.grid->program->block_function[basic.target]].name +
                    ", which is recursive");
  advance(warp, basic.target);
}

void call_indirect(Warp& warp, const BasicBlock& basic) {
  const Program& program = *warp.grid->program;
  const uint64_t* a = in<uint64_t>(warp, basic.last.a);
  uint32_t mask = warp.mask, at = warp.at;
  uint32_t targets[32];
  bool ok = true;
  each(mask, [&](int lane) {
    const char* name = warp.grid->function_name(a[lane]);
    targets[lane] = UINT32_MAX;
    for (const DecodedFunction& function : program.functions)
      if (name && function.name == name) targets[lane] = function.first_block;
    if (targets[lane] == UINT32_MAX) {
      ok = false;
      return;
    }
    warp.mask = 1u << lane;
    warp.at = at;
    ok &= push_return(warp, targets[lane]);
  });
  warp.mask = mask;
  if (!ok)
    return stop(warp, basic.last, Status::UnknownInstruction,
                "an indirect call of no known function, or a recursive one");
  scatter(warp, mask, [&](int lane) { return targets[lane]; });
}

void pop_returns(Warp& warp, uint32_t mask) {
  each(mask, [&](int lane) { --warp.depth[lane]; });
}

void return_from(Warp& warp) {
  uint32_t mask = warp.mask;
  uint32_t targets[32];
  each(mask, [&](int lane) { targets[lane] = warp.stack[size_t(warp.depth[lane] - 1) * 32 + size_t(lane)]; });
  pop_returns(warp, mask);
  scatter(warp, mask, [&](int lane) { return targets[lane]; });
}

uint32_t members(Warp& warp, const Inst& inst) {
  if (inst.extra[7] == kNoLane) return warp.mask;
  if (inst.extra[7] == kEveryLane) return warp.live;
  const uint32_t* masks = in<uint32_t>(warp, inst.extra[7]);
  uint32_t all = 0;
  each(warp.mask, [&](int lane) { all |= masks[lane]; });
  return all & warp.live;
}

// Returns true if the instruction ran. Otherwise the group waits for lanes that the member mask names.
bool warp_sync(Warp& warp, const BasicBlock& basic, bool without_missing) {
  uint32_t missing = members(warp, basic.last) & ~warp.mask;
  if (missing && !without_missing) {
    park_group(warp, GroupState::AtWarpSync, warp.at);
    return false;
  }
  if (missing && without_missing && warp.grid->check) {
    report(warp, basic.last, __builtin_ctz(warp.mask), {"shuffle", 0, 0, "", false}, [&] {
      return "the mask of " + warp.grid->program->places[basic.last.where].opcode + " names lanes " + hex(missing) +
             " that never reach it";
    });
  }
  basic.last.fn(warp, basic.last);
  if (warp.grid->check && basic.last.extra[7] != kNoLane) synchronize_warp(warp);
  return true;
}

void trap(Warp& warp, const BasicBlock& basic) {
  report(warp, basic.last, __builtin_ctz(warp.mask), {"trap", 0, 0, "", false},
         [] { return std::string("executes trap"); });
  stop(warp, basic.last, Status::Trap, "trap");
}

}  // namespace

Ran run(Warp& warp, int64_t quantum) {
  Grid& grid = *warp.grid;
  Program& program = *grid.program;
  warp.quantum = quantum;
  warp.spins = 0;
  if (!warp.mask && !choose_group(warp)) return warp.live ? Ran::Blocked : Ran::Finished;
  int64_t slice_end = warp.quantum - kSlice;
  while (true) {
    const BasicBlock& basic = program.blocks[warp.at];
    const Inst* inst = program.code.data() + basic.first;
    for (const Inst* end = inst + basic.count; inst != end; ++inst) inst->fn(warp, *inst);
    uint32_t at = warp.at;
    uint32_t active = uint32_t(__builtin_popcount(warp.mask));
    bool ran = true;
    switch (basic.control) {
      case Control::Fall: advance(warp, warp.at + 1); break;
      case Control::Jump: advance(warp, basic.target); break;
      case Control::Branch: branch(warp, basic); break;
      case Control::Index: index_branch(warp, basic); break;
      case Control::Call: call(warp, basic); break;
      case Control::CallIndirect: call_indirect(warp, basic); break;
      case Control::Return: return_from(warp); break;
      case Control::Exit: exit_threads(warp, warp.mask); break;
      case Control::Barrier: arrive_barrier(warp, basic.last); break;
      case Control::ClusterWait:
        ran = wait_cluster(warp, basic.last);
        if (ran) advance(warp, warp.at + 1);
        break;
      case Control::WarpSync:
        ran = warp_sync(warp, basic, warp.without_missing);
        if (ran) advance(warp, warp.at + 1);
        break;
      case Control::Builtin:
        basic.last.fn(warp, basic.last);
        advance(warp, warp.at + 1);
        break;
      case Control::Trap: trap(warp, basic); break;
      default: stop(warp, basic.last, Status::UnknownInstruction, "control"); break;
    }
    warp.without_missing = false;
    if (ran) {
      ++grid.runs[at];
      grid.threads[at] += active;
      warp.executed += basic.weight;
      warp.quantum -= basic.weight;
    }
    if (grid.stop) return Ran::Finished;
    if (!warp.mask) {
      if (choose_group(warp)) continue;
      if (!warp.live) return Ran::Finished;
      bool at_barrier = false;
      for (int i = 0; i < warp.group_count; ++i) at_barrier |= warp.groups[i].state == GroupState::AtBarrier;
      if (at_barrier || !wake_group(warp)) return Ran::Blocked;
      choose_group(warp);
      continue;
    }
    if (warp.at >= warp.others) {
      park_group(warp, GroupState::Ready, warp.at);
      choose_group(warp);
    }
    if (warp.quantum <= 0) {
      if (warp.spins > 16) grid.stalled = true;
      return Ran::Quantum;
    }
    if (warp.group_count && warp.quantum < slice_end) {
      park_group(warp, GroupState::Ready, warp.at);
      choose_group(warp, true);
      slice_end = warp.quantum - kSlice;
    }
  }
}

}  // namespace vgpu
