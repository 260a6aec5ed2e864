// The memory of calls: what the candidate was given, so that what it gives back can be held against it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda_calls.h"
#include "warpsmith/abi.h"

namespace worker {

constexpr size_t kMostComplaint = 1 << 16;

class Memory {
 public:
  // Device memory of the worker's own; nullptr when there is none left.
  void* allocate(size_t bytes) {
    void* data = nullptr;
    if (cudaMalloc(&data, bytes ? bytes : 1) != 0) return nullptr;
    ranges_[uint64_t(data)] = bytes ? bytes : 1;
    return data;
  }
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
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return false;
    --after;
    uint64_t offset = address - after->first;
    return offset <= after->second && bytes <= after->second - offset;
  }

  const std::string& complaint() const { return complaint_; }

  // What dies with a call; device memory stays until the process ends, since results lie in it.
  void end_call() {
    scratch_.clear();
    complaint_.clear();
  }

 private:
  std::map<uint64_t, uint64_t> ranges_;
  std::vector<std::unique_ptr<uint8_t[]>> scratch_;
  std::string complaint_;
};

inline WsHost lend(Memory* memory, void* stream) {
  WsHost host{};
  host.version = WARPSMITH_ABI;
  host.context = memory;
  host.stream = stream;
  host.allocate = [](void* context, size_t bytes) { return static_cast<Memory*>(context)->allocate(bytes); };
  host.release = [](void*, void*) {};
  host.scratch = [](void* context, size_t bytes) { return static_cast<Memory*>(context)->scratch(bytes); };
  host.complain = [](void* context, const char* text) { static_cast<Memory*>(context)->complain(text); };
  host.blas = [](void*) -> void* { return nullptr; };
  return host;
}

}  // namespace worker
