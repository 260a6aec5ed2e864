// A single number of either kind, as factories and fill_ take it and item() gives it.
#pragma once

#include "scalar_type.h"

namespace c10 {

class Scalar {
 public:
  Scalar() : Scalar(int64_t{0}) {}
  template <class T, detail::if_arithmetic<T> = 0>
  Scalar(T value) : real_(static_cast<double>(value)), whole_(static_cast<int64_t>(value)), integral_(std::is_integral_v<T>) {}
  Scalar(Half value) : Scalar(float(value)) {}
  Scalar(BFloat16 value) : Scalar(float(value)) {}

  template <class T>
  T to() const { return integral_ ? static_cast<T>(whole_) : static_cast<T>(real_); }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int toInt() const { return to<int>(); }
  int64_t toLong() const { return to<int64_t>(); }
  bool toBool() const { return to<bool>(); }
  bool isIntegral(bool = false) const { return integral_; }
  bool isFloatingPoint() const { return !integral_; }

 private:
  double real_;
  int64_t whole_;
  bool integral_;
};

}  // namespace c10
