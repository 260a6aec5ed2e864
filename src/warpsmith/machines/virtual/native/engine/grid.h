// State of one running launch: the program, the memory that it may access, findings and counters.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine.h"
#include "memory.h"
#include "program.h"
#include "races.h"
#include "warp.h"

namespace vgpu {

struct Grid {
  const Launch* launch = nullptr;
  const Gpu* gpu = nullptr;
  const Options* options = nullptr;
  Program* program = nullptr;
  Memory* memory = nullptr;
  Races* races = nullptr;
  std::string* printed = nullptr;
  std::function<const char*(Address)> function_name;
  bool check = true;
  // Other blocks may access shared memory. Its cells then hold segments, as those of global memory do.
  bool clustered = false;
  bool stop = false;
  uint32_t stopped_at = UINT32_MAX;  // the place of the instruction that stopped the launch
  bool stalled = false;              // a warp spins or sleeps, so another block should run
  const uint8_t* parameters = nullptr;
  size_t parameter_bytes = 0;
  size_t shared_bytes = 0;
  Address workspace = 0;  // of the grid barrier of cooperative groups
  uint64_t clock = 0;
  Outcome outcome;
  Counters& counters = outcome.counters;
  std::vector<uint64_t> runs, threads;                          // per basic block
  uint64_t spent = 0;                                           // thread-instructions so far
  std::map<std::pair<std::string, std::string>, size_t> known;  // checker and line to the index of a finding
  std::vector<std::vector<uint32_t>> tids;                      // per warp: x, y, z of 32 lanes
};

struct Fault {
  const char* checker;
  Address start = 0;
  uint64_t bytes = 0;
  std::string space;
  bool sticky = false;  // a real GPU stops at this fault
};

// Adds a finding, or increments its count if this checker has a finding for this line. `message` is called only for a
// new finding.
void report(Warp& warp, const Inst& inst, int lane, const Fault& fault, const std::function<std::string()>& message);
void report_launch(Grid& grid, const char* checker, const std::string& message);
void stop(Warp& warp, const Inst& inst, Status status, const std::string& detail);
Dim3 thread_of(const Warp& warp, int lane);
std::string name_thread(const Grid& grid, uint32_t block, int warp, int lane);
void resolve_place(const Program& program, uint32_t where, Finding* finding);
std::string hex(uint64_t value);

inline uint32_t rank_in_cluster(const Warp& warp) {
  const Dim3 &block_id = warp.block->id, &cluster = warp.grid->launch->cluster;
  return block_id.x % cluster.x + cluster.x * (block_id.y % cluster.y + cluster.y * (block_id.z % cluster.z));
}

}  // namespace vgpu
