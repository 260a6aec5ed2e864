// C++ types of a function's arguments and results, as kinds and values of the ABI.
#pragma once

#include <array>

#include "python.h"

namespace warpsmith {

inline c10::Tensor borrowed(const DLTensor* given) {
  const c10::ScalarType type = c10::scalar_of(given->dtype);
  if (type == c10::ScalarType::Undefined) throw c10::Error("an argument of an element type that torch does not have");
  const c10::Device device(given->device.device_type == 2 ? c10::kCUDA : c10::kCPU,
                           static_cast<c10::DeviceIndex>(given->device.device_id));
  return c10::Tensor::over(static_cast<char*>(given->data) + given->byte_offset,
                           c10::IntArrayRef(given->shape, static_cast<size_t>(given->ndim)), given->strides,
                           c10::TensorOptions(type).device(device));
}

inline std::vector<c10::Tensor> borrowed_all(const WsValue& value) {
  std::vector<c10::Tensor> list;
  for (int i = 0; i < value.count; ++i) list.push_back(borrowed(value.as.tensors[i]));
  return list;
}

// Kind<T>: `name`, `accepts(kind)`, `read(value)` into `held`, which converts to the parameter.
template <class T, class = void>
struct Kind {
  static_assert(sizeof(T) == 0,
                "a kernel's argument is a tensor, an optional tensor, a list of tensors, float, int, bool or a list of int");
};

#define WARPSMITH_KIND(TYPE, HELD, NAME, KINDS, READ)                     \
  template <>                                                             \
  struct Kind<TYPE, void> {                                               \
    using held = HELD;                                                    \
    static constexpr const char* name = NAME;                             \
    static bool accepts(int kind) { return KINDS; }                       \
    static HELD read(const WsValue& value) { return READ; }               \
  };
WARPSMITH_KIND(c10::Tensor, c10::Tensor, "tensor", kind == WS_TENSOR, borrowed(value.as.tensor))
WARPSMITH_KIND(std::optional<c10::Tensor>, std::optional<c10::Tensor>, "optional_tensor",
               kind == WS_TENSOR || kind == WS_NONE,
               value.kind == WS_NONE ? std::optional<c10::Tensor>() : borrowed(value.as.tensor))
WARPSMITH_KIND(std::vector<c10::Tensor>, std::vector<c10::Tensor>, "tensors", kind == WS_TENSORS, borrowed_all(value))
WARPSMITH_KIND(c10::TensorList, std::vector<c10::Tensor>, "tensors", kind == WS_TENSORS, borrowed_all(value))
WARPSMITH_KIND(pybind11::tuple, pybind11::tuple, "tensors", kind == WS_TENSORS, pybind11::tuple(borrowed_all(value)))
WARPSMITH_KIND(pybind11::list, pybind11::list, "tensors", kind == WS_TENSORS, pybind11::list(borrowed_all(value)))
WARPSMITH_KIND(bool, bool, "bool", kind == WS_BOOL, value.as.i != 0)
WARPSMITH_KIND(c10::Scalar, c10::Scalar, "float", kind == WS_FLOAT || kind == WS_INT,
               value.kind == WS_INT ? c10::Scalar(value.as.i) : c10::Scalar(value.as.f))
WARPSMITH_KIND(c10::IntArrayRef, c10::IntArrayRef, "ints", kind == WS_INTS,
               c10::IntArrayRef(value.as.ints, static_cast<size_t>(value.count)))
#undef WARPSMITH_KIND

template <class T>
struct Kind<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  using held = T;
  static constexpr const char* name = "float";
  static bool accepts(int kind) { return kind == WS_FLOAT || kind == WS_INT; }
  static T read(const WsValue& value) { return static_cast<T>(value.kind == WS_INT ? double(value.as.i) : value.as.f); }
};
template <class T>
struct Kind<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  using held = T;
  static constexpr const char* name = "int";
  static bool accepts(int kind) { return kind == WS_INT || kind == WS_BOOL; }
  static T read(const WsValue& value) { return static_cast<T>(value.as.i); }
};
template <class T>
struct Kind<std::vector<T>, std::enable_if_t<std::is_integral_v<T>>> {
  using held = std::vector<T>;
  static constexpr const char* name = "ints";
  static bool accepts(int kind) { return kind == WS_INTS; }
  static held read(const WsValue& value) { return held(value.as.ints, value.as.ints + value.count); }
};
// An optional number: the task always gives one.
template <class T>
struct Kind<std::optional<T>, std::enable_if_t<std::is_arithmetic_v<T>>> {
  using held = std::optional<T>;
  static constexpr const char* name = Kind<T>::name;
  static bool accepts(int kind) { return kind == WS_NONE || Kind<T>::accepts(kind); }
  static held read(const WsValue& value) { return value.kind == WS_NONE ? held() : held(Kind<T>::read(value)); }
};
template <class... Items>
struct Kind<std::tuple<Items...>> {
  using held = std::tuple<Items...>;
  static constexpr const char* name = "tensors";
  static bool accepts(int kind) { return kind == WS_TENSORS; }
  static held read(const WsValue& value) { return take(borrowed_all(value), std::index_sequence_for<Items...>()); }
  template <size_t... I>
  static held take(const std::vector<c10::Tensor>& list, std::index_sequence<I...>) {
    TORCH_CHECK(list.size() == sizeof...(I), "a tuple of ", sizeof...(I), " tensors was given ", list.size());
    return held(list[I]...);
  }
};

// The tensors a call returns, in order. Memory that leaves by a result is the caller's from then on.
struct Results {
  WsValue* values;
  int capacity;
  int count = 0;

  void put(WsValue value) {
    if (count < capacity) values[count] = value;
    ++count;
  }
  void put(const c10::Tensor& tensor) {
    WsValue value = {};
    if (tensor.defined()) {
      value.kind = WS_TENSOR;
      value.as.tensor = lent(*tensor.impl());
    }
    put(value);
  }
  static DLTensor* lent(c10::TensorImpl& impl) {
    impl.storage->ours = false;
    DLTensor* out = scratch<DLTensor>(1);
    int64_t* geometry = scratch<int64_t>(2 * static_cast<size_t>(impl.dim));
    for (int i = 0; i < impl.dim; ++i) geometry[i] = impl.sizes[i], geometry[impl.dim + i] = impl.strides[i];
    *out = {impl.data, {impl.device.is_cuda() ? 2 : 1, impl.device.index()}, impl.dim, c10::dlpack_of(impl.type),
            geometry,  geometry + impl.dim, 0};
    return out;
  }
};

// Answer<T>: how a result type is named, and how it becomes values.
template <class T, class = void>
struct Answer {
  static_assert(sizeof(T) == 0,
                "a kernel returns a tensor, a vector, array, pair or tuple of tensors, py::tuple, or nothing");
};
template <>
struct Answer<c10::Tensor> {
  static constexpr int count = 1;
  template <int N>
  static constexpr void write(Chars<N>& out) { out.put("tensor"); }
  static void put(Results& out, const c10::Tensor& value) { out.put(value); }
};
template <>
struct Answer<std::optional<c10::Tensor>> {
  static constexpr int count = 1;
  template <int N>
  static constexpr void write(Chars<N>& out) { out.put("optional_tensor"); }
  static void put(Results& out, const std::optional<c10::Tensor>& value) { out.put(value ? *value : c10::Tensor()); }
};
template <>
struct Answer<std::vector<c10::Tensor>> {
  static constexpr int count = 1;
  template <int N>
  static constexpr void write(Chars<N>& out) { out.put("tensors"); }
  static void put(Results& out, const std::vector<c10::Tensor>& list) {
    for (const c10::Tensor& value : list) out.put(value);
  }
};
template <class T>
struct Answer<T, std::enable_if_t<std::is_base_of_v<pybind11::tuple, T>>> : Answer<std::vector<c10::Tensor>> {
  static void put(Results& out, const T& list) { Answer<std::vector<c10::Tensor>>::put(out, list.items()); }
};
template <class T>
struct Answer<T, std::enable_if_t<std::is_arithmetic_v<T>>> {
  static constexpr int count = 1;
  template <int N>
  static constexpr void write(Chars<N>& out) { out.put(Kind<T>::name); }
  static void put(Results& out, T value) {
    WsValue made = {};
    made.kind = std::is_floating_point_v<T> ? WS_FLOAT : std::is_same_v<T, bool> ? WS_BOOL : WS_INT;
    if (std::is_floating_point_v<T>) made.as.f = static_cast<double>(value);
    else made.as.i = static_cast<int64_t>(value);
    out.put(made);
  }
};
template <size_t M>
struct Answer<std::array<c10::Tensor, M>> {
  static constexpr int count = M;
  template <int N>
  static constexpr void write(Chars<N>& out) {
    for (size_t i = 0; i < M; ++i) out.put(i ? ",tensor" : "tensor");
  }
  static void put(Results& out, const std::array<c10::Tensor, M>& list) {
    for (const c10::Tensor& value : list) out.put(value);
  }
};
template <class... Items>
struct Answer<std::tuple<Items...>> {
  static constexpr int count = sizeof...(Items);
  template <int N>
  static constexpr void write(Chars<N>& out) {
    bool first = true;
    ((out.put(first ? "" : ","), Answer<Items>::write(out), first = false), ...);
  }
  static void put(Results& out, const std::tuple<Items...>& list) {
    std::apply([&](const Items&... values) { (Answer<Items>::put(out, values), ...); }, list);
  }
};
template <class A, class B>
struct Answer<std::pair<A, B>> : Answer<std::tuple<A, B>> {};

}  // namespace warpsmith
