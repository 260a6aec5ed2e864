// Device memory: allocations in one private range with gaps between them, and the shadow cells that the checkers read.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine.h"

namespace vgpu {

constexpr Address kSharedWindow = 0x600000000000;
constexpr Address kLocalWindow = 0x610000000000;
constexpr Address kParamWindow = 0x620000000000;
constexpr Address kGlobalWindow = 0x700000000000;
constexpr Address kFunctionWindow = 0x7d0000000000;
constexpr Address kWindowBytes = uint64_t(1) << 32;

// Shadow memory: two cells for each granule, for the last write and the last read. A cell is stamp << 6 | flag << 5 |
// lane. 0 in a write cell stands for "never written". The flag marks an atomic access in a write cell and several
// readers in a read cell.
struct Cells {
  uint32_t* wrote = nullptr;
  uint32_t* read = nullptr;
  size_t bytes = 0;
  int shift = 2;  // log2 of the granule's bytes

  Cells() = default;
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;
  ~Cells() { drop(); }
  void make(size_t covered, int granule_shift);
  void refine(int granule_shift);  // splits the granules and keeps the content
  void clear();
  void drop();
  size_t count() const { return (bytes + (size_t(1) << shift) - 1) >> shift; }
};

constexpr uint32_t kCellFlag = 1u << 5;

struct Allocation {
  Address start = 0;
  size_t bytes = 0;
  size_t reserved = 0;
  uint8_t* host = nullptr;
  std::string label;
  bool live = true, read_only = false, of_engine = false;
  Cells cells;
  std::vector<uint64_t> sectors_read, sectors_written;  // one bit for 32 bytes
  bool touched = false;
  Address end() const { return start + bytes; }
};

class Memory {
 public:
  Memory(size_t limit, bool shadowed);
  ~Memory();
  Allocation* allocate(size_t bytes, const std::string& label, size_t alignment = 512);
  // Allocates and maps a file descriptor, whose memory other processes write without notice. Returns nullptr on
  // failure.
  Allocation* share(int descriptor, size_t bytes, const std::string& label);
  bool release(Address start);
  Allocation* find(Address at) const;                  // live or freed, with `at` in its range
  Allocation* nearest(Address at) const;               // live or freed, at or below `at`
  Allocation* holder(Address at, size_t bytes) const;  // live, with the whole range inside
  uint8_t* host(Address at) const { return arena_ + (at - kGlobalWindow); }
  uint8_t* arena() const { return arena_; }
  uint64_t generation() const { return generation_; }
  bool shadowed() const { return shadowed_; }
  void forget_sectors();               // called at the start of a launch
  void touch(Allocation* allocation);  // allocates its maps of sectors
  uint64_t sectors(bool written) const;
  std::vector<Allocation*> all() const;

 private:
  Allocation* place(size_t bytes, size_t alignment);
  size_t reuse(size_t reserved);  // returns the offset of freed memory, 0 if there is none
  void add_freed(size_t offset, size_t reserved);
  void forget(Allocation* allocation);
  uint8_t* arena_ = nullptr;
  size_t arena_bytes_ = 0;
  size_t next_ = 4096;
  size_t limit_, used_ = 0;
  bool shadowed_;
  uint64_t generation_ = 1;
  std::map<Address, std::unique_ptr<Allocation>> by_start_;
  std::vector<Allocation*> touched_;
};

}  // namespace vgpu
