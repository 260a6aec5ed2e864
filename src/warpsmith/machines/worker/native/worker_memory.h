// Memory that the candidate was given in a call, so that a returned tensor can be checked against it.
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
  // Allocates in the shared arena if there is one, else in device memory of the worker. Returns nullptr if none is
  // left.
  void* allocate(size_t bytes) {
    if (blocks_.is_open()) return blocks_.allocate(bytes);
    void* data = nullptr;
    if (cudaMalloc(&data, bytes ? bytes : 1) != 0) return nullptr;
    ranges_[uint64_t(data)] = bytes ? bytes : 1;
    return data;
  }
  void release(void* data) { blocks_.release(uint64_t(data)); }
  // Releases the block after the call, because work on some stream may still use it.
  void release_later(void* data) { later_.push_back(data); }

  void use_arenas(const Arenas& arenas) { blocks_.open(arenas.at(kResultsArena)); }
  const Blocks& blocks() const { return blocks_; }

  // Adds a range of device memory that the evaluator process allocated.
  void add_range(uint64_t address, uint64_t bytes) { ranges_[address] = bytes; }

  void* scratch(size_t bytes) {
    scratch_.push_back(std::make_unique<uint8_t[]>(bytes + 1));  // make_unique value-initializes: the memory is zero
    return scratch_.back().get();
  }

  void complain(const char* text) {
    if (text && complaint_.size() < kMostComplaint) complaint_.append(text).append("\n");
    if (complaint_.size() > kMostComplaint) complaint_.resize(kMostComplaint);
  }

  bool contains(uint64_t address, uint64_t bytes) const {
    return inside(ranges_, address, bytes) || inside(blocks_.allocated(), address, bytes);
  }

  const std::string& complaint() const { return complaint_; }

  // Releases the postponed blocks; all work of the call is over.
  void release_due() {
    for (void* data : later_) release(data);
    later_.clear();
  }

  // Frees what belongs to one call. Device memory stays until the process ends, because results lie in it.
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

inline WsHost make_host(Memory* memory, void* stream) {
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
