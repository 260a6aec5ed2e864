// State that the capture (worker_capture.cpp) and the interposed functions of the runtime (worker_hooks.cpp) share.
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

// The runtime's own function of this name. The pointer is cached, because a lookup by dlsym would be part of the
// measured time.
#define NEXT(name)                                                                         \
  (*[] {                                                                                   \
    static auto* const found = reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name)); \
    return found;                                                                          \
  }())

namespace worker::capture {

constexpr size_t kPitch = 512;
constexpr uint64_t kMostServed = uint64_t(512) << 20;  // half of the results arena: the results need room too

struct Node {
  const void* node;  // node of a graph that was built by hand; nullptr if it was captured from a stream
  std::string operation;
};

struct State {
  std::map<const void*, std::string> kernels;  // by host pointer and by handle of the runtime
  std::map<const void*, Variable> symbols;
  std::vector<Variable> variables;                          // of the artifact's machine code
  std::map<std::string, std::vector<uint32_t>> parameters;  // parameter sizes in bytes by kernel name
  std::map<const void*, std::vector<Node>> graphs, runnable;
  std::vector<Node> captured;  // of the graph that a stream capture builds
  int capturing = 0;
  std::map<std::pair<std::string, int>, int> attributes;  // of kernels: attributes outlive a call
  std::string values;                                     // of all variables, before this call
  std::string operations;                                 // of this call
  std::string encoded, refusal;
  Order order;  // of the work on all streams
  Memory* memory = nullptr;
  const Arenas* arenas = nullptr;
  uint64_t served_bytes = 0;  // shared memory that cudaMalloc has handed out
  bool active = false;
};

State& state();
void refuse(const std::string& why);
const std::string* find_kernel_name(const void* kernel);
bool is_capturing(void* stream);
// Whether the order of work is tracked now. Inside a stream capture the runtime itself checks it.
bool is_ordered(void* stream);

// These functions encode one operation for the capture. An empty string says that it cannot be replayed.
std::string encode_launch(const void* kernel, const LaunchConfig& shape, void** arguments);
std::string encode_fill(const void* to, int value, size_t bytes);
std::string encode_copy(const void* to, const void* from, size_t bytes, int kind);
std::string encode_nothing();
LaunchConfig make_config(const KernelNode& node);

// These functions add an operation that was submitted, if a capture or a stream capture is active.
void add_launch(const void* kernel, const LaunchConfig& shape, void** arguments);
void add_fill(const void* to, int value, size_t bytes, void* stream);
void add_fill_rows(const void* to, size_t pitch, int value, size_t row_bytes, size_t rows, void* stream);
void add_copy(const void* to, const void* from, size_t bytes, int kind, void* stream);
void add_copy_rows(const void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows,
                   int kind, void* stream);
void add_symbol_write(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, void* stream);
void append_in_order(const std::string& operation, void* stream, const char* what);
void add_stream(void* stream, unsigned flags);
// Notes that the host has waited for a stream.
void finish_stream(void* stream);

// Registers device variables that the host code does not know, before the runtime closes the module's list.
void register_hidden_variables(void** module);

void add_node(const void* graph, const void* node, const std::string& operation);
// Returns the nodes of a graph in topological order. One empty node stands for a graph with unknown nodes or edges, and
// makes its launch refuse the capture.
std::vector<Node> list_nodes(void* graph);
// These functions replace the operation of a node in its graph, or in an executable graph.
void replace_node(const void* node, const std::string& operation);
void replace_executable_node(const void* runnable, const void* node, const std::string& operation);
std::string encode_fill(const worker::FillNode& node);

// Allocates shared memory for a candidate's cudaMalloc; nullptr if none is left.
void* allocate_block(size_t bytes);
// Returns true if the address was such a block, which no longer counts from then on.
bool take_back_block(void* address);
// Whether the address is pageable host memory: cudaMemcpyAsync to it returns after the copy.
bool is_pageable(const void* address);

}  // namespace worker::capture
