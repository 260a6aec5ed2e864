// The plain style: extern "C" functions over DLPack tensors and a stream, outputs given by the caller.
//
//   tensor, optional_tensor -> const DLTensor*            float -> double   int -> int64_t   bool -> bool
//   tensors -> const DLTensor* const*, int64_t            ints -> const int64_t*, int64_t
//   then one DLTensor* for each result, then cudaStream_t; returns 0 when fine.
#pragma once

#include <cuda_runtime.h>

#include "entry.h"

namespace warpsmith::plain {

template <class T>
struct Parameter {
  static_assert(sizeof(T) == 0,
                "a parameter of a plain kernel is const DLTensor*, const DLTensor* const* with int64_t, double, "
                "int64_t, bool, const int64_t* with int64_t, DLTensor* for a result, or cudaStream_t at the end");
};

#define WARPSMITH_PARAMETER(TYPE, NAME, KINDS, READ)                      \
  template <>                                                             \
  struct Parameter<TYPE> {                                                \
    static constexpr const char* name = NAME;                             \
    static constexpr bool result = false;                                 \
    static bool accepts(int kind) { return KINDS; }                       \
    static TYPE read(const WsValue& value) { return READ; }               \
  };
WARPSMITH_PARAMETER(const DLTensor*, "optional_tensor", kind == WS_TENSOR || kind == WS_NONE,
                    value.kind == WS_NONE ? nullptr : value.as.tensor)
WARPSMITH_PARAMETER(const DLTensor* const*, "tensors", kind == WS_TENSORS, value.as.tensors)
WARPSMITH_PARAMETER(const int64_t*, "ints", kind == WS_INTS, value.as.ints)
WARPSMITH_PARAMETER(double, "float", kind == WS_FLOAT || kind == WS_INT,
                    value.kind == WS_INT ? static_cast<double>(value.as.i) : value.as.f)
WARPSMITH_PARAMETER(int64_t, "int", kind == WS_INT || kind == WS_BOOL, value.as.i)
WARPSMITH_PARAMETER(bool, "bool", kind == WS_BOOL, value.as.i != 0)
#undef WARPSMITH_PARAMETER

template <>
struct Parameter<DLTensor*> {
  static constexpr const char* name = "&tensor";
  static constexpr bool result = true;
  static bool accepts(int kind) { return kind == WS_TENSOR; }
  static DLTensor* read(const WsValue& value) { return value.as.tensor; }
};

template <class T>
constexpr bool is_list = false;
template <>
inline constexpr bool is_list<const DLTensor* const*> = true;
template <>
inline constexpr bool is_list<const int64_t*> = true;

// Reads values in order; a list is read twice, as pointer and as count.
struct Reader {
  const WsValue* values;
  int count;
  int place = 0;
  bool counting = false;
  bool wrong = false;

  template <class T>
  T next() {
    if constexpr (std::is_same_v<T, int64_t>) {
      if (counting) {
        counting = false;
        return values[place++].count;
      }
    }
    if (place >= count || !Parameter<T>::accepts(values[place].kind)) {
      wrong = true;
      return T{};
    }
    counting = is_list<T>;
    return Parameter<T>::read(values[counting ? place : place++]);
  }
};

template <class... Parameters>
struct Style {
  static constexpr int count = sizeof...(Parameters);
  static constexpr int results = (0 + ... + int(Parameter<Parameters>::result));

  template <int N>
  static constexpr void write(Chars<N>& out) {
    bool counting = false, first = true, results = false;
    (one<Parameters>(out, counting, first, results), ...);
    if (!results) out.put("->");
  }

  template <class T, int N>
  static constexpr void one(Chars<N>& out, bool& counting, bool& first, bool& results) {
    if (std::is_same_v<T, int64_t> && counting) {
      counting = false;
      return;
    }
    if (Parameter<T>::result && !results) {
      out.put("->");
      results = first = true;
    }
    if (!first) out.put(",");
    out.put(Parameter<T>::name);
    first = false;
    counting = is_list<T>;
  }
};

template <class... All>
struct Split;
template <class... Parameters>
struct Split<cudaStream_t, Parameters...> {
  using style = Style<Parameters...>;
  static int call(int (*function)(Parameters..., cudaStream_t), const WsHost* host, Reader& reader) {
    // Braces, because only a braced list is evaluated in order.
    return Apply{function, static_cast<cudaStream_t>(host->stream), reader, reader.next<Parameters>()...}.status;
  }
  struct Apply {
    int status;
    Apply(int (*function)(Parameters..., cudaStream_t), cudaStream_t stream, const Reader& reader,
          Parameters... values)
        : status(reader.wrong || reader.place != reader.count ? int{WS_BAD_ARGUMENTS} : function(values..., stream)) {}
  };
};

// Moves the last type, the stream, to the front.
template <class Done, class... Rest>
struct Rotate;
template <class... Done, class Last>
struct Rotate<Style<Done...>, Last> {
  static_assert(std::is_same_v<Last, cudaStream_t>, "the last parameter of a plain kernel is cudaStream_t");
  using type = Split<cudaStream_t, Done...>;
};
template <class... Done, class First, class Second, class... Rest>
struct Rotate<Style<Done...>, First, Second, Rest...> {
  using type = typename Rotate<Style<Done..., First>, Second, Rest...>::type;
};

template <class... All>
struct Function {
  using split = typename Rotate<Style<>, All...>::type;
  static constexpr int given = split::style::results;
  static int call(void* function, const WsHost* host, const WsValue* arguments, int count, WsValue* results,
                  int capacity) {
    Reader reader{arguments, count};
    if (given > capacity) return WS_TOO_MANY_RESULTS;
    try {
      const int status = split::call(reinterpret_cast<int (*)(All...)>(function), host, reader);
      if (reader.wrong || status == WS_BAD_ARGUMENTS) return WS_BAD_ARGUMENTS;
      // The caller's own tensors, the last of the arguments, are handed back as the results.
      for (int i = 0; i < given && status == 0; ++i) results[i] = arguments[count - given + i];
      if (status == 0) return given;
      return complain(host, "the kernel returned a status other than 0", WS_REFUSED);
    } catch (const std::exception& error) {
      return complain(host, error.what(), WS_REFUSED);
    }
  }
};

template <class Name, class... All>
void add(Table& table, Name, int (*function)(All...)) {
  using Bound = Function<All...>;
  table.add<Name, typename Bound::split::style>("", reinterpret_cast<void*>(function), &Bound::call);
}

}  // namespace warpsmith::plain
