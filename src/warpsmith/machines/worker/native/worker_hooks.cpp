// The runtime's functions that a candidate finds first: each passes the request on and says what was asked for.
#include "worker_program.h"
#include "worker_state.h"

using worker::Extent;
using worker::LaunchConfig;
namespace record = worker::record;

extern "C" {

void __cudaRegisterFunction(void** module, const char* host, char* device, const char* name, int limit, void* thread,
                            void* block, void* blocks, void* grid, int* warp) {
  record::state().kernels[host] = name;
  NEXT(__cudaRegisterFunction)(module, host, device, name, limit, thread, block, blocks, grid, warp);
}

void __cudaRegisterVar(void** module, char* host, char* device, const char* name, int external, size_t bytes,
                       int constant, int global) {
  record::state().symbols[host] = {name, bytes, constant != 0};
  NEXT(__cudaRegisterVar)(module, host, device, name, external, bytes, constant, global);
}

void __cudaRegisterFatBinaryEnd(void** module) {
  record::complete(module);
  NEXT(__cudaRegisterFatBinaryEnd)(module);
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

int cudaLaunchCooperativeKernel(const void* kernel, Extent grid, Extent block, void** arguments, size_t shared,
                                void* stream) {
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
  if (const std::string* name = error ? nullptr : record::name_of(kernel))
    record::state().attributes[{*name, attribute}] = value;
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

int cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows,
                      int kind, void* stream) {
  const int error = NEXT(cudaMemcpy2DAsync)(to, to_pitch, from, from_pitch, row_bytes, rows, kind, stream);
  if (!error) record::copied_rows(to, to_pitch, from, from_pitch, row_bytes, rows, kind, stream);
  return error;
}

int cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows,
                 int kind) {
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

int cudaGraphAddKernelNode(void** node, void* graph, void* const* before, size_t count,
                           const worker::KernelNode* wanted) {
  const int error = NEXT(cudaGraphAddKernelNode)(node, graph, before, count, wanted);
  if (!error)
    record::added(graph, *node, record::launch_of(wanted->function, record::shape_of(*wanted), wanted->arguments));
  return error;
}

int cudaGraphAddMemsetNode(void** node, void* graph, void* const* before, size_t count,
                           const worker::FillNode* wanted) {
  const int error = NEXT(cudaGraphAddMemsetNode)(node, graph, before, count, wanted);
  if (!error) record::added(graph, *node, record::fill_of(*wanted));
  return error;
}

int cudaGraphAddMemcpyNode1D(void** node, void* graph, void* const* before, size_t count, void* to, const void* from,
                             size_t bytes, int kind) {
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
  if (!error)
    record::changed_in(runnable, node,
                       record::launch_of(wanted->function, record::shape_of(*wanted), wanted->arguments));
  return error;
}

int cudaGraphExecMemsetNodeSetParams(void* runnable, void* node, const worker::FillNode* wanted) {
  const int error = NEXT(cudaGraphExecMemsetNodeSetParams)(runnable, node, wanted);
  if (!error) record::changed_in(runnable, node, record::fill_of(*wanted));
  return error;
}

int cudaGraphExecMemcpyNodeSetParams1D(void* runnable, void* node, void* to, const void* from, size_t bytes, int kind) {
  const int error = NEXT(cudaGraphExecMemcpyNodeSetParams1D)(runnable, node, to, from, bytes, kind);
  if (!error) record::changed_in(runnable, node, record::copy_of(to, from, bytes, kind));
  return error;
}

int cudaGraphKernelNodeSetParams(void* node, const worker::KernelNode* wanted) {
  const int error = NEXT(cudaGraphKernelNodeSetParams)(node, wanted);
  if (!error) record::changed(node, record::launch_of(wanted->function, record::shape_of(*wanted), wanted->arguments));
  return error;
}

int cudaGraphMemsetNodeSetParams(void* node, const worker::FillNode* wanted) {
  const int error = NEXT(cudaGraphMemsetNodeSetParams)(node, wanted);
  if (!error) record::changed(node, record::fill_of(*wanted));
  return error;
}

int cudaGraphMemcpyNodeSetParams1D(void* node, void* to, const void* from, size_t bytes, int kind) {
  const int error = NEXT(cudaGraphMemcpyNodeSetParams1D)(node, to, from, bytes, kind);
  if (!error) record::changed(node, record::copy_of(to, from, bytes, kind));
  return error;
}

int cudaGraphLaunch(void* runnable, void* stream) {
  const int error = NEXT(cudaGraphLaunch)(runnable, stream);
  if (!error && record::is_capturing(stream))
    record::state().captured.push_back({nullptr, ""});  // a graph in a graph is not kept
  if (!error && record::is_ordered(stream)) {
    const auto found = record::state().runnable.find(runnable);
    if (found == record::state().runnable.end() || found->second.empty())
      record::refuse("a graph that nobody saw being made");
    else
      for (const auto& one : found->second)
        record::keep_in_order(one.operation, stream, "something in a graph that is not kept");
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
  const size_t wide =
      row_bytes > record::kMostServed ? 0 : (row_bytes + record::kPitch - 1) / record::kPitch * record::kPitch;
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
