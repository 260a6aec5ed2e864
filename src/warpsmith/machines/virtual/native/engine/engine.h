// The engine of the virtual GPU: device memory, PTX modules, launches. It is a library inside the executor process and
// has no processes, sockets, streams, events or graphs. The caller decides the order of work and tells, through
// `ordered`, which operations are complete before which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vgpu {

using Address = uint64_t;    // a device address; never mapped in the process that runs the candidate's host code
using Operation = uint32_t;  // one launch, copy or memset, numbered by the caller from 1

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

// The limits and rates of the modelled GPU; read from a data file by the caller.
struct Gpu {
  std::string name = "H200";
  int sm_count = 132;
  int cc_major = 9, cc_minor = 0;
  int max_threads_per_block = 1024;
  int max_threads_per_sm = 2048;
  int max_blocks_per_sm = 32;
  int registers_per_sm = 65536;
  int max_registers_per_thread = 255;
  size_t shared_per_sm = 233472;
  size_t shared_per_block = 49152;         // without opting in
  size_t shared_per_block_optin = 232448;  // with cudaFuncAttributeMaxDynamicSharedMemorySize
  size_t memory_bytes = size_t(4) << 30;   // limit of allocations here, less than the real GPU has
};

struct Options {
  bool check = true;                          // all checkers on or off
  uint64_t instruction_budget = 20000000000;  // thread-instructions a launch; 0 is no limit
  size_t print_limit = 1 << 20;               // bytes of device printf kept
  size_t findings_limit = 64;                 // distinct findings kept a launch
};

struct Finding {
  std::string checker;  // a value of warpsmith.records.Checker
  std::string message;  // one sentence
  std::string kernel;
  Dim3 block, thread;
  std::string file;
  int line = 0, column = 0;
  Address start = 0;
  uint64_t bytes = 0;
  std::string space;
  uint64_t count = 1;  // number of equal faults at the same line
};

struct Counters {
  uint64_t thread_instructions = 0, warp_instructions = 0;
  std::map<std::string, uint64_t> classes;  // warp instructions by class: fp32, fp64, fp16, int, sfu, tensor, ...
  uint64_t global_load_sectors = 0, global_store_sectors = 0;  // 32-byte sectors, summed over warp requests
  uint64_t global_load_requests = 0, global_store_requests = 0;
  uint64_t global_load_bytes = 0, global_store_bytes = 0;    // bytes that the threads requested
  uint64_t unique_read_bytes = 0, unique_written_bytes = 0;  // distinct sectors of this launch, in bytes
  uint64_t shared_wavefronts = 0, shared_requests = 0, bank_conflicts = 0;
  uint64_t local_bytes = 0, atomics = 0, divergent_branches = 0, branches = 0, barriers = 0;
  uint64_t longest_thread = 0;  // most instructions any one warp executed: the critical path
};

enum class Status {
  Done,
  Faulted,  // a finding that a real GPU turns into a sticky error (out of bounds, misaligned, trap)
  BudgetSpent,
  UnknownInstruction,  // `detail` names it; the results of the launch are invalid
  BadLaunch,           // beyond the limits; `detail` holds the name, the value and the bound
  Assert,
  Trap,
};

struct Launch {
  Operation operation = 0;
  int module = 0;
  std::string entry;
  Dim3 grid, block, cluster;
  size_t dynamic_shared = 0;
  size_t max_dynamic_shared = 49152;  // the limit that the host set for this function
  bool cooperative = false;
  std::vector<uint8_t> parameters;  // the packed .param space of the entry
};

struct Outcome {
  Status status = Status::Done;
  std::string detail;
  std::vector<Finding> findings;
  Counters counters;
};

struct Parameter {
  size_t offset = 0, bytes = 0, alignment = 1;
};

struct Entry {
  std::string name;
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0;
  size_t static_shared = 0, local_bytes = 0;
  int max_threads = 0;  // .maxntid, 0 when absent
};

class Engine {
 public:
  Engine(Gpu gpu, Options options);
  ~Engine();

  // Memory. Every transfer names its operation, so that a race between streams can be reported.
  Address allocate(size_t bytes, const std::string& label);  // returns 0 if the memory is exhausted
  Address share(int descriptor, size_t bytes,
                const std::string& label);           // maps a file descriptor; returns 0 on failure
  bool release(Address start);                       // returns false if no live allocation starts here
  bool contains(Address start, size_t bytes) const;  // whether one live allocation holds the whole range
  bool write(Operation operation, Address to, const void* from, size_t bytes, std::vector<Finding>* findings);
  bool read(Operation operation, void* to, Address from, size_t bytes, std::vector<Finding>* findings);
  bool copy(Operation operation, Address to, Address from, size_t bytes, std::vector<Finding>* findings);
  bool fill(Operation operation, Address to, uint32_t value, size_t width, size_t count,
            std::vector<Finding>* findings);

  // Modules. Returns -1 and a sentence in `error` if the text cannot be parsed.
  int load(const char* ptx, size_t length, std::string* error);
  void unload(int module);
  const Entry* entry(int module, const std::string& name) const;
  Address symbol(int module, const std::string& name, size_t* bytes);  // returns 0 if there is none
  void resources(int module, const std::string& name, int registers, size_t static_shared);  // as ptxas reports them

  // Sets the predicate that is true if `earlier` is complete before `later` may start. The race checker asks it.
  void ordered(std::function<bool(Operation earlier, Operation later)> predicate);

  Outcome launch(const Launch& launch);
  std::string take_printed();  // device printf since the last call

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vgpu
