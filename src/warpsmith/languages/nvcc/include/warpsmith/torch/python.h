// The names of pybind11 that a kernel's module uses: tuples of tensors, named arguments, guards. No Python behind it.
#pragma once

#include <tuple>

#include "tensor.h"

namespace pybind11 {

// One element of a tuple: a tensor.
class object {
 public:
  object() = default;
  object(c10::Tensor tensor) : tensor_(tensor) {}
  template <class T>
  T cast() const { return tensor_; }
  operator c10::Tensor() const { return tensor_; }
  bool is_none() const { return !tensor_.defined(); }

 private:
  c10::Tensor tensor_;
};
using handle = object;
inline object none() { return {}; }

class tuple {
 public:
  tuple() = default;
  explicit tuple(std::vector<c10::Tensor> items) : items_(items) {}
  size_t size() const { return items_.size(); }
  object operator[](size_t i) const { return items_.at(i); }
  void append(const c10::Tensor& item) { items_.push_back(item); }
  const std::vector<c10::Tensor>& items() const { return items_; }
  template <class T>
  T cast() const { return items_; }

 private:
  std::vector<c10::Tensor> items_;
};
class list : public tuple {
 public:
  using tuple::tuple;
};

inline size_t len(const tuple& items) { return items.size(); }
template <class... Items>
tuple make_tuple(const Items&... items) { return tuple(std::vector<c10::Tensor>{items...}); }
template <class T>
T cast(const object& item) { return item.cast<T>(); }

struct arg {
  const char* name;
  constexpr explicit arg(const char* text) : name(text) {}
  template <class T>
  arg operator=(const T&) const { return *this; }
  arg operator=(std::nullopt_t) const { return *this; }
  arg& noconvert(bool = true) { return *this; }
  arg& none(bool = true) { return *this; }
};
namespace literals {
constexpr arg operator""_a(const char* text, size_t) { return arg(text); }
}  // namespace literals

struct gil_scoped_release {
  gil_scoped_release() {}
};
struct gil_scoped_acquire {
  gil_scoped_acquire() {}
};
template <class... Guards>
struct call_guard {};
enum class return_value_policy { automatic, move, copy, reference };
struct kw_only {};
struct pos_only {};
struct mod_gil_not_used {};

}  // namespace pybind11

namespace py = pybind11;
