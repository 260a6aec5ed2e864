// Capture of one call: encoding of its operations, the graphs that it launches, and the checks of their order.
#include "worker_capture.h"

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
int cudaGraphGetEdges(void* graph, void** from, void** to, void* kinds,
                      size_t* count);  // with the parameters of CUDA 13
int cudaPointerGetAttributes(void* facts, const void* address);
int cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, int kind);
void __cudaRegisterVar(void** module, char* host, char* device, const char* name, int external, size_t bytes,
                       int constant, int global);
}

namespace worker::capture {

constexpr size_t kMostBytes = size_t(1) << 20, kMostInline = size_t(64) << 10;
constexpr uint64_t kMostVariables = uint64_t(32) << 20;

State& state() {
  static State found;
  return found;
}

void refuse(const std::string& why) {
  if (state().active && state().refusal.empty()) state().refusal = why;
}

void put_name(Writer* to, const std::string& name) {
  to->put(uint32_t(name.size()));
  to->bytes(name.data(), name.size());
}

// Returns the size in bytes of one parameter: `.param .align 64 .b8 name[128]`, `.param .u64 .ptr .align 1 name`.
uint32_t parameter_bytes(const std::string& text) {
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
    sizes.push_back(parameter_bytes(ptx.substr(from + 6, std::min(ptx.find(',', from), close) - from - 6)));
  state().parameters[ptx.substr(name, ptx.find_first_of(" \t\n(", name) - name)] = sizes;
}

const std::string* find_kernel_name(const void* kernel) {
  auto found = state().kernels.find(kernel);
  return found == state().kernels.end() ? nullptr : &found->second;
}

std::string encode_launch(const void* kernel, const LaunchConfig& shape, void** arguments) {
  const std::string* name = find_kernel_name(kernel);
  auto sizes = name ? state().parameters.find(*name) : state().parameters.end();
  if (sizes == state().parameters.end() || (!arguments && !sizes->second.empty())) return "";
  std::vector<const LaunchAttribute*> kept;
  for (unsigned i = 0; i < shape.count; ++i)
    if (is_kept(shape.attributes[i].id)) kept.push_back(&shape.attributes[i]);
  Writer to;
  to.put(uint32_t(kKernel));
  put_name(&to, *name);
  to.put(shape.grid);
  to.put(shape.block);
  to.put(uint32_t(shape.shared));
  to.put(uint32_t(kept.size()));
  for (const LaunchAttribute* one : kept) {
    to.put(uint32_t(one->id));
    to.bytes(one->bytes, kAttributeBytes);
  }
  to.put(uint32_t(sizes->second.size()));
  for (uint32_t bytes : sizes->second) to.put(bytes);
  for (size_t i = 0; i < sizes->second.size(); ++i) to.bytes(arguments[i], sizes->second[i]);
  return to.out();
}

bool is_shared(const void* address, size_t bytes) {
  return !state().arenas || state().arenas->contains(uint64_t(address), bytes);
}

std::string encode_fill(const void* to, int value, size_t bytes) {
  Writer out;
  if (is_shared(to, bytes)) {
    out.put(uint32_t(kFill));
    out.put(uint64_t(to));
    out.put(uint32_t(value));
    out.put(uint64_t(bytes));
  }
  return out.out();
}

std::string encode_fill(const worker::FillNode& node) {
  const bool plain = node.height == 1 && (node.element_bytes == 1 || node.value == 0);
  return plain ? encode_fill(node.to, int(node.value), node.width * node.element_bytes) : "";
}

std::string encode_copy(const void* to, const void* from, size_t bytes, int kind) {
  Writer out;
  if (!is_shared(to, bytes)) return "";
  if (kind == kDeviceToDevice && is_shared(from, bytes)) {
    out.put(uint32_t(kCopy));
    out.put(uint64_t(to));
    out.put(uint64_t(from));
    out.put(uint64_t(bytes));
  }
  if (kind == kHostToDevice && bytes <= kMostInline) {
    out.put(uint32_t(kBytes));
    out.put(uint64_t(to));
    out.put(uint32_t(bytes));
    out.bytes(from, bytes);
  }
  return out.out();
}

std::string encode_rows(const void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes,
                        size_t rows, int kind) {
  Writer out;
  if (kind == kDeviceToDevice && is_shared(to, span_of(to_pitch, row_bytes, rows)) &&
      is_shared(from, span_of(from_pitch, row_bytes, rows))) {
    out.put(uint32_t(kRows));
    out.put(uint64_t(to));
    out.put(uint64_t(to_pitch));
    out.put(uint64_t(from));
    out.put(uint64_t(from_pitch));
    out.put(uint64_t(row_bytes));
    out.put(uint64_t(rows));
  }
  return out.out();
}

std::string encode_fill_rows(const void* to, size_t pitch, int value, size_t row_bytes, size_t rows) {
  Writer out;
  if (is_shared(to, span_of(pitch, row_bytes, rows))) {
    out.put(uint32_t(kFillRows));
    out.put(uint64_t(to));
    out.put(uint64_t(pitch));
    out.put(uint32_t(value));
    out.put(uint64_t(row_bytes));
    out.put(uint64_t(rows));
  }
  return out.out();
}

std::string encode_symbol_write(const void* symbol, const void* from, size_t bytes, size_t offset, int kind) {
  auto found = state().symbols.find(symbol);
  Writer to;
  if (found == state().symbols.end()) return "";
  if (kind == kHostToDevice && bytes <= kMostInline) {
    to.put(uint32_t(kSymbol));
    put_name(&to, found->second.name);
    to.put(uint64_t(offset));
    to.put(uint32_t(bytes));
    to.bytes(from, bytes);
  } else if (kind == kDeviceToDevice && is_shared(from, bytes)) {
    to.put(uint32_t(kLookup));
    put_name(&to, found->second.name);
    to.put(uint64_t(offset));
    to.put(uint64_t(from));
    to.put(uint64_t(bytes));
  }
  return to.out();
}

std::string encode_nothing() { return std::string(sizeof(uint32_t), '\0'); }

bool is_capturing(void* stream) {
  int status = 0;
  return state().capturing && NEXT(cudaStreamIsCapturing)(stream, &status) == 0 && status == 1;
}

void append(const std::string& operation, const char* what) {
  if (operation.empty()) refuse(what);
  else if (state().operations.size() + operation.size() > kMostBytes) refuse("more than 1 MiB of operations");
  else if (state().refusal.empty()) state().operations += operation;
}

// Requires that the stream waits for the call's own stream. Only the stream decides, not the addresses in the
// arguments: a kernel can receive an address in parts, shifted, or through memory.
void append_in_order(const std::string& operation, void* stream, const char* what) {
  if (!state().order.is_forked(stream)) refuse("work on a stream that does not wait for the current one");
  state().order.add_work(stream);
  append(operation, what);
}

// Adds work on a stream: to the call, or to the graph if the stream is being captured.
void add_operation(const std::string& operation, void* stream, const char* what) {
  if (is_capturing(stream)) {
    state().captured.push_back({nullptr, operation});
  } else if (state().active) {
    append_in_order(operation, stream, what);
  }
}

bool is_ordered(void* stream) { return state().active && !is_capturing(stream); }

void add_stream(void* stream, unsigned flags) { state().order.add_stream(stream, !(flags & kNonBlocking)); }

bool is_listening() { return state().active || state().capturing; }

void add_launch(const void* kernel, const LaunchConfig& shape, void** arguments) {
  if (is_listening())
    add_operation(encode_launch(kernel, shape, arguments), shape.stream, "a kernel that is not in the artifact's file");
}

void add_fill(const void* to, int value, size_t bytes, void* stream) {
  if (is_listening()) add_operation(encode_fill(to, value, bytes), stream, "memory that is not the evaluator's");
}

void finish_stream(void* stream) {
  if (is_ordered(stream)) state().order.finish_stream(stream);
}

bool is_pageable(const void* address) {
  // cudaPointerAttributes begins with the type of memory; 0 is cudaMemoryTypeUnregistered.
  alignas(16) int facts[32] = {};
  return state().active && NEXT(cudaPointerGetAttributes)(facts, address) == 0 && facts[0] == 0;
}

void add_copy(const void* to, const void* from, size_t bytes, int kind, void* stream) {
  if (is_listening() && kind != kDeviceToHost && kind != kHostToHost)
    add_operation(encode_copy(to, from, bytes, kind), stream,
                  "a copy that is long, of memory that is not the evaluator's, or whose direction is not said");
}

void add_copy_rows(const void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows,
                   int kind, void* stream) {
  if (is_listening() && kind != kDeviceToHost && kind != kHostToHost)
    add_operation(encode_rows(to, to_pitch, from, from_pitch, row_bytes, rows, kind), stream,
                  "rows that are copied from the host, or from memory that is not the evaluator's");
}

void add_fill_rows(const void* to, size_t pitch, int value, size_t row_bytes, size_t rows, void* stream) {
  if (is_listening())
    add_operation(encode_fill_rows(to, pitch, value, row_bytes, rows), stream, "memory that is not the evaluator's");
}

void add_symbol_write(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, void* stream) {
  if (is_listening())
    add_operation(encode_symbol_write(symbol, from, bytes, offset, kind), stream,
                  "an unsupported write of a device variable");
}

void register_hidden_variables(void** module) {
  static std::deque<char> tokens;  // only the addresses are used: each stands for a host variable
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

// Returns what each variable holds now, so that a replay process can set it: u32 count, then name, u64 bytes, the
// bytes.
std::string read_variables() {
  Writer all;
  uint32_t count = 0;
  uint64_t taken = 0;
  for (const auto& [pointer, one] : state().symbols) {
    std::string bytes(std::min(one.bytes, kMostVariables), '\0');
    if (NEXT(cudaMemcpyFromSymbol)(bytes.data(), pointer, bytes.size(), 0, kDeviceToHost)) {
      NEXT(cudaGetLastError)();  // no kernel of the machine code uses it
      continue;
    }
    if ((taken += one.bytes) > kMostVariables) refuse("more than 32 MiB of device variables");
    if (taken > kMostVariables) break;
    put_name(&all, one.name);
    all.put(one.bytes);
    all.bytes(bytes.data(), bytes.size());
    ++count;
  }
  Writer head;
  head.put(count);
  return head.out() + all.out();
}

void add_node(const void* graph, const void* node, const std::string& operation) {
  state().graphs[graph].push_back({node, operation});
}

// Returns the edges of a graph as indices into `nodes`; nullopt if an edge has an unknown node.
using Edges = std::multimap<size_t, size_t>;
std::optional<Edges> list_edges(void* graph, const std::vector<Node>& nodes) {
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

// Sorts the nodes topologically; nodes without a dependency keep the order in which they were added.
std::vector<Node> sort_nodes(const std::vector<Node>& nodes, const Edges& edges) {
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

std::vector<Node> list_nodes(void* graph) {
  std::vector<Node> found = state().graphs[graph];
  size_t count = 0;
  if (NEXT(cudaGraphGetNodes)(graph, nullptr, &count) || count != found.size()) return {{nullptr, ""}};
  const auto is_captured = [](const Node& one) { return one.node == nullptr; };
  if (std::all_of(found.begin(), found.end(), is_captured))
    return found;  // captured from streams: the order of the host is one that the streams allow
  const std::optional<Edges> edges = list_edges(graph, found);
  std::vector<Node> ordered = edges ? sort_nodes(found, *edges) : std::vector<Node>();
  return ordered.size() == found.size() ? ordered : std::vector<Node>{{nullptr, ""}};
}

Node* find_node(std::vector<Node>& nodes, const void* node) {
  for (Node& one : nodes)
    if (one.node == node) return &one;
  return nullptr;
}

void replace_node(const void* node, const std::string& operation) {
  for (auto& [graph, nodes] : state().graphs)
    if (Node* found = find_node(nodes, node)) found->operation = operation;
}

void replace_executable_node(const void* runnable, const void* node, const std::string& operation) {
  if (Node* found = find_node(state().runnable[runnable], node)) found->operation = operation;
}

LaunchConfig make_config(const KernelNode& node) { return {node.grid, node.block, node.shared, nullptr, nullptr, 0}; }

void* allocate_block(size_t bytes) {
  if (!state().memory || bytes > kMostServed - state().served_bytes) return nullptr;
  void* const found = state().memory->allocate(bytes);
  if (found) state().served_bytes += bytes;
  return found;
}

bool take_back_block(void* address) {
  if (!state().memory) return false;
  const auto found = state().memory->blocks().allocated().find(uint64_t(address));
  if (found == state().memory->blocks().allocated().end()) return false;
  state().served_bytes -= std::min(state().served_bytes, found->second);
  return true;
}

std::string encode_attributes() {
  Writer out;
  for (const auto& [of, value] : state().attributes) {
    out.put(uint32_t(kAttribute));
    put_name(&out, of.first);
    out.put(of.second);
    out.put(value);
  }
  return out.out();
}

// Returns what the constructors of the host code registered, and what the variables held before the call.
std::string encode_registration() {
  Writer out;
  std::set<std::string> names;
  for (const auto& [pointer, name] : state().kernels) names.insert(name);
  out.put(uint32_t(names.size()));
  for (const std::string& name : names) put_name(&out, name);
  return out.out() + state().values;
}

void open(const std::string& artifact) {
  state().variables = list_variables(extract_image(artifact));
  constexpr const char* kEntry = ".entry";
  for (size_t at = artifact.find(kEntry); at != std::string::npos; at = artifact.find(kEntry, at + 1))
    read_entry(artifact, at + std::strlen(kEntry));
}

const std::vector<uint32_t>* parameters(const std::string& kernel) {
  auto found = state().parameters.find(kernel);
  return found == state().parameters.end() ? nullptr : &found->second;
}

void use_memory(Memory* memory, const Arenas* arenas) {
  state().memory = memory;
  state().arenas = arenas;
}

void begin(void* stream) {
  state().order.begin(stream);
  state().operations.clear();
  state().refusal.clear();
  state().active = true;
  state().values = read_variables();
}

void end() {
  if (!state().active) return;
  Writer marker;
  marker.put(uint32_t(kBegin));
  if (!state().order.is_joined()) refuse("work on a stream that the current one does not wait for");
  state().active = false;
  state().encoded.clear();
  if (!state().refusal.empty()) return;
  state().encoded = encode_registration() + encode_attributes();
  state().encoded += marker.out() + state().operations;
}

const std::string& operations() { return state().encoded; }
const std::string& refusal() { return state().refusal; }

}  // namespace worker::capture

std::string worker::read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::string all(file ? size_t(file.tellg()) : 0, '\0');
  return file.seekg(0).read(all.data(), std::streamsize(all.size())) ? all : "";
}
