// A hand-written artifact: a table of entries, each a host function over the call's first tensor.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "warpsmith/abi.h"

struct Call {
  const WsHost* host;
  const WsValue* arguments;
  WsValue* results;
  float* x;       // the first argument's data
  int n;          // and its length
  cudaStream_t stream;
};

struct EntryRow {
  const char* name;
  int (*run)(Call&);
};

// Complains with the line and gives up; what the entry expects of the runtime is said in C++.
#define EXPECT(condition)                                                                      \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      call.host->complain(call.host->context, (std::to_string(__LINE__) + ": " #condition).c_str()); \
      return WS_REFUSED;                                                                       \
    }                                                                                          \
  } while (0)
#define OK(expression) EXPECT((expression) == cudaSuccess)

// The first argument itself is the result.
inline int same(Call& call) {
  call.results[0] = call.arguments[0];
  return 1;
}

// A tensor of the same length, made by the evaluator's allocator.
inline float* fresh(Call& call, int place = 0) {
  const DLTensor* like = call.arguments[0].as.tensor;
  auto* tensor = static_cast<DLTensor*>(call.host->scratch(call.host->context, sizeof(DLTensor)));
  *tensor = *like;
  tensor->data = call.host->allocate(call.host->context, size_t(call.n) * sizeof(float));
  call.results[place].kind = WS_TENSOR;
  call.results[place].as.tensor = tensor;
  return static_cast<float*>(tensor->data);
}

#define ENTRIES(...) \
  static const EntryRow kRows[] = {__VA_ARGS__}; \
  extern "C" int warpsmith_abi() { return WARPSMITH_ABI; } \
  extern "C" int warpsmith_entries(const WsEntry** table) { *table = nullptr; return 0; } \
  extern "C" int warpsmith_call(const char* name, const WsHost* host, const WsValue* arguments, int count, \
                                WsValue* results, int) { \
    Call call{host, arguments, results, nullptr, 0, static_cast<cudaStream_t>(host->stream)}; \
    if (count && arguments[0].kind == WS_TENSOR) { \
      call.x = static_cast<float*>(arguments[0].as.tensor->data); \
      call.n = arguments[0].as.tensor->ndim ? int(arguments[0].as.tensor->shape[0]) : 1; \
    } \
    for (const EntryRow& row : kRows) \
      if (std::strcmp(row.name, name) == 0) return row.run(call); \
    return WS_NO_SUCH_ENTRY; \
  }
#define ROW(name) EntryRow{#name, name}
