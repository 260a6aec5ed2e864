// The interpreter's loop over basic blocks of one warp.
#include "access.h"
#include "cluster.h"
#include "control.h"

namespace vgpu {

namespace {

constexpr int64_t kSlice = 4096;  // warp instructions before a diverged group lets another one run

void advance(Warp& w, uint32_t to) { w.at = to; }

void branch(Warp& w, const BasicBlock& b) {
  uint32_t taken = w.mask & pred_in(w, b.last.guard, b.last.negated);
  Counters& c = w.grid->counters;
  ++c.branches;
  if (taken == w.mask) return advance(w, b.target);
  if (taken == 0) return advance(w, w.at + 1);
  ++c.divergent_branches;
  uint32_t rest = w.mask & ~taken, next = w.at + 1;
  split(w, b.target, taken);
  split(w, next, rest);
  w.mask = 0;
  choose(w);
}

template <class F>
void scatter(Warp& w, uint32_t mask, F target_of) {
  uint32_t first = target_of(__builtin_ctz(mask)), same = 0;
  each(mask, [&](int lane) { same |= uint32_t(target_of(lane) == first) << lane; });
  if (same == mask) return advance(w, first);
  ++w.grid->counters.divergent_branches;
  w.mask = 0;
  each(mask, [&](int lane) { split(w, target_of(lane), 1u << lane); });
  choose(w);
}

void index_branch(Warp& w, const BasicBlock& b) {
  const uint32_t* a = in<uint32_t>(w, b.last.a);
  auto& table = *static_cast<const std::vector<uint32_t>*>(b.last.table);
  ++w.grid->counters.branches;
  bool inside = true;
  each(w.mask, [&](int lane) {
    if (a[lane] < table.size()) return;
    inside = false;
    stop(w, b.last, Status::UnknownInstruction,
         "brx.idx with the index " + std::to_string(a[lane]) + " into a list of " + std::to_string(table.size()) +
             " targets, which PTX leaves undefined");
  });
  if (inside) scatter(w, w.mask, [&](int lane) { return table[a[lane]]; });
}

bool push_return(Warp& w, uint32_t callee_block) {
  const Program& p = *w.grid->program;
  uint32_t callee = p.block_function[callee_block];
  size_t limit = p.functions.size() + 1;
  w.stack.resize(limit * 32);
  bool ok = true;
  each(w.mask, [&](int lane) {
    for (int d = 0; d < w.depth[lane]; ++d) ok &= p.block_function[w.stack[size_t(d) * 32 + size_t(lane)]] != callee;
    ok &= p.block_function[w.at] != callee;
    if (ok) w.stack[size_t(w.depth[lane]++) * 32 + size_t(lane)] = w.at + 1;
  });
  return ok;
}

void call(Warp& w, const BasicBlock& b) {
  if (!push_return(w, b.target))
    return stop(w, b.last, Status::UnknownInstruction,
                "call of " + w.grid->program->functions[w.grid->program->block_function[b.target]].name +
                    ", which is recursive");
  advance(w, b.target);
}

void call_indirect(Warp& w, const BasicBlock& b) {
  const Program& p = *w.grid->program;
  const uint64_t* a = in<uint64_t>(w, b.last.a);
  uint32_t mask = w.mask, at = w.at;
  uint32_t targets[32];
  bool ok = true;
  each(mask, [&](int lane) {
    const char* name = w.grid->function_name(a[lane]);
    targets[lane] = UINT32_MAX;
    for (const DecodedFunction& f : p.functions)
      if (name && f.name == name) targets[lane] = f.first_block;
    if (targets[lane] == UINT32_MAX) {
      ok = false;
      return;
    }
    w.mask = 1u << lane;
    w.at = at;
    ok &= push_return(w, targets[lane]);
  });
  w.mask = mask;
  if (!ok)
    return stop(w, b.last, Status::UnknownInstruction, "an indirect call of no known function, or a recursive one");
  scatter(w, mask, [&](int lane) { return targets[lane]; });
}

void pop_returns(Warp& w, uint32_t mask) {
  each(mask, [&](int lane) { --w.depth[lane]; });
}

void return_from(Warp& w) {
  uint32_t mask = w.mask;
  uint32_t targets[32];
  each(mask, [&](int lane) { targets[lane] = w.stack[size_t(w.depth[lane] - 1) * 32 + size_t(lane)]; });
  pop_returns(w, mask);
  scatter(w, mask, [&](int lane) { return targets[lane]; });
}

uint32_t members(Warp& w, const Inst& inst) {
  if (inst.v[7] == kNoLane) return w.mask;
  if (inst.v[7] == kEveryLane) return w.live;
  const uint32_t* m = in<uint32_t>(w, inst.v[7]);
  uint32_t all = 0;
  each(w.mask, [&](int lane) { all |= m[lane]; });
  return all & w.live;
}

// True when the instruction ran. Lanes that the mask names and that are elsewhere are waited for.
bool warp_sync(Warp& w, const BasicBlock& b, bool alone) {
  uint32_t missing = members(w, b.last) & ~w.mask;
  if (missing && !alone) {
    park(w, GroupState::AtWarpSync, w.at);
    return false;
  }
  if (missing && alone && w.grid->check) {
    report(w, b.last, __builtin_ctz(w.mask), {"shuffle", 0, 0, "", false}, [&] {
      return "the mask of " + w.grid->program->places[b.last.where].opcode + " names lanes " + hex(missing) +
             " that never reach it";
    });
  }
  b.last.fn(w, b.last);
  if (w.grid->check && b.last.v[7] != kNoLane) synchronize_warp(w);
  return true;
}

void trap(Warp& w, const BasicBlock& b) {
  report(w, b.last, __builtin_ctz(w.mask), {"trap", 0, 0, "", false}, [] { return std::string("executes trap"); });
  stop(w, b.last, Status::Trap, "trap");
}

}  // namespace

Ran run(Warp& w, int64_t quantum) {
  Grid& g = *w.grid;
  Program& p = *g.program;
  w.quantum = quantum;
  w.spins = 0;
  if (!w.mask && !choose(w)) return w.live ? Ran::Blocked : Ran::Finished;
  int64_t slice_end = w.quantum - kSlice;
  while (true) {
    const BasicBlock& b = p.blocks[w.at];
    const Inst* inst = p.code.data() + b.first;
    for (const Inst* end = inst + b.count; inst != end; ++inst) inst->fn(w, *inst);
    uint32_t at = w.at;
    uint32_t active = uint32_t(__builtin_popcount(w.mask));
    bool ran = true;
    switch (b.control) {
      case Control::Fall: advance(w, w.at + 1); break;
      case Control::Jump: advance(w, b.target); break;
      case Control::Branch: branch(w, b); break;
      case Control::Index: index_branch(w, b); break;
      case Control::Call: call(w, b); break;
      case Control::CallIndirect: call_indirect(w, b); break;
      case Control::Return: return_from(w); break;
      case Control::Exit: exit_threads(w, w.mask); break;
      case Control::Barrier: arrive(w, b.last); break;
      case Control::ClusterWait:
        ran = wait_cluster(w, b.last);
        if (ran) advance(w, w.at + 1);
        break;
      case Control::WarpSync:
        ran = warp_sync(w, b, w.alone);
        if (ran) advance(w, w.at + 1);
        break;
      case Control::Builtin:
        b.last.fn(w, b.last);
        advance(w, w.at + 1);
        break;
      case Control::Trap: trap(w, b); break;
      default: stop(w, b.last, Status::UnknownInstruction, "control"); break;
    }
    w.alone = false;
    if (ran) {
      ++g.runs[at];
      g.threads[at] += active;
      w.executed += b.weight;
      w.quantum -= b.weight;
    }
    if (g.stop) return Ran::Finished;
    if (!w.mask) {
      if (choose(w)) continue;
      if (!w.live) return Ran::Finished;
      bool at_barrier = false;
      for (int i = 0; i < w.group_count; ++i) at_barrier |= w.groups[i].state == GroupState::AtBarrier;
      if (at_barrier || !wake(w)) return Ran::Blocked;
      choose(w);
      continue;
    }
    if (w.at >= w.others) {
      park(w, GroupState::Ready, w.at);
      choose(w);
    }
    if (w.quantum <= 0) {
      if (w.spins > 16) g.stalled = true;
      return Ran::Quantum;
    }
    if (w.group_count && w.quantum < slice_end) {
      park(w, GroupState::Ready, w.at);
      choose(w, true);
      slice_end = w.quantum - kSlice;
    }
  }
}

}  // namespace vgpu
