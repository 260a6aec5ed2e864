// What a tensor handle points to: counted memory, and counted geometry over it. One thread only, so counts are plain.
#pragma once

#include "host.h"

namespace c10 {

constexpr int kMaxDim = 16;

template <class T>
class Counted {
 public:
  Counted() = default;
  explicit Counted(T* target) : target_(target) { grab(); }
  Counted(const Counted& other) : target_(other.target_) { grab(); }
  Counted(Counted&& other) noexcept : target_(other.target_) { other.target_ = nullptr; }
  Counted& operator=(Counted other) noexcept {
    T* mine = target_;
    target_ = other.target_;
    other.target_ = mine;
    return *this;
  }
  ~Counted() {
    if (target_ && --target_->refs == 0) delete target_;
  }
  T* operator->() const { return target_; }
  T* get() const { return target_; }

 private:
  void grab() {
    if (target_) ++target_->refs;
  }
  T* target_ = nullptr;
};

// Device memory of the caller. `ours` says that this artifact took it in and may give it back early.
struct Storage {
  int refs = 0;
  void* data = nullptr;
  size_t bytes = 0;
  bool ours = false;

  ~Storage() {
    const WsHost* host = warpsmith::current_host();
    if (ours && host && host->release) host->release(host->context, data);
  }
};

struct TensorImpl {
  int refs = 0;
  Counted<Storage> storage;
  char* data = nullptr;
  ScalarType type = kFloat;
  Device device = kCUDA;
  int dim = 0;
  int64_t sizes[kMaxDim] = {};
  int64_t strides[kMaxDim] = {};

  int64_t count() const {
    int64_t product = 1;
    for (int i = 0; i < dim; ++i) product *= sizes[i];
    return product;
  }

  // Dense in the order given: the last axis fastest, or axis 1 for channels last.
  void pack(MemoryFormat format = MemoryFormat::Contiguous) {
    int order[kMaxDim];
    for (int i = 0; i < dim; ++i) order[i] = i;
    if (format == MemoryFormat::ChannelsLast && dim > 2) {
      for (int i = 1; i + 1 < dim; ++i) order[i] = i + 1;
      order[dim - 1] = 1;
    }
    int64_t step = 1;
    for (int i = dim - 1; i >= 0; --i) {
      strides[order[i]] = step;
      step *= sizes[order[i]] > 1 ? sizes[order[i]] : 1;
    }
  }

  bool packed(MemoryFormat format = MemoryFormat::Contiguous) const {
    TensorImpl dense;
    dense.dim = dim;
    for (int i = 0; i < dim; ++i) dense.sizes[i] = sizes[i];
    dense.pack(format);
    if (count() == 0) return true;
    for (int i = 0; i < dim; ++i)
      if (sizes[i] != 1 && strides[i] != dense.strides[i]) return false;
    return true;
  }
};

}  // namespace c10
