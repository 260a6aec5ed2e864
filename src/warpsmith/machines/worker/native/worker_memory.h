// The memory of calls: what the candidate was given, so that what it gives back can be held against it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda_calls.h"
#include "tensor_maps.h"
#include "warpsmith/abi.h"
#include "worker_arena.h"

namespace worker {

constexpr size_t kMostComplaint = 1 << 16;

class Memory {
 public:
  // Device memory of the judge's arena where it shares one, else of the worker's own; nullptr when none is left.
  void* allocate(size_t bytes) {
    if (blocks_.is_open()) return blocks_.take(bytes);
    void* data = nullptr;
    if (cudaMalloc(&data, bytes ? bytes : 1) != 0) return nullptr;
    ranges_[uint64_t(data)] = bytes ? bytes : 1;
    return data;
  }
  void release(void* data) { blocks_.give_back(uint64_t(data)); }
  // Not yet: work on some stream may still use it.
  void release_later(void* data) { later_.push_back(data); }

  void share(const Arenas& arenas) { blocks_.open(arenas.at(kResultsArena)); }
  const Blocks& blocks() const { return blocks_; }

  // Device memory that the judge made.
  void know(uint64_t address, uint64_t bytes) { ranges_[address] = bytes; }

  void* scratch(size_t bytes) {
    scratch_.push_back(std::make_unique<uint8_t[]>(bytes + 1));  // value-initialized: zeroed
    return scratch_.back().get();
  }

  void complain(const char* text) {
    if (text && complaint_.size() < kMostComplaint) complaint_.append(text).append("\n");
    if (complaint_.size() > kMostComplaint) complaint_.resize(kMostComplaint);
  }

  bool contains(uint64_t address, uint64_t bytes) const {
    return inside(ranges_, address, bytes) || inside(blocks_.taken(), address, bytes);
  }

  const std::string& complaint() const { return complaint_; }

  // Once all work of the call is over.
  void release_due() {
    for (void* data : later_) release(data);
    later_.clear();
  }

  // What dies with a call; device memory stays until the process ends, since results lie in it.
  void end_call() {
    release_due();
    scratch_.clear();
    complaint_.clear();
  }

 private:
  static bool inside(const std::map<uint64_t, uint64_t>& ranges, uint64_t address, uint64_t bytes) {
    auto after = ranges.upper_bound(address);
    if (after == ranges.begin()) return false;
    --after;
    uint64_t offset = address - after->first;
    return offset <= after->second && bytes <= after->second - offset;
  }

  Blocks blocks_;
  std::map<uint64_t, uint64_t> ranges_;
  std::vector<std::unique_ptr<uint8_t[]>> scratch_;
  std::vector<void*> later_;
  std::string complaint_;
};

inline WsHost lend(Memory* memory, void* stream) {
  WsHost host{};
  host.version = WARPSMITH_ABI;
  host.context = memory;
  host.stream = stream;
  host.allocate = [](void* context, size_t bytes) { return static_cast<Memory*>(context)->allocate(bytes); };
  host.release = [](void* context, void* data) { static_cast<Memory*>(context)->release(data); };
  host.scratch = [](void* context, size_t bytes) { return static_cast<Memory*>(context)->scratch(bytes); };
  host.complain = [](void* context, const char* text) { static_cast<Memory*>(context)->complain(text); };
  host.blas = [](void*) -> void* { return nullptr; };
  if (find_encoder())
    host.encode_tensor_map = [](void*, void* map, const WsTiledMap* wanted) { return encode(map, *wanted); };
  return host;
}

}  // namespace worker
