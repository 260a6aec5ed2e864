#include "worker_record.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <optional>
#include <set>

#include "worker_image.h"
#include "worker_program.h"
#include "worker_state.h"
#include "worker_values.h"

extern "C" {
int cudaStreamIsCapturing(void* stream, int* status);
int cudaGraphGetNodes(void* graph, void** nodes, size_t* count);
int cudaGraphGetEdges(void* graph, void** from, void** to, void* kinds, size_t* count);  // as CUDA 13 has it
int cudaPointerGetAttributes(void* facts, const void* address);
int cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, int kind);
void __cudaRegisterVar(void** module, char* host, char* device, const char* name, int external, size_t bytes,
                       int constant, int global);
}

namespace worker::record {

constexpr size_t kMostBytes = size_t(1) << 20, kMostInline = size_t(64) << 10;
constexpr uint64_t kMostVariables = uint64_t(32) << 20;

State& state() {
  static State found;
  return found;
}

void refuse(const std::string& why) {
  if (state().on && state().fault.empty()) state().fault = why;
}

void put_name(Writer* to, const std::string& name) {
  to->put(uint32_t(name.size()));
  to->bytes(name.data(), name.size());
}

// `.param .align 64 .b8 name[128]`, `.param .u64 .ptr .align 1 name`: the bytes of one parameter.
uint32_t bytes_of(const std::string& text) {
  uint32_t width = 0, count = 1;
  for (size_t at = text.find('.'); at != std::string::npos; at = text.find('.', at + 1)) {
    if (at + 2 >= text.size() || !std::strchr("usbf", text[at + 1]) || !std::isdigit(text[at + 2])) continue;
    width = uint32_t(std::strtoul(text.c_str() + at + 2, nullptr, 10)) / 8;
    break;
  }
  if (size_t open = text.find('['); open != std::string::npos)
    count = uint32_t(std::strtoul(text.c_str() + open + 1, nullptr, 10));
  return width * count;
}

void read_entry(const std::string& ptx, size_t at) {
  const size_t name = ptx.find_first_not_of(" \t\n", at), open = ptx.find_first_of("(\n{", name);
  if (open == std::string::npos) return;
  std::vector<uint32_t> sizes;
  const size_t close = ptx[open] == '(' ? ptx.find(')', open) : open;
  if (close == std::string::npos) return;
  for (size_t from = ptx.find(".param", open); from < close; from = ptx.find(".param", from + 1))
    sizes.push_back(bytes_of(ptx.substr(from + 6, std::min(ptx.find(',', from), close) - from - 6)));
  state().parameters[ptx.substr(name, ptx.find_first_of(" \t\n(", name) - name)] = sizes;
}

const std::string* name_of(const void* kernel) {
  auto found = state().kernels.find(kernel);
  return found == state().kernels.end() ? nullptr : &found->second;
}

std::string launch_of(const void* kernel, const LaunchConfig& shape, void** arguments) {
  const std::string* name = name_of(kernel);
  auto sizes = name ? state().parameters.find(*name) : state().parameters.end();
  if (sizes == state().parameters.end() || (!arguments && !sizes->second.empty())) return "";
  std::vector<const LaunchAttribute*> kept;
  for (unsigned i = 0; i < shape.count; ++i)
    if (is_kept(shape.attributes[i].id)) kept.push_back(&shape.attributes[i]);
  Writer to;
  to.put(uint32_t(kKernel));
  put_name(&to, *name);
  to.put(shape.grid), to.put(shape.block), to.put(uint32_t(shape.shared)), to.put(uint32_t(kept.size()));
  for (const LaunchAttribute* one : kept) to.put(uint32_t(one->id)), to.bytes(one->bytes, kAttributeBytes);
  to.put(uint32_t(sizes->second.size()));
  for (uint32_t bytes : sizes->second) to.put(bytes);
  for (size_t i = 0; i < sizes->second.size(); ++i) to.bytes(arguments[i], sizes->second[i]);
  return to.out();
}

bool is_shared(const void* address, size_t bytes) {
  return !state().arenas || state().arenas->holds(uint64_t(address), bytes);
}

std::string fill_of(const void* to, int value, size_t bytes) {
  Writer out;
  if (is_shared(to, bytes))
    out.put(uint32_t(kFill)), out.put(uint64_t(to)), out.put(uint32_t(value)), out.put(uint64_t(bytes));
  return out.out();
}

std::string fill_of(const worker::FillNode& node) {
  const bool plain = node.height == 1 && (node.element_bytes == 1 || node.value == 0);
  return plain ? fill_of(node.to, int(node.value), node.width * node.element_bytes) : "";
}

std::string copy_of(const void* to, const void* from, size_t bytes, int kind) {
  Writer out;
  if (!is_shared(to, bytes)) return "";
  if (kind == kDeviceToDevice && is_shared(from, bytes))
    out.put(uint32_t(kCopy)), out.put(uint64_t(to)), out.put(uint64_t(from)), out.put(uint64_t(bytes));
  if (kind == kHostToDevice && bytes <= kMostInline)
    out.put(uint32_t(kBytes)), out.put(uint64_t(to)), out.put(uint32_t(bytes)), out.bytes(from, bytes);
  return out.out();
}

std::string rows_of(const void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows,
                    int kind) {
  Writer out;
  if (kind == kDeviceToDevice && is_shared(to, span_of(to_pitch, row_bytes, rows)) &&
      is_shared(from, span_of(from_pitch, row_bytes, rows))) {
    out.put(uint32_t(kRows)), out.put(uint64_t(to)), out.put(uint64_t(to_pitch)), out.put(uint64_t(from));
    out.put(uint64_t(from_pitch)), out.put(uint64_t(row_bytes)), out.put(uint64_t(rows));
  }
  return out.out();
}

std::string fill_rows_of(const void* to, size_t pitch, int value, size_t row_bytes, size_t rows) {
  Writer out;
  if (is_shared(to, span_of(pitch, row_bytes, rows))) {
    out.put(uint32_t(kFillRows)), out.put(uint64_t(to)), out.put(uint64_t(pitch)), out.put(uint32_t(value));
    out.put(uint64_t(row_bytes)), out.put(uint64_t(rows));
  }
  return out.out();
}

std::string symbol_of(const void* symbol, const void* from, size_t bytes, size_t offset, int kind) {
  auto found = state().symbols.find(symbol);
  Writer to;
  if (found == state().symbols.end()) return "";
  if (kind == kHostToDevice && bytes <= kMostInline) {
    to.put(uint32_t(kSymbol)), put_name(&to, found->second.name);
    to.put(uint64_t(offset)), to.put(uint32_t(bytes)), to.bytes(from, bytes);
  } else if (kind == kDeviceToDevice && is_shared(from, bytes)) {
    to.put(uint32_t(kLookup)), put_name(&to, found->second.name);
    to.put(uint64_t(offset)), to.put(uint64_t(from)), to.put(uint64_t(bytes));
  }
  return to.out();
}

std::string nothing() { return std::string(sizeof(uint32_t), '\0'); }

bool is_capturing(void* stream) {
  int status = 0;
  return state().capturing && NEXT(cudaStreamIsCapturing)(stream, &status) == 0 && status == 1;
}

void keep(const std::string& operation, const char* what) {
  if (operation.empty()) refuse(what);
  else if (state().call.size() + operation.size() > kMostBytes) refuse("more operations than are kept");
  else if (state().fault.empty()) state().call += operation;
}

// By the stream alone: an address can be handed over in parts, shifted, or through memory.
void keep_in_order(const std::string& operation, void* stream, const char* what) {
  if (!state().order.is_forked(stream)) refuse("work on a stream that does not wait for the current one");
  state().order.asked(stream);
  keep(operation, what);
}

// Asked for on a stream: now, or whenever the graph that is being captured is launched.
void asked(const std::string& operation, void* stream, const char* what) {
  if (is_capturing(stream)) {
    state().captured.push_back({nullptr, operation});
  } else if (state().on) {
    keep_in_order(operation, stream, what);
  }
}

bool is_ordered(void* stream) { return state().on && !is_capturing(stream); }

void made(void* stream, unsigned flags) { state().order.made(stream, !(flags & kNonBlocking)); }

bool is_heard() { return state().on || state().capturing; }

void launched(const void* kernel, const LaunchConfig& shape, void** arguments) {
  if (is_heard()) asked(launch_of(kernel, shape, arguments), shape.stream, "a kernel that its file does not hold");
}

void filled(const void* to, int value, size_t bytes, void* stream) {
  if (is_heard()) asked(fill_of(to, value, bytes), stream, "memory that is not the evaluator's");
}

void waited(void* stream) {
  if (is_ordered(stream)) state().order.over(stream);
}

bool is_pageable(const void* address) {
  alignas(16) int facts[32] = {};  // cudaPointerAttributes begins with the kind of memory
  return state().on && NEXT(cudaPointerGetAttributes)(facts, address) == 0 && facts[0] == 0;
}

void copied(const void* to, const void* from, size_t bytes, int kind, void* stream) {
  if (is_heard() && kind != kDeviceToHost && kind != kHostToHost)
    asked(copy_of(to, from, bytes, kind), stream,
          "a copy that is long, of memory that is not the evaluator's, or whose direction is not said");
}

void copied_rows(const void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows,
                 int kind, void* stream) {
  if (is_heard() && kind != kDeviceToHost && kind != kHostToHost)
    asked(rows_of(to, to_pitch, from, from_pitch, row_bytes, rows, kind), stream,
          "rows that are copied from the host, or from memory that is not the evaluator's");
}

void filled_rows(const void* to, size_t pitch, int value, size_t row_bytes, size_t rows, void* stream) {
  if (is_heard()) asked(fill_rows_of(to, pitch, value, row_bytes, rows), stream, "memory that is not the evaluator's");
}

void written(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, void* stream) {
  if (is_heard())
    asked(symbol_of(symbol, from, bytes, offset, kind), stream, "a symbol that is written in a way that is not kept");
}

void complete(void** module) {
  static std::deque<char> tokens;  // the address of each stands for a host variable
  std::set<std::string> known;
  for (const auto& [pointer, one] : state().symbols) known.insert(one.name);
  for (const Variable& one : state().variables) {
    if (!known.insert(one.name).second) continue;
    char* const token = &tokens.emplace_back();
    state().symbols[token] = one;
    char* const name = const_cast<char*>(one.name.c_str());
    NEXT(__cudaRegisterVar)(module, token, name, name, 0, one.bytes, one.constant, 0);
  }
}

// What each symbol holds now, for a process in which nothing wrote it: u32 count, then name, u64 bytes, the bytes.
std::string values() {
  Writer all;
  uint32_t count = 0;
  uint64_t taken = 0;
  for (const auto& [pointer, one] : state().symbols) {
    std::string bytes(std::min(one.bytes, kMostVariables), '\0');
    if (NEXT(cudaMemcpyFromSymbol)(bytes.data(), pointer, bytes.size(), 0, kDeviceToHost)) {
      NEXT(cudaGetLastError)();  // no kernel of the machine code has it
      continue;
    }
    if ((taken += one.bytes) > kMostVariables) refuse("more than 32 MiB of device variables");
    if (taken > kMostVariables) break;
    put_name(&all, one.name), all.put(one.bytes), all.bytes(bytes.data(), bytes.size()), ++count;
  }
  Writer head;
  head.put(count);
  return head.out() + all.out();
}

void added(const void* graph, const void* node, const std::string& operation) {
  state().graphs[graph].push_back({node, operation});
}

// The edges of a graph by the places of their nodes in a list; nullopt where one is of a node that is not in it.
using Edges = std::multimap<size_t, size_t>;
std::optional<Edges> edges_of(void* graph, const std::vector<Node>& nodes) {
  size_t count = 0;
  if (NEXT(cudaGraphGetEdges)(graph, nullptr, nullptr, nullptr, &count)) return std::nullopt;
  std::vector<void*> from(count), to(count);
  if (count && NEXT(cudaGraphGetEdges)(graph, from.data(), to.data(), nullptr, &count)) return std::nullopt;
  std::map<const void*, size_t> places;
  for (size_t i = 0; i < nodes.size(); ++i) places[nodes[i].node] = i;
  Edges found;
  for (size_t i = 0; i < count; ++i) {
    const auto one = places.find(from[i]), other = places.find(to[i]);
    if (one == places.end() || other == places.end()) return std::nullopt;
    found.emplace(one->second, other->second);
  }
  return found;
}

// Each node after those that it waits for, and else in the order in which they were added.
std::vector<Node> sorted(const std::vector<Node>& nodes, const Edges& edges) {
  std::vector<size_t> waits(nodes.size());
  for (const auto& [from, to] : edges) ++waits[to];
  std::set<size_t> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (!waits[i]) ready.insert(i);
  std::vector<Node> found;
  while (!ready.empty()) {
    const size_t next = ready.extract(ready.begin()).value();
    found.push_back(nodes[next]);
    for (auto [at, end] = edges.equal_range(next); at != end; ++at)
      if (--waits[at->second] == 0) ready.insert(at->second);
  }
  return found;
}

std::vector<Node> nodes_of(void* graph) {
  std::vector<Node> found = state().graphs[graph];
  size_t count = 0;
  if (NEXT(cudaGraphGetNodes)(graph, nullptr, &count) || count != found.size()) return {{nullptr, ""}};
  const auto is_captured = [](const Node& one) { return one.node == nullptr; };
  if (std::all_of(found.begin(), found.end(), is_captured))
    return found;  // in the order of the host, which its streams allow
  const std::optional<Edges> edges = edges_of(graph, found);
  std::vector<Node> ordered = edges ? sorted(found, *edges) : std::vector<Node>();
  return ordered.size() == found.size() ? ordered : std::vector<Node>{{nullptr, ""}};
}

Node* node_of(std::vector<Node>& nodes, const void* node) {
  for (Node& one : nodes)
    if (one.node == node) return &one;
  return nullptr;
}

void changed(const void* node, const std::string& operation) {
  for (auto& [graph, nodes] : state().graphs)
    if (Node* found = node_of(nodes, node)) found->operation = operation;
}

void changed_in(const void* runnable, const void* node, const std::string& operation) {
  if (Node* found = node_of(state().runnable[runnable], node)) found->operation = operation;
}

LaunchConfig shape_of(const KernelNode& node) { return {node.grid, node.block, node.shared, nullptr, nullptr, 0}; }

void* taken(size_t bytes) {
  if (!state().memory || bytes > kMostServed - state().served) return nullptr;
  void* const found = state().memory->allocate(bytes);
  if (found) state().served += bytes;
  return found;
}

bool is_returned(void* address) {
  if (!state().memory) return false;
  const auto found = state().memory->blocks().taken().find(uint64_t(address));
  if (found == state().memory->blocks().taken().end()) return false;
  state().served -= std::min(state().served, found->second);
  return true;
}

std::string attributes() {
  Writer out;
  for (const auto& [of, value] : state().attributes)
    out.put(uint32_t(kAttribute)), put_name(&out, of.first), out.put(of.second), out.put(value);
  return out.out();
}

// What the candidate's constructors told the runtime when it was loaded, and what its variables held before the call.
std::string registered() {
  Writer out;
  std::set<std::string> names;
  for (const auto& [pointer, name] : state().kernels) names.insert(name);
  out.put(uint32_t(names.size()));
  for (const std::string& name : names) put_name(&out, name);
  return out.out() + state().values;
}

void open(const std::string& artifact) {
  state().variables = variables_of(image_of(artifact));
  constexpr const char* kEntry = ".entry";
  for (size_t at = artifact.find(kEntry); at != std::string::npos; at = artifact.find(kEntry, at + 1))
    read_entry(artifact, at + std::strlen(kEntry));
}

const std::vector<uint32_t>* parameters(const std::string& kernel) {
  auto found = state().parameters.find(kernel);
  return found == state().parameters.end() ? nullptr : &found->second;
}

void serve(Memory* memory, const Arenas* arenas) { state().memory = memory, state().arenas = arenas; }

void begin(void* stream) {
  state().order.begin(stream);
  state().call.clear();
  state().fault.clear();
  state().on = true;
  state().values = values();
}

void end() {
  if (!state().on) return;
  Writer marker;
  marker.put(uint32_t(kBegin));
  if (!state().order.is_joined()) refuse("work on a stream that the current one does not wait for");
  state().on = false;
  state().whole.clear();
  if (!state().fault.empty()) return;
  state().whole = registered() + attributes();
  state().whole += marker.out() + state().call;
}

const std::string& operations() { return state().whole; }
const std::string& fault() { return state().fault; }

}  // namespace worker::record

std::string worker::contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::string all(file ? size_t(file.tellg()) : 0, '\0');
  return file.seekg(0).read(all.data(), std::streamsize(all.size())) ? all : "";
}
