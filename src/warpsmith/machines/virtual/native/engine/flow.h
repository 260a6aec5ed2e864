// Control flow of one function: its basic blocks, and places for its registers by their lifetimes.
#pragma once

#include "lower.h"

namespace vgpu {

// A statement, or the jump around a guarded control statement.
struct Node {
  const ptx::Statement* statement = nullptr;
  bool skip = false;              // jump to `target` if the guard is false
  uint32_t target = 0;            // node of a jump
  std::vector<uint32_t> targets;  // of brx.idx
  bool leads = false;             // first of a basic block
  uint32_t block = 0;             // relative to the function
};

struct Flow {
  std::vector<Node> nodes;
  std::vector<std::pair<uint32_t, uint32_t>> blocks;  // [first, end) of nodes
  std::vector<std::vector<uint32_t>> successors;
};

enum class Kind : uint8_t { Straight, Jump, Index, Call, Return, Exit, Barrier, ClusterWait, WarpSync, Trap };
Kind kind_of(const ptx::Statement& statement);

Flow control_flow(const ptx::Function& function);  // throws ptx::ReadError for an unknown label

struct Layout {
  SlotMap slots;
  size_t bytes = 0;       // of registers, from `base`
  size_t predicates = 0;  // one past the last number
};
Layout place_registers(const ptx::Function& function, const Flow& flow, size_t base, size_t first_predicate);

}  // namespace vgpu
