// Stream capture and graphs.
#include <cstring>

#include "copy.h"
#include "registry.h"

using namespace standin;

namespace {

std::vector<uint64_t> ids(void* const* nodes, size_t count) {
  std::vector<uint64_t> found(count);
  for (size_t i = 0; i < count; ++i) found[i] = id_of(nodes[i]);
  return found;
}

int add(void** node, Call call, Words words, const void* bytes, size_t length) {
  Result result = call_executor(call, words, bytes, length);
  if (node) *node = result.error ? nullptr : handle(result.words[0]);
  return result.error;
}

struct KernelWords {
  uint64_t words[6];
  std::vector<uint8_t> bytes;
  int error = 0;
};

KernelWords words_of(const KernelNode* node) {
  KernelWords made{};
  Kernel* kernel = kernel_of(node->function);
  if (!kernel || node->extra) {
    made.error = kernel ? report_unknown_call("kernel node parameters in the extra format") : last_error(false);
    return made;
  }
  made.words[0] = kernel->function;
  made.words[1] = wire::pack(node->grid.x, node->grid.y);
  made.words[2] = wire::pack(node->grid.z, node->block.x);
  made.words[3] = wire::pack(node->block.y, node->block.z);
  made.words[4] = node->shared;
  made.bytes = packed(*kernel, node->parameters);
  return made;
}

int set_kernel(uint64_t exec, void* node, const KernelNode* parameters) {
  KernelWords made = words_of(parameters);
  if (made.error) return made.error;
  const uint64_t* words = made.words;
  return submit(Call::NodeSetKernel, {exec, id_of(node), words[0], words[1], words[2], words[3], words[4]},
                made.bytes.data(), made.bytes.size());
}

int set_fill(uint64_t exec, void* node, const FillNode* fill) {
  return submit(Call::NodeSetFill, {exec, id_of(node), word(fill->to), fill->pitch, fill->value, fill->element,
                                    fill->width, fill->height});
}

// Directions as numbers of the executor. Copies between host buffers are not supported in graphs.
int direction_of(int kind, const void* to, const void* from) {
  Way way = resolve(Way(kind), to, from);
  return way == Way::In ? 0 : way == Way::Out ? 1 : way == Way::Within ? 2 : -1;
}

int add_copy(void** node, void* graph, void* const* after, size_t count, const Rows& rows, int kind) {
  int direction = direction_of(kind, rows.to, rows.from);
  if (direction < 0) return report_unknown_call("a host-to-host copy node in a graph");
  std::vector<uint64_t> nodes = ids(after, count);
  return add(node, Call::GraphAddCopy,
             {id_of(graph), uint64_t(direction), word(rows.to), rows.to_pitch, word(rows.from), rows.from_pitch,
              rows.width, rows.height},
             nodes.data(), nodes.size() * sizeof(uint64_t));
}

int set_copy(uint64_t exec, void* node, void* to, const void* from, size_t bytes, int kind) {
  int direction = direction_of(kind, to, from);
  if (direction < 0) return report_unknown_call("a host-to-host copy node in a graph");
  return submit(Call::NodeSetCopy,
                {exec, id_of(node), uint64_t(direction), word(to), bytes, word(from), bytes, bytes, 1});
}

int instantiate(void** exec, void* graph) {
  Result result = call_executor(Call::Instantiate, {id_of(graph)});
  *exec = result.error ? nullptr : handle(result.words[0]);
  return result.error;
}

int end_capture(uint64_t stream, void** graph) {
  Result result = call_executor(Call::CaptureEnd, {stream});
  *graph = result.error ? nullptr : handle(result.words[0]);
  return result.error;
}

int capture_info(uint64_t stream, int* status, unsigned long long* id, void** graph) {
  Result result = call_executor(Call::CaptureState, {stream});
  if (status) *status = int(result.words[0]);
  if (id) *id = result.words[1];
  if (graph) *graph = result.words[1] ? handle(result.words[1]) : nullptr;
  return result.error;
}

int edges(void* graph, void* const* from, void* const* to, size_t count) {
  int error = 0;
  for (size_t i = 0; i < count && !error; ++i)
    error = submit(Call::GraphEdge, {id_of(graph), id_of(from[i]), id_of(to[i])});
  return error;
}

// Returns the ends of as many edges as the caller has room for, and their number.
int known_edges(void* graph, void** from, void** to, size_t* count) {
  Result result = call_executor(Call::GraphEdges, {id_of(graph)});
  const size_t there = result.bytes.size() / (2 * sizeof(uint64_t));
  for (size_t i = 0; from && to && i < *count && i < there; ++i) {
    uint64_t ends[2];
    std::memcpy(ends, result.bytes.data() + i * sizeof ends, sizeof ends);
    from[i] = handle(ends[0]);
    to[i] = handle(ends[1]);
  }
  *count = from && to && *count < there ? *count : there;
  return result.error;
}

}  // namespace

extern "C" {

int cudaStreamBeginCapture(void* stream, int mode) {
  return submit(Call::CaptureBegin, {stream_of(stream), uint64_t(mode)});
}
int cudaStreamBeginCapture_ptsz(void* stream, int mode) {
  return submit(Call::CaptureBegin, {stream_of_ptsz(stream), uint64_t(mode)});
}
int cudaStreamEndCapture(void* stream, void** graph) { return end_capture(stream_of(stream), graph); }
int cudaStreamEndCapture_ptsz(void* stream, void** graph) { return end_capture(stream_of_ptsz(stream), graph); }
int cudaStreamIsCapturing(void* stream, int* status) {
  return capture_info(stream_of(stream), status, nullptr, nullptr);
}
int cudaStreamIsCapturing_ptsz(void* stream, int* status) {
  return capture_info(stream_of_ptsz(stream), status, nullptr, nullptr);
}
int cudaThreadExchangeStreamCaptureMode(int* mode) {
  *mode = 0;
  return cuda::kSuccess;
}

// The dependencies of the capture are not returned.
int cudaStreamGetCaptureInfo(void* stream, int* status, unsigned long long* id, void** graph, void** nodes) {
  if (STANDIN_MAJOR >= 13 && nodes) return report_unknown_call("cudaStreamGetCaptureInfo with dependencies");
  return capture_info(stream_of(stream), status, id, STANDIN_MAJOR >= 13 ? graph : nullptr);
}
int cudaStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* id, void** graph, void** nodes) {
  if (nodes) return report_unknown_call("cudaStreamGetCaptureInfo_v2 with dependencies");
  return capture_info(stream_of(stream), status, id, graph);
}

int cudaGraphCreate(void** graph, unsigned) {
  Result result = call_executor(Call::GraphCreate, {});
  *graph = result.error ? nullptr : handle(result.words[0]);
  return result.error;
}
int cudaGraphDestroy(void* graph) { return submit(Call::GraphDestroy, {id_of(graph)}); }
int cudaGraphClone(void** clone, void* graph) {
  Result result = call_executor(Call::GraphClone, {id_of(graph)});
  *clone = result.error ? nullptr : handle(result.words[0]);
  return result.error;
}

int cudaGraphAddEmptyNode(void** node, void* graph, void* const* after, size_t count) {
  std::vector<uint64_t> nodes = ids(after, count);
  return add(node, Call::GraphAddEmpty, {id_of(graph)}, nodes.data(), nodes.size() * sizeof(uint64_t));
}

int cudaGraphAddKernelNode(void** node, void* graph, void* const* after, size_t count, const KernelNode* parameters) {
  KernelWords made = words_of(parameters);
  if (made.error) return made.error;
  std::vector<uint64_t> nodes = ids(after, count);
  auto* raw = reinterpret_cast<uint8_t*>(nodes.data());
  std::vector<uint8_t> bytes(raw, raw + count * sizeof(uint64_t));
  bytes.insert(bytes.end(), made.bytes.begin(), made.bytes.end());
  const uint64_t* words = made.words;
  return add(node, Call::GraphAddKernel,
             {id_of(graph), words[0], words[1], words[2], words[3], words[4], 0, 0, 0, 0, 0, 0, count}, bytes.data(),
             bytes.size());
}

int cudaGraphAddMemcpyNode(void** node, void* graph, void* const* after, size_t count, const Copy3D* copy) {
  if (copy->from_array || copy->to_array || copy->extent.depth != 1)
    return report_unknown_call("cudaGraphAddMemcpyNode with an array or several slices");
  auto at = [](const Pitched& base, const Position& position) {
    return static_cast<char*>(base.data) + (position.z * base.height + position.y) * base.pitch + position.x;
  };
  Rows rows{at(copy->to, copy->to_position),
            copy->to.pitch,
            at(copy->from, copy->from_position),
            copy->from.pitch,
            copy->extent.width,
            copy->extent.height};
  return add_copy(node, graph, after, count, rows, copy->kind);
}

int cudaGraphAddMemcpyNode1D(void** node, void* graph, void* const* after, size_t count, void* to, const void* from,
                             size_t bytes, int kind) {
  return add_copy(node, graph, after, count, {to, bytes, from, bytes, bytes, 1}, kind);
}

int cudaGraphAddMemsetNode(void** node, void* graph, void* const* after, size_t count, const FillNode* fill) {
  std::vector<uint64_t> nodes = ids(after, count);
  return add(node, Call::GraphAddFill,
             {id_of(graph), word(fill->to), fill->pitch, fill->value, fill->element, fill->width, fill->height},
             nodes.data(), nodes.size() * sizeof(uint64_t));
}

#if STANDIN_MAJOR == 12
int cudaGraphAddDependencies(void* graph, void* const* from, void* const* to, size_t count) {
  return edges(graph, from, to, count);
}
#else
int cudaGraphAddDependencies(void* graph, void* const* from, void* const* to, const void*, size_t count) {
  return edges(graph, from, to, count);
}
#endif
int cudaGraphAddDependencies_v2(void* graph, void* const* from, void* const* to, const void*, size_t count) {
  return edges(graph, from, to, count);
}

int cudaGraphGetNodes(void* graph, void** nodes, size_t* count) {
  Result result = call_executor(Call::GraphNodes, {id_of(graph)});
  size_t there = result.bytes.size() / sizeof(uint64_t);
  for (size_t i = 0; nodes && i < *count; ++i) {
    uint64_t id = 0;
    if (i < there) std::memcpy(&id, result.bytes.data() + i * sizeof id, sizeof id);
    nodes[i] = id ? handle(id) : nullptr;
  }
  *count = nodes && *count < there ? *count : there;
  return result.error;
}

#if STANDIN_MAJOR == 12
int cudaGraphGetEdges(void* graph, void** from, void** to, size_t* count) {
  return known_edges(graph, from, to, count);
}
#else
int cudaGraphGetEdges(void* graph, void** from, void** to, void*, size_t* count) {
  return known_edges(graph, from, to, count);
}
#endif
int cudaGraphGetEdges_v2(void* graph, void** from, void** to, void*, size_t* count) {
  return known_edges(graph, from, to, count);
}

int cudaGraphNodeGetType(void* node, int* type) {
  constexpr int kTypes[] = {5, 0, 1, 2, 11};  // empty, kernel, copy, memset, free, by the executor's numbers
  Result result = call_executor(Call::NodeKind, {id_of(node)});
  if (!result.error) *type = kTypes[result.words[0] < 5 ? result.words[0] : 0];
  return result.error;
}

// The parameters stay valid until the next call in this thread, as in CUDA.
int cudaGraphKernelNodeGetParams(void* node, KernelNode* parameters) {
  thread_local std::vector<uint8_t> bytes;
  thread_local std::vector<void*> pointers;
  Result result = call_executor(Call::NodeKernel, {id_of(node)});
  if (result.error) return result.error;
  std::memset(parameters, 0, sizeof *parameters);
  parameters->function = const_cast<void*>(function_by_number(result.words[0]));
  parameters->grid = {wire::low(result.words[1]), wire::high(result.words[1]), wire::low(result.words[2])};
  parameters->block = {wire::high(result.words[2]), wire::low(result.words[3]), wire::high(result.words[3])};
  parameters->shared = unsigned(result.words[4]);
  bytes = result.bytes;
  pointers.clear();
  if (Kernel* kernel = kernel_of(parameters->function))
    for (const Parameter& parameter : kernel->parameters) pointers.push_back(bytes.data() + parameter.offset);
  parameters->parameters = pointers.data();
  return cuda::kSuccess;
}

int cudaGraphKernelNodeSetParams(void* node, const KernelNode* parameters) { return set_kernel(0, node, parameters); }
int cudaGraphExecKernelNodeSetParams(void* exec, void* node, const KernelNode* parameters) {
  return set_kernel(id_of(exec), node, parameters);
}
int cudaGraphMemsetNodeSetParams(void* node, const FillNode* parameters) { return set_fill(0, node, parameters); }
int cudaGraphExecMemsetNodeSetParams(void* exec, void* node, const FillNode* parameters) {
  return set_fill(id_of(exec), node, parameters);
}
int cudaGraphMemcpyNodeSetParams1D(void* node, void* to, const void* from, size_t bytes, int kind) {
  return set_copy(0, node, to, from, bytes, kind);
}
int cudaGraphExecMemcpyNodeSetParams1D(void* exec, void* node, void* to, const void* from, size_t bytes, int kind) {
  return set_copy(id_of(exec), node, to, from, bytes, kind);
}

int cudaGraphInstantiate(void** exec, void* graph, unsigned long long) { return instantiate(exec, graph); }
int cudaGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) { return instantiate(exec, graph); }
int cudaGraphInstantiateWithParams(void** exec, void* graph, InstantiateParameters* parameters) {
  int error = instantiate(exec, graph);
  parameters->result = error ? 1 : 0;
  return error;
}
int cudaGraphExecDestroy(void* exec) { return submit(Call::ExecDestroy, {id_of(exec)}); }
int cudaGraphLaunch(void* exec, void* stream) { return submit(Call::ExecLaunch, {id_of(exec), stream_of(stream)}); }
int cudaGraphLaunch_ptsz(void* exec, void* stream) {
  return submit(Call::ExecLaunch, {id_of(exec), stream_of_ptsz(stream)});
}
int cudaGraphUpload(void*, void*) { return cuda::kSuccess; }
int cudaGraphUpload_ptsz(void*, void*) { return cuda::kSuccess; }

int cudaGraphExecUpdate(void* exec, void* graph, UpdateResult* found) {
  Result result = call_executor(Call::ExecUpdate, {id_of(exec), id_of(graph)});
  if (found) *found = {int(result.words[0]), result.words[1] ? handle(result.words[1]) : nullptr, nullptr};
  return result.error;
}

}  // extern "C"
