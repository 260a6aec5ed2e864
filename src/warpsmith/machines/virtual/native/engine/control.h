// Instructions that move a warp's threads: branches, calls, barriers, warp-wide meetings.
#pragma once

#include "grid.h"

namespace vgpu {

constexpr int32_t kEveryLane = INT32_MIN;   // a warp-wide instruction that all live lanes must reach
constexpr int32_t kNoLane = INT32_MIN + 1;  // one that takes whoever is there

// Fields of a barrier instruction: a is its number, b the thread count (kNoLane: all), c a predicate, d a target.
enum BarrierAction : uint8_t { kSync = 0, kArrive = 1, kRedPopc = 2, kRedAnd = 3, kRedOr = 4 };
constexpr int64_t kUnaligned = 1;  // in imm: threads of a warp may arrive apart

void copy_local(Warp& warp, const Inst& inst);  // imm bytes from a to d in every lane's local memory
Handler builtin(const std::string& name);       // vprintf and kin; nullptr when there is none

enum class Ran : uint8_t { Quantum, Blocked, Finished };
Ran run(Warp& warp, int64_t quantum);

void arrive(Warp& warp, const Inst& inst);  // at a barrier, with the active group
void check_barriers(Block& block);          // after a thread has exited
bool report_stuck(Block& block);            // tells of a barrier that never fills; false when there is none
void exit_threads(Warp& warp, uint32_t mask);

// Groups of lanes.
void park(Warp& warp, GroupState state, uint32_t at);  // the active group stops here; there is no active group after
bool choose(Warp& warp, bool fair = false);            // makes the lowest ready group active; false when there is none
bool wake(Warp& warp);  // nobody else can move: one group goes on without the lanes it waits for
void split(Warp& warp, uint32_t at, uint32_t mask);  // lanes that go elsewhere

}  // namespace vgpu
