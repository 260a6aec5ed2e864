#include "worker_record.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "cuda_calls.h"
#include "worker_memory.h"
#include "worker_order.h"
#include "worker_program.h"
#include "worker_values.h"

extern "C" {
int cudaStreamIsCapturing(void* stream, int* status);
int cudaGraphGetNodes(void* graph, void** nodes, size_t* count);
int cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows, int kind);
int cudaMemset2D(void* to, size_t pitch, int value, size_t row_bytes, size_t rows);
int cudaMallocPitch(void** address, size_t* pitch, size_t row_bytes, size_t rows);
int cudaPointerGetAttributes(void* facts, const void* address);
int cudaEventCreateWithFlags(void** event, unsigned flags);
int cudaStreamCreateWithFlags(void** stream, unsigned flags);
int cudaStreamCreateWithPriority(void** stream, unsigned flags, int priority);
int cudaStreamWaitEvent(void* stream, void* event, unsigned flags);
int cudaEventRecordWithFlags(void* event, void* stream, unsigned flags);
int cudaEventSynchronize(void* event);
int cudaStreamQuery(void* stream);
int cudaEventQuery(void* event);
}

namespace worker::record {
namespace {

constexpr size_t kMostBytes = size_t(1) << 20, kMostInline = size_t(64) << 10;
constexpr size_t kPitch = 512;
constexpr uint64_t kMostServed = uint64_t(512) << 20;  // half of the scratch: results need room too

struct Symbol {
  std::string name;
  uint64_t bytes = 0;
  uint32_t constant = 0;
};

struct Node {
  const void* node;  // of a graph that was built by hand
  std::string operation;
};

struct State {
  std::map<const void*, std::string> kernels;  // by the host's pointer, and by the runtime's handle
  std::map<const void*, Symbol> symbols;
  std::map<std::string, std::vector<uint32_t>> parameters;  // bytes of each, by the kernel's name
  std::map<const void*, std::vector<Node>> graphs, runnable;
  std::vector<Node> captured;     // of the graph that is being captured
  int capturing = 0;
  std::map<std::pair<std::string, int>, int> attributes;      // of kernels: these and the next outlive a call
  std::vector<std::pair<std::string, std::string>> settings;  // of symbols, by what is written
  std::string lost;               // of what outlives a call something that is not kept
  std::string call;               // what is asked in this one
  std::string whole, fault;
  Order order;                    // of the work on all streams
  std::vector<std::pair<uint64_t, uint64_t>> arguments;  // of this call: where each begins and ends
  Memory* memory = nullptr;
  const Arenas* arenas = nullptr;
  uint64_t served = 0;            // bytes of the judge's memory that the runtime was asked for
  bool on = false;
};

State& state() {
  static State found;
  return found;
}

// The runtime's own function of a name; looked up once, since a lookup would stand on the clock.
#define NEXT(name) (*[] { static auto* const found = reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name)); return found; }())

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
  if (size_t open = text.find('['); open != std::string::npos) count = uint32_t(std::strtoul(text.c_str() + open + 1, nullptr, 10));
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

// The operation as it lies in a recording; empty when it is not known how to repeat it.
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

bool is_shared(const void* address, size_t bytes) { return !state().arenas || state().arenas->holds(uint64_t(address), bytes); }

std::string fill_of(const void* to, int value, size_t bytes) {
  Writer out;
  if (is_shared(to, bytes)) out.put(uint32_t(kFill)), out.put(uint64_t(to)), out.put(uint32_t(value)), out.put(uint64_t(bytes));
  return out.out();
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

std::string rows_of(const void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows, int kind) {
  Writer out;
  if (kind == kDeviceToDevice && is_shared(to, span_of(to_pitch, row_bytes, rows)) && is_shared(from, span_of(from_pitch, row_bytes, rows))) {
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

// Whether an address in it lies in an argument; a struct of pointers has them anywhere.
bool has_argument(const std::string& operation) {
  for (size_t at = 0; at + sizeof(uint64_t) <= operation.size(); ++at) {
    uint64_t word = 0;
    std::memcpy(&word, operation.data() + at, sizeof word);
    for (const auto& [begin, end] : state().arguments)
      if (word >= begin && word < end) return true;
  }
  return false;
}

void keep_in_order(const std::string& operation, void* stream, const char* what) {
  if (!state().order.is_forked(stream) && has_argument(operation)) refuse("work on arguments on a stream that does not wait for the current one");
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

// Whether the order of work is of interest now; within a graph that is being captured the runtime sees to it.
bool is_ordered(void* stream) { return state().on && !is_capturing(stream); }

void made(void* stream, unsigned flags) { state().order.made(stream, !(flags & kNonBlocking)); }

bool is_heard() { return state().on || state().capturing; }

void launched(const void* kernel, const LaunchConfig& shape, void** arguments) {
  if (is_heard()) asked(launch_of(kernel, shape, arguments), shape.stream, "a kernel that its file does not hold");
}

void filled(const void* to, int value, size_t bytes, void* stream) {
  if (is_heard()) asked(fill_of(to, value, bytes), stream, "memory that is not the evaluator's");
}

// The host knows that what was asked of a stream is over.
void waited(void* stream) {
  if (is_ordered(stream)) state().order.over(stream);
}

// Memory of the host that the runtime does not know: a copy to it is over when the function returns.
bool is_pageable(const void* address) {
  alignas(16) int facts[32] = {};  // cudaPointerAttributes begins with the kind of memory
  return state().on && NEXT(cudaPointerGetAttributes)(facts, address) == 0 && facts[0] == 0;
}

void copied(const void* to, const void* from, size_t bytes, int kind, void* stream) {
  if (is_heard() && kind != kDeviceToHost && kind != kHostToHost) asked(copy_of(to, from, bytes, kind), stream, "a copy that is long, of memory that is not the evaluator's, or whose direction is not said");
}

void copied_rows(const void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows, int kind, void* stream) {
  if (is_heard() && kind != kDeviceToHost && kind != kHostToHost) asked(rows_of(to, to_pitch, from, from_pitch, row_bytes, rows, kind), stream, "rows that are copied from the host, or from memory that is not the evaluator's");
}

void filled_rows(const void* to, size_t pitch, int value, size_t row_bytes, size_t rows, void* stream) {
  if (is_heard()) asked(fill_rows_of(to, pitch, value, row_bytes, rows), stream, "memory that is not the evaluator's");
}

// Of a symbol: the last that was written counts.
void set(const std::string& what, const std::string& operation) {
  auto& all = state().settings;
  std::erase_if(all, [&](const auto& one) { return one.first == what; });
  if (operation.empty()) state().lost = "something that was set before the call is not kept";
  else all.emplace_back(what, operation);
}

void written(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, void* stream) {
  const std::string operation = symbol_of(symbol, from, bytes, offset, kind);
  if (state().on || is_capturing(stream)) return asked(operation, stream, "a symbol that is written in a way that is not kept");
  Writer what;
  what.put(symbol), what.put(offset), what.put(bytes);
  set(what.out(), operation);
}

void added(const void* graph, const void* node, const std::string& operation) { state().graphs[graph].push_back({node, operation}); }

// The operations of a graph; one that nobody knows stands for nodes that nobody saw.
std::vector<Node> nodes_of(void* graph) {
  std::vector<Node> found = state().graphs[graph];
  size_t count = 0;
  if (NEXT(cudaGraphGetNodes)(graph, nullptr, &count) || count != found.size()) found.push_back({nullptr, ""});
  return found;
}

LaunchConfig shape_of(const KernelNode& node) { return {node.grid, node.block, node.shared, nullptr, nullptr, 0}; }

// Memory of the judge's for a candidate that asks the runtime; nullptr where there is none to give.
void* taken(size_t bytes) {
  if (!state().memory || bytes > kMostServed - state().served) return nullptr;
  void* const found = state().memory->allocate(bytes);
  if (found) state().served += bytes;
  return found;
}

// Whether it was such memory; it is not counted from then on.
bool is_returned(void* address) {
  if (!state().memory) return false;
  const auto found = state().memory->blocks().taken().find(uint64_t(address));
  if (found == state().memory->blocks().taken().end()) return false;
  state().served -= std::min(state().served, found->second);
  return true;
}

std::string attributes() {
  Writer out;
  for (const auto& [of, value] : state().attributes) out.put(uint32_t(kAttribute)), put_name(&out, of.first), out.put(of.second), out.put(value);
  return out.out();
}

// What the candidate's constructors told the runtime when it was loaded.
std::string registered() {
  Writer out;
  std::set<std::string> names;
  for (const auto& [pointer, name] : state().kernels) names.insert(name);
  out.put(uint32_t(names.size()));
  for (const std::string& name : names) put_name(&out, name);
  out.put(uint32_t(state().symbols.size()));
  for (const auto& [pointer, one] : state().symbols) put_name(&out, one.name), out.put(one.bytes), out.put(one.constant);
  return out.out();
}

}  // namespace

void open(const std::string& artifact) {
  constexpr const char* kEntry = ".entry";
  for (size_t at = artifact.find(kEntry); at != std::string::npos; at = artifact.find(kEntry, at + 1)) read_entry(artifact, at + std::strlen(kEntry));
}

const std::vector<uint32_t>* parameters(const std::string& kernel) {
  auto found = state().parameters.find(kernel);
  return found == state().parameters.end() ? nullptr : &found->second;
}

void serve(Memory* memory, const Arenas* arenas) { state().memory = memory, state().arenas = arenas; }

void begin(void* stream, const Arguments& arguments) {
  state().order.begin(stream);
  state().arguments.clear();
  for (const Held& held : arguments.held) {
    const auto start = uint64_t(held.tensor.data);
    if (uint64_t bytes = 0; extent(held.tensor, &bytes)) state().arguments.emplace_back(start, start + bytes);
  }
  state().call.clear();
  state().fault.clear();
  state().on = true;
}

void end() {
  if (!state().on) return;
  Writer marker;
  marker.put(uint32_t(kBegin));
  if (!state().lost.empty()) refuse(state().lost);
  if (!state().order.is_joined()) refuse("work on a stream that the current one does not wait for");
  state().on = false;
  state().whole.clear();
  if (!state().fault.empty()) return;
  state().whole = registered() + attributes();
  for (const auto& [what, operation] : state().settings) state().whole += operation;
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

using worker::Extent;
using worker::LaunchConfig;
namespace record = worker::record;

extern "C" {

void __cudaRegisterFunction(void** module, const char* host, char* device, const char* name, int limit, void* thread, void* block, void* blocks, void* grid, int* warp) {
  record::state().kernels[host] = name;
  NEXT(__cudaRegisterFunction)(module, host, device, name, limit, thread, block, blocks, grid, warp);
}

void __cudaRegisterVar(void** module, char* host, char* device, const char* name, int external, size_t bytes, int constant, int global) {
  record::state().symbols[host] = {name, bytes, uint32_t(constant)};
  NEXT(__cudaRegisterVar)(module, host, device, name, external, bytes, constant, global);
}

int __cudaGetKernel(void** kernel, const void* host) {
  const int error = NEXT(__cudaGetKernel)(kernel, host);
  if (const std::string* name = error ? nullptr : record::name_of(host)) record::state().kernels[*kernel] = *name;
  return error;
}

int __cudaLaunchKernel(void* kernel, Extent grid, Extent block, void** arguments, size_t shared, void* stream) {
  const int error = NEXT(__cudaLaunchKernel)(kernel, grid, block, arguments, shared, stream);
  if (!error) record::launched(kernel, {grid, block, shared, stream, nullptr, 0}, arguments);
  return error;
}

int cudaLaunchKernel(const void* kernel, Extent grid, Extent block, void** arguments, size_t shared, void* stream) {
  const int error = NEXT(cudaLaunchKernel)(kernel, grid, block, arguments, shared, stream);
  if (!error) record::launched(kernel, {grid, block, shared, stream, nullptr, 0}, arguments);
  return error;
}

int cudaLaunchCooperativeKernel(const void* kernel, Extent grid, Extent block, void** arguments, size_t shared, void* stream) {
  worker::LaunchAttribute together{worker::kCooperativeAttribute, 0, {.cooperative = 1}};
  const int error = NEXT(cudaLaunchCooperativeKernel)(kernel, grid, block, arguments, shared, stream);
  if (!error) record::launched(kernel, {grid, block, shared, stream, &together, 1}, arguments);
  return error;
}

int cudaLaunchKernelExC(const LaunchConfig* shape, const void* kernel, void** arguments) {
  const int error = NEXT(cudaLaunchKernelExC)(shape, kernel, arguments);
  if (!error) record::launched(kernel, *shape, arguments);
  return error;
}

int cudaFuncSetAttribute(const void* kernel, int attribute, int value) {
  const int error = NEXT(cudaFuncSetAttribute)(kernel, attribute, value);
  if (const std::string* name = error ? nullptr : record::name_of(kernel)) record::state().attributes[{*name, attribute}] = value;
  return error;
}

int cudaMemsetAsync(void* to, int value, size_t bytes, void* stream) {
  const int error = NEXT(cudaMemsetAsync)(to, value, bytes, stream);
  if (!error) record::filled(to, value, bytes, stream);
  return error;
}

int cudaMemset(void* to, int value, size_t bytes) {
  const int error = NEXT(cudaMemset)(to, value, bytes);
  if (!error) record::filled(to, value, bytes, nullptr);
  return error;
}

int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  const int error = NEXT(cudaMemcpyAsync)(to, from, bytes, kind, stream);
  if (!error) record::copied(to, from, bytes, kind, stream);
  if (!error && bytes && kind == kDeviceToHost && record::is_pageable(to)) record::waited(stream);
  return error;
}

int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  const int error = NEXT(cudaMemcpy)(to, from, bytes, kind);
  if (!error) record::copied(to, from, bytes, kind, nullptr);
  if (!error && bytes && (kind == kDeviceToHost || kind == kHostToDevice)) record::waited(nullptr);
  return error;
}

int cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows, int kind, void* stream) {
  const int error = NEXT(cudaMemcpy2DAsync)(to, to_pitch, from, from_pitch, row_bytes, rows, kind, stream);
  if (!error) record::copied_rows(to, to_pitch, from, from_pitch, row_bytes, rows, kind, stream);
  return error;
}

int cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows, int kind) {
  const int error = NEXT(cudaMemcpy2D)(to, to_pitch, from, from_pitch, row_bytes, rows, kind);
  if (!error) record::copied_rows(to, to_pitch, from, from_pitch, row_bytes, rows, kind, nullptr);
  if (!error && row_bytes && rows && (kind == kDeviceToHost || kind == kHostToDevice)) record::waited(nullptr);
  return error;
}

int cudaMemset2DAsync(void* to, size_t pitch, int value, size_t row_bytes, size_t rows, void* stream) {
  const int error = NEXT(cudaMemset2DAsync)(to, pitch, value, row_bytes, rows, stream);
  if (!error) record::filled_rows(to, pitch, value, row_bytes, rows, stream);
  return error;
}

int cudaMemset2D(void* to, size_t pitch, int value, size_t row_bytes, size_t rows) {
  const int error = NEXT(cudaMemset2D)(to, pitch, value, row_bytes, rows);
  if (!error) record::filled_rows(to, pitch, value, row_bytes, rows, nullptr);
  return error;
}

int cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, int kind) {
  const int error = NEXT(cudaMemcpyToSymbol)(symbol, from, bytes, offset, kind);
  if (!error) record::written(symbol, from, bytes, offset, kind, nullptr);
  return error;
}

int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, void* stream) {
  const int error = NEXT(cudaMemcpyToSymbolAsync)(symbol, from, bytes, offset, kind, stream);
  if (!error) record::written(symbol, from, bytes, offset, kind, stream);
  return error;
}

int cudaStreamBeginCapture(void* stream, int mode) {
  const int error = NEXT(cudaStreamBeginCapture)(stream, mode);
  if (!error) ++record::state().capturing;
  return error;
}

int cudaStreamEndCapture(void* stream, void** graph) {
  const int error = NEXT(cudaStreamEndCapture)(stream, graph);
  if (record::state().capturing) --record::state().capturing;
  if (!error) record::state().graphs[*graph] = record::state().captured;
  record::state().captured.clear();
  return error;
}

int cudaGraphAddKernelNode(void** node, void* graph, void* const* before, size_t count, const worker::KernelNode* wanted) {
  const int error = NEXT(cudaGraphAddKernelNode)(node, graph, before, count, wanted);
  if (!error) record::added(graph, *node, record::launch_of(wanted->function, record::shape_of(*wanted), wanted->arguments));
  return error;
}

int cudaGraphAddMemsetNode(void** node, void* graph, void* const* before, size_t count, const worker::FillNode* wanted) {
  const int error = NEXT(cudaGraphAddMemsetNode)(node, graph, before, count, wanted);
  const bool plain = wanted->height == 1 && (wanted->element_bytes == 1 || wanted->value == 0);
  if (!error) record::added(graph, *node, plain ? record::fill_of(wanted->to, int(wanted->value), wanted->width * wanted->element_bytes) : "");
  return error;
}

int cudaGraphAddMemcpyNode1D(void** node, void* graph, void* const* before, size_t count, void* to, const void* from, size_t bytes, int kind) {
  const int error = NEXT(cudaGraphAddMemcpyNode1D)(node, graph, before, count, to, from, bytes, kind);
  if (!error) record::added(graph, *node, record::copy_of(to, from, bytes, kind));
  return error;
}

int cudaGraphInstantiate(void** runnable, void* graph, unsigned long long flags) {
  const int error = NEXT(cudaGraphInstantiate)(runnable, graph, flags);
  if (!error) record::state().runnable[*runnable] = record::nodes_of(graph);
  return error;
}

int cudaGraphInstantiateWithFlags(void** runnable, void* graph, unsigned long long flags) {
  const int error = NEXT(cudaGraphInstantiateWithFlags)(runnable, graph, flags);
  if (!error) record::state().runnable[*runnable] = record::nodes_of(graph);
  return error;
}

int cudaGraphExecUpdate(void* runnable, void* graph, void* told) {
  const int error = NEXT(cudaGraphExecUpdate)(runnable, graph, told);
  if (!error) record::state().runnable[runnable] = record::nodes_of(graph);
  return error;
}

int cudaGraphExecKernelNodeSetParams(void* runnable, void* node, const worker::KernelNode* wanted) {
  const int error = NEXT(cudaGraphExecKernelNodeSetParams)(runnable, node, wanted);
  if (error) return error;
  for (auto& one : record::state().runnable[runnable])
    if (one.node == node) one.operation = record::launch_of(wanted->function, record::shape_of(*wanted), wanted->arguments);
  return 0;
}

int cudaGraphLaunch(void* runnable, void* stream) {
  const int error = NEXT(cudaGraphLaunch)(runnable, stream);
  if (!error && record::is_capturing(stream)) record::state().captured.push_back({nullptr, ""});  // a graph in a graph is not kept
  if (!error && record::is_ordered(stream)) {
    const auto found = record::state().runnable.find(runnable);
    if (found == record::state().runnable.end() || found->second.empty()) record::refuse("a graph that nobody saw being made");
    else for (const auto& one : found->second) record::keep_in_order(one.operation, stream, "something in a graph that is not kept");
  }
  return error;
}

int cudaGraphCreate(void** graph, unsigned flags) {
  const int error = NEXT(cudaGraphCreate)(graph, flags);
  if (!error) record::state().graphs[*graph].clear();
  return error;
}

int cudaGraphAddEmptyNode(void** node, void* graph, void* const* before, size_t count) {
  const int error = NEXT(cudaGraphAddEmptyNode)(node, graph, before, count);
  if (!error) record::added(graph, *node, record::nothing());
  return error;
}

int cudaMalloc(void** address, size_t bytes) {
  void* const own = record::taken(bytes);
  if (!own) return NEXT(cudaMalloc)(address, bytes);
  *address = own;
  return 0;
}

int cudaMallocPitch(void** address, size_t* pitch, size_t row_bytes, size_t rows) {
  const size_t wide = row_bytes > record::kMostServed ? 0 : (row_bytes + record::kPitch - 1) / record::kPitch * record::kPitch;
  void* const own = wide ? record::taken(worker::span_of(wide, wide, rows)) : nullptr;
  if (!own) return NEXT(cudaMallocPitch)(address, pitch, row_bytes, rows);
  *address = own, *pitch = wide;
  return 0;
}

int cudaMallocAsync(void** address, size_t bytes, void* stream) {
  void* const own = record::is_capturing(stream) ? nullptr : record::taken(bytes);
  if (!own) return NEXT(cudaMallocAsync)(address, bytes, stream);
  *address = own;
  return 0;
}

int cudaFree(void* address) {
  if (!record::is_returned(address)) return NEXT(cudaFree)(address);
  const int error = cudaDeviceSynchronize();  // as the runtime's own does
  record::state().memory->release(address);
  return error;
}

int cudaFreeAsync(void* address, void* stream) {
  if (!record::is_returned(address)) return NEXT(cudaFreeAsync)(address, stream);
  record::state().memory->release_later(address);
  return 0;
}

int cudaStreamCreate(void** stream) {
  const int error = NEXT(cudaStreamCreate)(stream);
  if (!error) record::made(*stream, 0);
  return error;
}

int cudaStreamCreateWithFlags(void** stream, unsigned flags) {
  const int error = NEXT(cudaStreamCreateWithFlags)(stream, flags);
  if (!error) record::made(*stream, flags);
  return error;
}

int cudaStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  const int error = NEXT(cudaStreamCreateWithPriority)(stream, flags, priority);
  if (!error) record::made(*stream, flags);
  return error;
}

int cudaEventCreate(void** event) {
  const int error = NEXT(cudaEventCreate)(event);
  if (!error) record::state().order.made(*event);
  return error;
}

int cudaEventCreateWithFlags(void** event, unsigned flags) {
  const int error = NEXT(cudaEventCreateWithFlags)(event, flags);
  if (!error) record::state().order.made(*event);
  return error;
}

int cudaEventRecord(void* event, void* stream) {
  const int error = NEXT(cudaEventRecord)(event, stream);
  if (!error && record::is_ordered(stream)) record::state().order.recorded(event, stream);
  return error;
}

int cudaEventRecordWithFlags(void* event, void* stream, unsigned flags) {
  const int error = NEXT(cudaEventRecordWithFlags)(event, stream, flags);
  if (!error && record::is_ordered(stream)) record::state().order.recorded(event, stream);
  return error;
}

int cudaStreamWaitEvent(void* stream, void* event, unsigned flags) {
  const int error = NEXT(cudaStreamWaitEvent)(stream, event, flags);
  if (!error && record::is_ordered(stream)) record::state().order.waits(stream, event);
  return error;
}

int cudaStreamSynchronize(void* stream) {
  const int error = NEXT(cudaStreamSynchronize)(stream);
  if (!error) record::waited(stream);
  return error;
}

int cudaStreamQuery(void* stream) {
  const int error = NEXT(cudaStreamQuery)(stream);
  if (!error) record::waited(stream);
  return error;
}

int cudaEventSynchronize(void* event) {
  const int error = NEXT(cudaEventSynchronize)(event);
  if (!error && record::state().on) record::state().order.passed(event);
  return error;
}

int cudaEventQuery(void* event) {
  const int error = NEXT(cudaEventQuery)(event);
  if (!error && record::state().on) record::state().order.passed(event);
  return error;
}

int cudaDeviceSynchronize() {
  const int error = NEXT(cudaDeviceSynchronize)();
  if (!error && record::state().on) record::state().order.all_over();
  return error;
}
}
