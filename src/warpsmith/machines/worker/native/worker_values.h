// Values of a call: conversion from the bytes of a frame to the structures of abi.h, and back.
#pragma once

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "warpsmith/abi.h"
#include "worker_protocol.h"

namespace worker {

// Reader of packed fields. After a field that is missing all fields read as zero and `good` is false.
class Reader {
 public:
  Reader(const uint8_t* from, size_t bytes) : at_(from), left_(bytes) {}

  template <class T>
  T take() {
    T value{};
    if (const uint8_t* from = bytes(sizeof(T))) std::memcpy(&value, from, sizeof(T));
    return value;
  }
  const uint8_t* bytes(uint64_t count) {
    if (!good_ || count > left_) {
      good_ = false;
      return nullptr;
    }
    const uint8_t* from = at_;
    at_ += count;
    left_ -= count;
    return from;
  }
  bool good() const { return good_; }
  bool whole() const { return good_ && left_ == 0; }

 private:
  const uint8_t* at_;
  size_t left_;
  bool good_ = true;
};

class Writer {
 public:
  template <class T>
  void put(T value) {
    bytes(&value, sizeof value);
  }
  void bytes(const void* from, size_t count) { out_.append(static_cast<const char*>(from), count); }
  const std::string& out() const { return out_; }

 private:
  std::string out_;
};

// A tensor of the call with the arrays that its DLTensor points to.
struct Held {
  DLTensor tensor{};
  std::vector<int64_t> shape, strides;
  uint64_t address = 0, length = 0;
  const uint8_t* bytes = nullptr;  // points into the frame
};

struct Arguments {
  std::deque<Held> held;  // deque: elements keep their addresses
  std::deque<std::vector<DLTensor*>> lists;
  std::deque<std::vector<int64_t>> ints;
  std::vector<WsValue> values;
};

bool read_values(Reader* from, uint32_t count, Arguments* into);

// Computes the bytes from the first to the last element. Returns false for negative sizes or strides and on overflow.
bool extent(const DLTensor& tensor, uint64_t* bytes);

void write_tensor(Writer* to, const DLTensor& tensor, uint64_t address, const std::vector<uint8_t>& bytes);

}  // namespace worker
