// Allocation of device memory with gaps, its shadow cells, and the maps of touched sectors.
#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace vgpu {

namespace {
constexpr size_t kShareAlignment = size_t(2) << 20;  // alignment of driver mappings
constexpr size_t kGap = 1 << 16;  // bytes between allocations: an overrun by less than this reaches no other allocation
}  // namespace

void Cells::make(size_t covered, int granule_shift) {
  drop();
  bytes = covered;
  shift = granule_shift;
  wrote = static_cast<uint32_t*>(std::calloc(count() + 64, sizeof(uint32_t)));
  read = static_cast<uint32_t*>(std::calloc(count() + 64, sizeof(uint32_t)));
  if (!wrote || !read) throw std::bad_alloc();
}

void Cells::refine(int granule_shift) {
  if (granule_shift >= shift) return;
  Cells fine;
  fine.make(bytes, granule_shift);
  size_t count = fine.count();
  for (size_t i = 0; i < count; ++i) {
    fine.wrote[i] = wrote[i >> (shift - granule_shift)];
    fine.read[i] = read[i >> (shift - granule_shift)];
  }
  std::swap(wrote, fine.wrote);
  std::swap(read, fine.read);
  std::swap(shift, fine.shift);
}

void Cells::clear() {
  std::memset(wrote, 0, count() * sizeof(uint32_t));
  std::memset(read, 0, count() * sizeof(uint32_t));
}

void Cells::drop() {
  std::free(wrote);
  std::free(read);
  wrote = read = nullptr;
}

Memory::Memory(size_t limit, bool shadowed) : limit_(limit), shadowed_(shadowed) {
  for (size_t gib : {64, 32, 16, 8, 4}) {
    void* mapped = mmap(nullptr, gib << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) continue;
    arena_ = static_cast<uint8_t*>(mapped);
    arena_bytes_ = gib << 30;
    return;
  }
  throw std::bad_alloc();
}

Memory::~Memory() { munmap(arena_, arena_bytes_); }

// The address range is used up: merges freed neighbours, and returns the smallest range that is large enough.
size_t Memory::reuse(size_t reserved) {
  ++generation_;
  for (auto at = by_start_.begin(); at != by_start_.end();) {
    auto next = std::next(at);
    if (next == by_start_.end()) break;
    if (at->second->live || next->second->live) {
      at = next;
      continue;
    }
    at->second->reserved = size_t(next->first - at->first) + next->second->reserved;
    forget(next->second.get());
    by_start_.erase(next);
  }
  auto best = by_start_.end();
  for (auto at = by_start_.begin(); at != by_start_.end(); ++at) {
    if (at->second->live || at->second->reserved < reserved) continue;
    if (best == by_start_.end() || at->second->reserved < best->second->reserved) best = at;
  }
  if (best == by_start_.end()) return 0;
  size_t offset = size_t(best->first - kGlobalWindow), left = best->second->reserved - reserved;
  forget(best->second.get());
  by_start_.erase(best);
  if (left > kGap) add_freed(offset + reserved, left);
  return offset;
}

void Memory::add_freed(size_t offset, size_t reserved) {
  auto rest = std::make_unique<Allocation>();
  rest->start = kGlobalWindow + offset;
  rest->reserved = reserved;
  rest->live = false;
  by_start_[rest->start] = std::move(rest);
}

void Memory::forget(Allocation* allocation) {
  touched_.erase(std::remove(touched_.begin(), touched_.end(), allocation), touched_.end());
}

Allocation* Memory::place(size_t bytes, size_t alignment) {
  size_t reserved = (bytes + kGap + alignment + 511) & ~size_t(511);
  size_t at = next_;
  if (at + reserved <= arena_bytes_) next_ = at + reserved;
  else if ((at = reuse(reserved)) == 0) return nullptr;
  auto made = std::make_unique<Allocation>();
  size_t start = (at + alignment - 1) & ~(alignment - 1);
  made->start = kGlobalWindow + start;
  made->bytes = bytes;
  made->reserved = reserved - (start - at);
  made->host = arena_ + start;
  Allocation* raw = made.get();
  by_start_[raw->start] = std::move(made);
  return raw;
}

Allocation* Memory::allocate(size_t bytes, const std::string& label, size_t alignment) {
  if (bytes > limit_ || used_ + bytes > limit_) return nullptr;
  Allocation* allocation = place(bytes, std::max<size_t>(alignment, 512));
  if (!allocation) return nullptr;
  allocation->label = label;
  try {
    if (shadowed_) allocation->cells.make(bytes, 2);
  } catch (const std::bad_alloc&) {
    allocation->live = false;  // an allocation without shadow cells is not usable
    allocation->cells.drop();
    return nullptr;
  }
  used_ += bytes;
  return allocation;
}

Allocation* Memory::share(int descriptor, size_t bytes, const std::string& label) {
  Allocation* allocation = allocate(bytes, label, kShareAlignment);
  if (!allocation) return nullptr;
  void* there = mmap(allocation->host, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0);
  if (there != MAP_FAILED) return allocation;
  release(allocation->start);
  return nullptr;
}

bool Memory::release(Address start) {
  auto found = by_start_.find(start);
  if (found == by_start_.end() || !found->second->live) return false;
  Allocation* allocation = found->second.get();
  allocation->live = false;
  allocation->cells.drop();
  used_ -= allocation->bytes;
  size_t from = (size_t(start - kGlobalWindow) + 4095) & ~size_t(4095),
         to = (size_t(start - kGlobalWindow) + allocation->bytes) & ~size_t(4095);
  if (to > from) madvise(arena_ + from, to - from, MADV_DONTNEED);
  ++generation_;
  return true;
}

Allocation* Memory::nearest(Address at) const {
  auto above = by_start_.upper_bound(at);
  if (above == by_start_.begin()) return nullptr;
  return std::prev(above)->second.get();
}

Allocation* Memory::find(Address at) const {
  Allocation* allocation = nearest(at);
  return allocation && at < allocation->end() ? allocation : nullptr;
}

Allocation* Memory::holder(Address at, size_t bytes) const {
  Allocation* allocation = nearest(at);
  return allocation && allocation->live && at <= allocation->end() && bytes <= allocation->end() - at ? allocation
                                                                                                      : nullptr;
}

void Memory::forget_sectors() {
  for (Allocation* allocation : touched_) {
    allocation->touched = false;
    std::fill(allocation->sectors_read.begin(), allocation->sectors_read.end(), 0);
    std::fill(allocation->sectors_written.begin(), allocation->sectors_written.end(), 0);
  }
  touched_.clear();
}

void Memory::touch(Allocation* allocation) {
  allocation->touched = true;
  touched_.push_back(allocation);
  size_t words = allocation->bytes / 2048 + 2;
  allocation->sectors_read.resize(words);
  allocation->sectors_written.resize(words);
}

uint64_t Memory::sectors(bool written) const {
  uint64_t count = 0;
  for (const Allocation* allocation : touched_)
    for (uint64_t word : written ? allocation->sectors_written : allocation->sectors_read)
      count += static_cast<uint64_t>(__builtin_popcountll(word));
  return count;
}

std::vector<Allocation*> Memory::all() const {
  std::vector<Allocation*> list;
  for (auto& entry : by_start_) list.push_back(entry.second.get());
  return list;
}

}  // namespace vgpu
