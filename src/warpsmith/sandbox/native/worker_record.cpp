#include "worker_record.h"

#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "cuda_calls.h"
#include "worker_program.h"
#include "worker_values.h"

namespace worker::record {
namespace {

constexpr size_t kMostBytes = size_t(1) << 20, kMostInline = size_t(64) << 10;

struct Symbol {
  std::string name;
  uint64_t bytes = 0;
  uint32_t constant = 0;
};

struct State {
  std::map<const void*, std::string> kernels;  // by the host's pointer, and by the runtime's handle
  std::map<const void*, Symbol> symbols;
  std::map<std::string, std::vector<uint32_t>> parameters;  // bytes of each, by the kernel's name
  Writer settings, call;                                    // what outlives a call, and what is asked in this one
  std::string whole, fault;
  int captured = 0, replayed = 0;  // graphs in this call
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
    width = uint32_t(std::stoul(text.substr(at + 2))) / 8;
    break;
  }
  if (size_t open = text.find('['); open != std::string::npos) count = uint32_t(std::stoul(text.substr(open + 1)));
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

void launched(const void* kernel, const LaunchConfig& shape, void** arguments) {
  if (!state().on) return;
  const std::string* name = name_of(kernel);
  auto sizes = name ? state().parameters.find(*name) : state().parameters.end();
  if (sizes == state().parameters.end()) return refuse("a kernel that its file does not hold");
  Extent cluster{1, 1, 1};
  uint32_t cooperative = 0;
  for (unsigned i = 0; i < shape.count; ++i) {
    if (shape.attributes[i].id == kCooperativeAttribute) cooperative = shape.attributes[i].cooperative != 0;
    if (shape.attributes[i].id == kClusterAttribute) cluster = shape.attributes[i].cluster;
  }
  Writer& to = state().call;
  to.put(uint32_t(kKernel));
  put_name(&to, *name);
  to.put(shape.grid), to.put(shape.block), to.put(uint32_t(shape.shared)), to.put(cooperative), to.put(cluster);
  to.put(uint32_t(sizes->second.size()));
  for (uint32_t bytes : sizes->second) to.put(bytes);
  for (size_t i = 0; i < sizes->second.size(); ++i) to.bytes(arguments[i], sizes->second[i]);
  if (to.out().size() > kMostBytes) refuse("more launches than are kept");
}

void filled(const void* to, int value, size_t bytes) {
  if (!state().on) return;
  state().call.put(uint32_t(kFill)), state().call.put(uint64_t(to)), state().call.put(uint32_t(value)), state().call.put(uint64_t(bytes));
}

void copied(const void* to, const void* from, size_t bytes, int kind) {
  if (!state().on || kind == kDeviceToHost || kind == 0) return;
  if (kind == kDeviceToDevice) {
    state().call.put(uint32_t(kCopy)), state().call.put(uint64_t(to)), state().call.put(uint64_t(from)), state().call.put(uint64_t(bytes));
  } else if (kind == kHostToDevice && bytes <= kMostInline) {
    state().call.put(uint32_t(kBytes)), state().call.put(uint64_t(to)), state().call.put(uint32_t(bytes)), state().call.bytes(from, bytes);
  } else {
    refuse("a copy from the host that is too long to keep, or of a direction that is not said");
  }
}

void written(const void* symbol, const void* from, size_t bytes, size_t offset, int kind) {
  auto found = state().symbols.find(symbol);
  if (found == state().symbols.end() || kind != kHostToDevice || bytes > kMostInline) return refuse("a symbol that is written in a way that is not kept");
  Writer& to = state().on ? state().call : state().settings;
  to.put(uint32_t(kSymbol));
  put_name(&to, found->second.name);
  to.put(uint64_t(offset)), to.put(uint32_t(bytes)), to.bytes(from, bytes);
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
  std::ifstream file(artifact, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  constexpr const char* kEntry = ".entry";
  for (size_t at = all.find(kEntry); at != std::string::npos; at = all.find(kEntry, at + 1)) read_entry(all, at + std::strlen(kEntry));
}

void begin() {
  state().call = Writer();
  state().fault.clear();
  state().captured = state().replayed = 0;
  state().on = true;
}

// What a graph launches was asked for when it was captured: in this call, and once, or it is not known.
void end() {
  if (state().replayed > state().captured) refuse("a graph of an earlier call");
  state().on = false;
  Writer marker;
  marker.put(uint32_t(kBegin));
  state().whole = registered() + state().settings.out() + marker.out() + state().call.out();
}

const std::string& operations() { return state().whole; }
const std::string& fault() { return state().fault; }

}  // namespace worker::record

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
  record::launched(kernel, {grid, block, shared, stream, nullptr, 0}, arguments);
  return NEXT(__cudaLaunchKernel)(kernel, grid, block, arguments, shared, stream);
}

int cudaLaunchKernel(const void* kernel, Extent grid, Extent block, void** arguments, size_t shared, void* stream) {
  record::launched(kernel, {grid, block, shared, stream, nullptr, 0}, arguments);
  return NEXT(cudaLaunchKernel)(kernel, grid, block, arguments, shared, stream);
}

int cudaLaunchCooperativeKernel(const void* kernel, Extent grid, Extent block, void** arguments, size_t shared, void* stream) {
  worker::LaunchAttribute together{worker::kCooperativeAttribute, 0, {.cooperative = 1}};
  record::launched(kernel, {grid, block, shared, stream, &together, 1}, arguments);
  return NEXT(cudaLaunchCooperativeKernel)(kernel, grid, block, arguments, shared, stream);
}

int cudaLaunchKernelExC(const LaunchConfig* shape, const void* kernel, void** arguments) {
  record::launched(kernel, *shape, arguments);
  return NEXT(cudaLaunchKernelExC)(shape, kernel, arguments);
}

int cudaFuncSetAttribute(const void* kernel, int attribute, int value) {
  if (const std::string* name = record::name_of(kernel)) {
    worker::Writer& to = record::state().settings;
    to.put(uint32_t(worker::kAttribute));
    record::put_name(&to, *name);
    to.put(attribute), to.put(value);
  }
  return NEXT(cudaFuncSetAttribute)(kernel, attribute, value);
}

int cudaMemsetAsync(void* to, int value, size_t bytes, void* stream) {
  record::filled(to, value, bytes);
  return NEXT(cudaMemsetAsync)(to, value, bytes, stream);
}

int cudaMemset(void* to, int value, size_t bytes) {
  record::filled(to, value, bytes);
  return NEXT(cudaMemset)(to, value, bytes);
}

int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  record::copied(to, from, bytes, kind);
  return NEXT(cudaMemcpyAsync)(to, from, bytes, kind, stream);
}

int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  record::copied(to, from, bytes, kind);
  return NEXT(cudaMemcpy)(to, from, bytes, kind);
}

int cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, int kind) {
  record::written(symbol, from, bytes, offset, kind);
  return NEXT(cudaMemcpyToSymbol)(symbol, from, bytes, offset, kind);
}

int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, void* stream) {
  record::written(symbol, from, bytes, offset, kind);
  return NEXT(cudaMemcpyToSymbolAsync)(symbol, from, bytes, offset, kind, stream);
}

int cudaStreamEndCapture(void* stream, void** graph) {
  record::state().captured += record::state().on;
  return NEXT(cudaStreamEndCapture)(stream, graph);
}

int cudaGraphLaunch(void* graph, void* stream) {
  record::state().replayed += record::state().on;
  return NEXT(cudaGraphLaunch)(graph, stream);
}
}
