// Device memory that the evaluator process allocates and shares as file descriptors, mapped into the worker. Arena 0
// holds arguments, arena 1 results and scratch memory, arena 2 the snapshot of the results at the end of a timed call.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace worker {

constexpr int kArgumentsArena = 0, kResultsArena = 1, kSnapshotArena = 2, kArenas = 3;
constexpr int kArenaShift = 56;  // an address in a frame is (arena + 1) << 56 | offset
constexpr uint64_t kOffsetMask = (uint64_t(1) << kArenaShift) - 1;

struct Arena {
  uint64_t base = 0, bytes = 0;
};

// A received descriptor and the address at which it is to be mapped; 0 stands for any address.
struct Shared {
  int fd = -1;
  uint64_t bytes = 0, wanted_address = 0;
};

// Blocks of the results arena, allocated first fit with a guard zone between any two. A block that outlives a call
// keeps its address.
class Blocks {
 public:
  void open(Arena arena) { arena_ = arena; }
  bool is_open() const { return arena_.bytes != 0; }
  void* allocate(uint64_t bytes);
  void release(uint64_t address) { allocated_.erase(address); }
  const std::map<uint64_t, uint64_t>& allocated() const { return allocated_; }

 private:
  Arena arena_;
  std::map<uint64_t, uint64_t> allocated_;  // address to size in bytes
};

class Arenas {
 public:
  // Maps the descriptors through the driver. Returns an empty string, or a sentence that names the failed call.
  std::string map(const std::vector<Shared>& shared);
  bool is_open() const { return !arenas_.empty(); }
  const Arena& at(int number) const { return arenas_[number]; }
  uint64_t base(int number) const { return is_open() ? arenas_[number].base : 0; }
  // Whether the whole range belongs to the evaluator process. Always true on the virtual GPU, where no memory is
  // shared.
  bool contains(uint64_t address, uint64_t bytes) const {
    if (!is_open()) return true;
    for (const Arena& one : arenas_)
      if (address >= one.base && address - one.base <= one.bytes && bytes <= one.bytes - (address - one.base))
        return true;
    return false;
  }
  // Returns the address that a frame's code stands for; 0 if the code is invalid.
  uint64_t decode(uint64_t code) const;
  // Returns the code of an address in an arena; 0 if no arena contains it.
  uint64_t encode(uint64_t address) const;

 private:
  std::vector<Arena> arenas_;
};

}  // namespace worker
