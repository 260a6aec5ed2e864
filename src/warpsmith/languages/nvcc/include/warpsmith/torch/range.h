// c10::irange, for loops over indices.
#pragma once

#include <cstdint>

namespace c10 {

// for (auto i : c10::irange(n))
class irange {
 public:
  struct iterator {
    int64_t at;
    int64_t operator*() const { return at; }
    iterator& operator++() { ++at; return *this; }
    bool operator!=(iterator other) const { return at != other.at; }
  };
  explicit irange(int64_t end) : irange(0, end) {}
  irange(int64_t begin, int64_t end) : begin_(begin), end_(end < begin ? begin : end) {}
  iterator begin() const { return {begin_}; }
  iterator end() const { return {end_}; }

 private:
  int64_t begin_, end_;
};

}  // namespace c10
