// What the recording and the runtime's functions in front of it (worker_hooks.cpp) share.
#pragma once

#include <dlfcn.h>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cuda_calls.h"
#include "worker_memory.h"
#include "worker_order.h"
#include "worker_variables.h"

// The runtime's own function of a name; looked up once, since a lookup would stand on the clock.
#define NEXT(name)                                                                         \
  (*[] {                                                                                   \
    static auto* const found = reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name)); \
    return found;                                                                          \
  }())

namespace worker::record {

constexpr size_t kPitch = 512;
constexpr uint64_t kMostServed = uint64_t(512) << 20;  // half of the scratch: results need room too

struct Node {
  const void* node;  // of a graph that was built by hand
  std::string operation;
};

struct State {
  std::map<const void*, std::string> kernels;  // by the host's pointer, and by the runtime's handle
  std::map<const void*, Variable> symbols;
  std::vector<Variable> variables;                          // of the artifact's machine code
  std::map<std::string, std::vector<uint32_t>> parameters;  // bytes of each, by the kernel's name
  std::map<const void*, std::vector<Node>> graphs, runnable;
  std::vector<Node> captured;  // of the graph that is being captured
  int capturing = 0;
  std::map<std::pair<std::string, int>, int> attributes;  // of kernels: they outlive a call
  std::string values;                                     // of all symbols, before this call
  std::string call;                                       // what is asked in this one
  std::string whole, fault;
  Order order;  // of the work on all streams
  Memory* memory = nullptr;
  const Arenas* arenas = nullptr;
  uint64_t served = 0;  // bytes of the judge's memory that the runtime was asked for
  bool on = false;
};

State& state();
void refuse(const std::string& why);
const std::string* name_of(const void* kernel);
bool is_capturing(void* stream);
// Whether the order of work is of interest now; within a graph that is being captured the runtime sees to it.
bool is_ordered(void* stream);

// An operation as it lies in a recording; empty when it is not known how to repeat it.
std::string launch_of(const void* kernel, const LaunchConfig& shape, void** arguments);
std::string fill_of(const void* to, int value, size_t bytes);
std::string copy_of(const void* to, const void* from, size_t bytes, int kind);
std::string nothing();
LaunchConfig shape_of(const KernelNode& node);

// What was asked for, to be kept where somebody listens.
void launched(const void* kernel, const LaunchConfig& shape, void** arguments);
void filled(const void* to, int value, size_t bytes, void* stream);
void filled_rows(const void* to, size_t pitch, int value, size_t row_bytes, size_t rows, void* stream);
void copied(const void* to, const void* from, size_t bytes, int kind, void* stream);
void copied_rows(const void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows,
                 int kind, void* stream);
void written(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, void* stream);
void keep_in_order(const std::string& operation, void* stream, const char* what);
void made(void* stream, unsigned flags);
// The host knows that what was asked of a stream is over.
void waited(void* stream);

// Before the runtime closes the list of a module's variables: those that the host's code knows nothing of join it.
void complete(void** module);

void added(const void* graph, const void* node, const std::string& operation);
// The operations of a graph, each after those that it waits for; one that nobody knows stands for a graph with nodes or
// edges that nobody saw.
std::vector<Node> nodes_of(void* graph);
// A node has another operation from now on, in its graph or in one that was made runnable.
void changed(const void* node, const std::string& operation);
void changed_in(const void* runnable, const void* node, const std::string& operation);
std::string fill_of(const worker::FillNode& node);

// Memory of the judge's for a candidate that asks the runtime; nullptr where there is none to give.
void* taken(size_t bytes);
// Whether it was such memory; it is not counted from then on.
bool is_returned(void* address);
// Memory of the host that the runtime does not know: a copy to it is over when the function returns.
bool is_pageable(const void* address);

}  // namespace worker::record
