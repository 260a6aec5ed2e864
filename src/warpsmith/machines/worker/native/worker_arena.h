// Memory that the judge made and shares: allocations that come in as file descriptors and are mapped here.
// Arena 0 holds arguments, arena 1 results and scratch, arena 2 the snapshot of results at the end of a call.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace worker {

constexpr int kArgumentsArena = 0, kResultsArena = 1, kSnapshotArena = 2, kArenas = 3;
constexpr int kArenaShift = 56;  // an address in a frame: (arena + 1) << 56 | offset
constexpr uint64_t kOffsetMask = (uint64_t(1) << kArenaShift) - 1;

struct Arena {
  uint64_t base = 0, bytes = 0;
};

// A descriptor that came in, and where it shall be mapped; 0: anywhere.
struct Shared {
  int fd = -1;
  uint64_t bytes = 0, wish = 0;
};

// Blocks of the results arena, first fit, with a guard between any two; a block that lives over calls stays put.
class Blocks {
 public:
  void open(Arena arena) { arena_ = arena; }
  bool is_open() const { return arena_.bytes != 0; }
  void* take(uint64_t bytes);
  void give_back(uint64_t address) { taken_.erase(address); }
  const std::map<uint64_t, uint64_t>& taken() const { return taken_; }

 private:
  Arena arena_;
  std::map<uint64_t, uint64_t> taken_;  // address to bytes
};

class Arenas {
 public:
  // Maps the descriptors through the driver; the sentence says what failed, empty when all is well.
  std::string map(const std::vector<Shared>& shared);
  bool is_open() const { return !arenas_.empty(); }
  const Arena& at(int number) const { return arenas_[number]; }
  uint64_t base(int number) const { return is_open() ? arenas_[number].base : 0; }
  // Whether all of it is the judge's; where nothing is shared, as on the virtual GPU, any memory is.
  bool holds(uint64_t address, uint64_t bytes) const {
    if (!is_open()) return true;
    for (const Arena& one : arenas_)
      if (address >= one.base && address - one.base <= one.bytes && bytes <= one.bytes - (address - one.base))
        return true;
    return false;
  }
  // The address that a frame's code stands for; 0 when it stands for none.
  uint64_t decode(uint64_t code) const;
  // The code of an address inside an arena; 0 when it lies in none.
  uint64_t encode(uint64_t address) const;

 private:
  std::vector<Arena> arenas_;
};

}  // namespace worker
