// Instructions that change the control flow of a warp: branches, calls, barriers, warp-wide instructions.
#pragma once

#include "grid.h"

namespace vgpu {

constexpr int32_t kEveryLane = INT32_MIN;   // a warp-wide instruction that all live lanes must reach
constexpr int32_t kNoLane = INT32_MIN + 1;  // a warp-wide instruction without a member mask

// Fields of a barrier instruction: a is its number, b the thread count (kNoLane: all), c a predicate, d a target.
enum BarrierAction : uint8_t { kSync = 0, kArrive = 1, kRedPopc = 2, kRedAnd = 3, kRedOr = 4 };
constexpr int64_t kUnaligned = 1;  // in imm: threads of a warp may arrive apart

void copy_local(Warp& warp, const Inst& inst);  // imm bytes from a to d in every lane's local memory
Handler builtin(const std::string& name);       // vprintf, __assertfail, malloc, free; nullptr for another name

enum class Ran : uint8_t { Quantum, Blocked, Finished };
Ran run(Warp& warp, int64_t quantum);

void arrive_barrier(Warp& warp, const Inst& inst);  // at a barrier, with the active group
void check_barriers(Block& block);                  // completes barriers after a thread has exited
bool report_stuck(Block& block);  // reports a barrier that never completes; returns false if there is none
void exit_threads(Warp& warp, uint32_t mask);

// Groups of lanes: the sets of lanes of a warp that are at different basic blocks.
void park_group(Warp& warp, GroupState state,
                uint32_t at);                      // stops the active group at a block; no group is active then
bool choose_group(Warp& warp, bool fair = false);  // activates the lowest ready group; returns false if there is none
bool wake_group(Warp& warp);  // no group can run: one continues without the lanes that it waits for
void split_group(Warp& warp, uint32_t at, uint32_t mask);  // makes a group of lanes that continue at another block

}  // namespace vgpu
