// PYBIND11_MODULE and m.def: the table of the artifact's functions, made from C++ function types.
#pragma once

#include "../entry.h"
#include "value.h"

namespace warpsmith {

template <class T>
using Bare = std::remove_cv_t<std::remove_reference_t<T>>;

template <class R>
struct Returned : Answer<Bare<R>> {};
template <>
struct Returned<void> {
  static constexpr int count = 0;
  template <int N>
  static constexpr void write(Chars<N>&) {}
};

template <class R, class... Arguments>
struct Bound {
  static constexpr int count = sizeof...(Arguments) + Returned<R>::count;

  template <int N>
  static constexpr void write(Chars<N>& out) {
    bool first = true;
    ((out.put(first ? "" : ","), out.put(Kind<Bare<Arguments>>::name), first = false), ...);
    out.put("->");
    Returned<R>::write(out);
  }

  template <class F>
  static int call(void* function, const WsHost* host, const WsValue* arguments, int given, WsValue* results,
                  int capacity) {
    if (given != static_cast<int>(sizeof...(Arguments))) return WS_BAD_ARGUMENTS;
    const WsValue* next = arguments;
    if (!(Kind<Bare<Arguments>>::accepts((next++)->kind) && ...)) return WS_BAD_ARGUMENTS;
    Loan loan(host);
    try {
      Results out{results, capacity};
      run(*static_cast<F*>(function), arguments, out, std::index_sequence_for<Arguments...>());
      return out.count > capacity ? int{WS_TOO_MANY_RESULTS} : out.count;
    } catch (const c10::Error& error) {
      return complain(host, error.what(), error.status());
    } catch (const std::exception& error) {
      return complain(host, error.what(), WS_REFUSED);
    } catch (...) {
      return complain(host, "the kernel threw something that is no std::exception", WS_REFUSED);
    }
  }

 private:
  template <class F, size_t... I>
  static void run(F& function, const WsValue* arguments, Results& out, std::index_sequence<I...>) {
    std::tuple<typename Kind<Bare<Arguments>>::held...> held{Kind<Bare<Arguments>>::read(arguments[I])...};
    if constexpr (std::is_void_v<R>)
      function(static_cast<Arguments&&>(std::get<I>(held))...);
    else
      Answer<Bare<R>>::put(out, function(static_cast<Arguments&&>(std::get<I>(held))...));
  }
};

// The function type of a pointer or of a lambda.
template <class F>
struct TypeOf : TypeOf<decltype(&F::operator())> {};
template <class R, class... A>
struct TypeOf<R (*)(A...)> {
  using bound = Bound<R, A...>;
};
template <class R, class... A>
struct TypeOf<R (*)(A...) noexcept> : TypeOf<R (*)(A...)> {};
template <class C, class R, class... A>
struct TypeOf<R (C::*)(A...) const> : TypeOf<R (*)(A...)> {};
template <class C, class R, class... A>
struct TypeOf<R (C::*)(A...)> : TypeOf<R (*)(A...)> {};

inline const char* doc_of(const char* text) { return text; }
template <class T>
const char* doc_of(const T&) { return nullptr; }

}  // namespace warpsmith

namespace pybind11 {

class module_ {
 public:
  explicit module_(warpsmith::Table& table) : table_(table) {}

#ifdef __CUDA_ARCH__
  // The device's pass looks for kernels; a lambda's body is seen without what is bound around it.
  template <class Name, class F, class... Extra>
  module_& define(Name, F, const Extra&...) { return *this; }
#else
  template <class Name, class F, class... Extra>
  module_& define(Name, F function, const Extra&... extra) {
    using Type = typename warpsmith::TypeOf<F>::bound;
    const char* doc = "";
    ((doc = warpsmith::doc_of(extra) ? warpsmith::doc_of(extra) : doc), ...);
    table_.add<Name, Type>(doc, new F(function), &Type::template call<F>);
    return *this;
  }
#endif
  // Named attributes and the module's own text have no reader here.
  std::string& doc() { return doc_; }
  std::string& attr(const char*) { return doc_; }

 private:
  warpsmith::Table& table_;
  std::string doc_;
};
using module = module_;

}  // namespace pybind11

// A macro, so that the name becomes part of a type and is found in the file beside the kinds.
#define def(NAME, ...) define(WARPSMITH_NAME(NAME), __VA_ARGS__)

#ifndef TORCH_EXTENSION_NAME
#define TORCH_EXTENSION_NAME warpsmith_candidate
#endif

#define PYBIND11_MODULE(NAME, VARIABLE, ...)                              \
  static void warpsmith_module(::pybind11::module_&);                     \
  static void warpsmith_fill(::warpsmith::Table& table) {                 \
    ::pybind11::module_ made(table);                                      \
    warpsmith_module(made);                                               \
  }                                                                       \
  WARPSMITH_EXPORTS(warpsmith_fill)                                       \
  static void warpsmith_module([[maybe_unused]] ::pybind11::module_& VARIABLE)
