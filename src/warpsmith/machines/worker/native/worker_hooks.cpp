// Functions of the CUDA runtime, interposed: each forwards the call to the runtime and then adds it to the capture. The
// functions keep the names and parameters of the CUDA runtime API.
#include "worker_program.h"
#include "worker_state.h"

using worker::Extent;
using worker::LaunchConfig;
namespace capture = worker::capture;

extern "C" {

void __cudaRegisterFunction(void** module, const char* host, char* device, const char* name, int limit, void* thread,
                            void* block, void* blocks, void* grid, int* warp) {
  capture::state().kernels[host] = name;
  NEXT(__cudaRegisterFunction)(module, host, device, name, limit, thread, block, blocks, grid, warp);
}

void __cudaRegisterVar(void** module, char* host, char* device, const char* name, int external, size_t bytes,
                       int constant, int global) {
  capture::state().symbols[host] = {name, bytes, constant != 0};
  NEXT(__cudaRegisterVar)(module, host, device, name, external, bytes, constant, global);
}

void __cudaRegisterFatBinaryEnd(void** module) {
  capture::register_hidden_variables(module);
  NEXT(__cudaRegisterFatBinaryEnd)(module);
}

int __cudaGetKernel(void** kernel, const void* host) {
  const int error = NEXT(__cudaGetKernel)(kernel, host);
  if (const std::string* name = error ? nullptr : capture::find_kernel_name(host))
    capture::state().kernels[*kernel] = *name;
  return error;
}

int __cudaLaunchKernel(void* kernel, Extent grid, Extent block, void** arguments, size_t shared, void* stream) {
  const int error = NEXT(__cudaLaunchKernel)(kernel, grid, block, arguments, shared, stream);
  if (!error) capture::add_launch(kernel, {grid, block, shared, stream, nullptr, 0}, arguments);
  return error;
}

int cudaLaunchKernel(const void* kernel, Extent grid, Extent block, void** arguments, size_t shared, void* stream) {
  const int error = NEXT(cudaLaunchKernel)(kernel, grid, block, arguments, shared, stream);
  if (!error) capture::add_launch(kernel, {grid, block, shared, stream, nullptr, 0}, arguments);
  return error;
}

int cudaLaunchCooperativeKernel(const void* kernel, Extent grid, Extent block, void** arguments, size_t shared,
                                void* stream) {
  worker::LaunchAttribute together{worker::kCooperativeAttribute, 0, {.cooperative = 1}};
  const int error = NEXT(cudaLaunchCooperativeKernel)(kernel, grid, block, arguments, shared, stream);
  if (!error) capture::add_launch(kernel, {grid, block, shared, stream, &together, 1}, arguments);
  return error;
}

int cudaLaunchKernelExC(const LaunchConfig* shape, const void* kernel, void** arguments) {
  const int error = NEXT(cudaLaunchKernelExC)(shape, kernel, arguments);
  if (!error) capture::add_launch(kernel, *shape, arguments);
  return error;
}

int cudaFuncSetAttribute(const void* kernel, int attribute, int value) {
  const int error = NEXT(cudaFuncSetAttribute)(kernel, attribute, value);
  if (const std::string* name = error ? nullptr : capture::find_kernel_name(kernel))
    capture::state().attributes[{*name, attribute}] = value;
  return error;
}

int cudaMemsetAsync(void* to, int value, size_t bytes, void* stream) {
  const int error = NEXT(cudaMemsetAsync)(to, value, bytes, stream);
  if (!error) capture::add_fill(to, value, bytes, stream);
  return error;
}

int cudaMemset(void* to, int value, size_t bytes) {
  const int error = NEXT(cudaMemset)(to, value, bytes);
  if (!error) capture::add_fill(to, value, bytes, nullptr);
  return error;
}

int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  const int error = NEXT(cudaMemcpyAsync)(to, from, bytes, kind, stream);
  if (!error) capture::add_copy(to, from, bytes, kind, stream);
  if (!error && bytes && kind == kDeviceToHost && capture::is_pageable(to)) capture::finish_stream(stream);
  return error;
}

int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  const int error = NEXT(cudaMemcpy)(to, from, bytes, kind);
  if (!error) capture::add_copy(to, from, bytes, kind, nullptr);
  if (!error && bytes && (kind == kDeviceToHost || kind == kHostToDevice)) capture::finish_stream(nullptr);
  return error;
}

int cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows,
                      int kind, void* stream) {
  const int error = NEXT(cudaMemcpy2DAsync)(to, to_pitch, from, from_pitch, row_bytes, rows, kind, stream);
  if (!error) capture::add_copy_rows(to, to_pitch, from, from_pitch, row_bytes, rows, kind, stream);
  return error;
}

int cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes, size_t rows,
                 int kind) {
  const int error = NEXT(cudaMemcpy2D)(to, to_pitch, from, from_pitch, row_bytes, rows, kind);
  if (!error) capture::add_copy_rows(to, to_pitch, from, from_pitch, row_bytes, rows, kind, nullptr);
  if (!error && row_bytes && rows && (kind == kDeviceToHost || kind == kHostToDevice)) capture::finish_stream(nullptr);
  return error;
}

int cudaMemset2DAsync(void* to, size_t pitch, int value, size_t row_bytes, size_t rows, void* stream) {
  const int error = NEXT(cudaMemset2DAsync)(to, pitch, value, row_bytes, rows, stream);
  if (!error) capture::add_fill_rows(to, pitch, value, row_bytes, rows, stream);
  return error;
}

int cudaMemset2D(void* to, size_t pitch, int value, size_t row_bytes, size_t rows) {
  const int error = NEXT(cudaMemset2D)(to, pitch, value, row_bytes, rows);
  if (!error) capture::add_fill_rows(to, pitch, value, row_bytes, rows, nullptr);
  return error;
}

int cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, int kind) {
  const int error = NEXT(cudaMemcpyToSymbol)(symbol, from, bytes, offset, kind);
  if (!error) capture::add_symbol_write(symbol, from, bytes, offset, kind, nullptr);
  return error;
}

int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, void* stream) {
  const int error = NEXT(cudaMemcpyToSymbolAsync)(symbol, from, bytes, offset, kind, stream);
  if (!error) capture::add_symbol_write(symbol, from, bytes, offset, kind, stream);
  return error;
}

int cudaStreamBeginCapture(void* stream, int mode) {
  const int error = NEXT(cudaStreamBeginCapture)(stream, mode);
  if (!error) ++capture::state().capturing;
  return error;
}

int cudaStreamEndCapture(void* stream, void** graph) {
  const int error = NEXT(cudaStreamEndCapture)(stream, graph);
  if (capture::state().capturing) --capture::state().capturing;
  if (!error) capture::state().graphs[*graph] = capture::state().captured;
  capture::state().captured.clear();
  return error;
}

int cudaGraphAddKernelNode(void** node, void* graph, void* const* before, size_t count,
                           const worker::KernelNode* wanted) {
  const int error = NEXT(cudaGraphAddKernelNode)(node, graph, before, count, wanted);
  if (!error)
    capture::add_node(graph, *node,
                      capture::encode_launch(wanted->function, capture::make_config(*wanted), wanted->arguments));
  return error;
}

int cudaGraphAddMemsetNode(void** node, void* graph, void* const* before, size_t count,
                           const worker::FillNode* wanted) {
  const int error = NEXT(cudaGraphAddMemsetNode)(node, graph, before, count, wanted);
  if (!error) capture::add_node(graph, *node, capture::encode_fill(*wanted));
  return error;
}

int cudaGraphAddMemcpyNode1D(void** node, void* graph, void* const* before, size_t count, void* to, const void* from,
                             size_t bytes, int kind) {
  const int error = NEXT(cudaGraphAddMemcpyNode1D)(node, graph, before, count, to, from, bytes, kind);
  if (!error) capture::add_node(graph, *node, capture::encode_copy(to, from, bytes, kind));
  return error;
}

int cudaGraphInstantiate(void** runnable, void* graph, unsigned long long flags) {
  const int error = NEXT(cudaGraphInstantiate)(runnable, graph, flags);
  if (!error) capture::state().runnable[*runnable] = capture::list_nodes(graph);
  return error;
}

int cudaGraphInstantiateWithFlags(void** runnable, void* graph, unsigned long long flags) {
  const int error = NEXT(cudaGraphInstantiateWithFlags)(runnable, graph, flags);
  if (!error) capture::state().runnable[*runnable] = capture::list_nodes(graph);
  return error;
}

int cudaGraphExecUpdate(void* runnable, void* graph, void* told) {
  const int error = NEXT(cudaGraphExecUpdate)(runnable, graph, told);
  if (!error) capture::state().runnable[runnable] = capture::list_nodes(graph);
  return error;
}

int cudaGraphExecKernelNodeSetParams(void* runnable, void* node, const worker::KernelNode* wanted) {
  const int error = NEXT(cudaGraphExecKernelNodeSetParams)(runnable, node, wanted);
  if (!error)
    capture::replace_executable_node(
        runnable, node, capture::encode_launch(wanted->function, capture::make_config(*wanted), wanted->arguments));
  return error;
}

int cudaGraphExecMemsetNodeSetParams(void* runnable, void* node, const worker::FillNode* wanted) {
  const int error = NEXT(cudaGraphExecMemsetNodeSetParams)(runnable, node, wanted);
  if (!error) capture::replace_executable_node(runnable, node, capture::encode_fill(*wanted));
  return error;
}

int cudaGraphExecMemcpyNodeSetParams1D(void* runnable, void* node, void* to, const void* from, size_t bytes, int kind) {
  const int error = NEXT(cudaGraphExecMemcpyNodeSetParams1D)(runnable, node, to, from, bytes, kind);
  if (!error) capture::replace_executable_node(runnable, node, capture::encode_copy(to, from, bytes, kind));
  return error;
}

int cudaGraphKernelNodeSetParams(void* node, const worker::KernelNode* wanted) {
  const int error = NEXT(cudaGraphKernelNodeSetParams)(node, wanted);
  if (!error)
    capture::replace_node(node,
                          capture::encode_launch(wanted->function, capture::make_config(*wanted), wanted->arguments));
  return error;
}

int cudaGraphMemsetNodeSetParams(void* node, const worker::FillNode* wanted) {
  const int error = NEXT(cudaGraphMemsetNodeSetParams)(node, wanted);
  if (!error) capture::replace_node(node, capture::encode_fill(*wanted));
  return error;
}

int cudaGraphMemcpyNodeSetParams1D(void* node, void* to, const void* from, size_t bytes, int kind) {
  const int error = NEXT(cudaGraphMemcpyNodeSetParams1D)(node, to, from, bytes, kind);
  if (!error) capture::replace_node(node, capture::encode_copy(to, from, bytes, kind));
  return error;
}

int cudaGraphLaunch(void* runnable, void* stream) {
  const int error = NEXT(cudaGraphLaunch)(runnable, stream);
  if (!error && capture::is_capturing(stream))
    capture::state().captured.push_back({nullptr, ""});  // a child graph launch in a stream capture is not supported
  if (!error && capture::is_ordered(stream)) {
    const auto found = capture::state().runnable.find(runnable);
    if (found == capture::state().runnable.end() || found->second.empty())
      capture::refuse("a graph whose creation was not captured");
    else
      for (const auto& one : found->second)
        capture::append_in_order(one.operation, stream, "an unsupported operation in a graph");
  }
  return error;
}

int cudaGraphCreate(void** graph, unsigned flags) {
  const int error = NEXT(cudaGraphCreate)(graph, flags);
  if (!error) capture::state().graphs[*graph].clear();
  return error;
}

int cudaGraphAddEmptyNode(void** node, void* graph, void* const* before, size_t count) {
  const int error = NEXT(cudaGraphAddEmptyNode)(node, graph, before, count);
  if (!error) capture::add_node(graph, *node, capture::encode_nothing());
  return error;
}

int cudaMalloc(void** address, size_t bytes) {
  void* const own = capture::allocate_block(bytes);
  if (!own) return NEXT(cudaMalloc)(address, bytes);
  *address = own;
  return 0;
}

int cudaMallocPitch(void** address, size_t* pitch, size_t row_bytes, size_t rows) {
  const size_t wide =
      row_bytes > capture::kMostServed ? 0 : (row_bytes + capture::kPitch - 1) / capture::kPitch * capture::kPitch;
  void* const own = wide ? capture::allocate_block(worker::span_of(wide, wide, rows)) : nullptr;
  if (!own) return NEXT(cudaMallocPitch)(address, pitch, row_bytes, rows);
  *address = own;
  *pitch = wide;
  return 0;
}

int cudaMallocAsync(void** address, size_t bytes, void* stream) {
  void* const own = capture::is_capturing(stream) ? nullptr : capture::allocate_block(bytes);
  if (!own) return NEXT(cudaMallocAsync)(address, bytes, stream);
  *address = own;
  return 0;
}

int cudaFree(void* address) {
  if (!capture::take_back_block(address)) return NEXT(cudaFree)(address);
  const int error = cudaDeviceSynchronize();  // cudaFree synchronizes the device
  capture::state().memory->release(address);
  return error;
}

int cudaFreeAsync(void* address, void* stream) {
  if (!capture::take_back_block(address)) return NEXT(cudaFreeAsync)(address, stream);
  capture::state().memory->release_later(address);
  return 0;
}

int cudaStreamCreate(void** stream) {
  const int error = NEXT(cudaStreamCreate)(stream);
  if (!error) capture::add_stream(*stream, 0);
  return error;
}

int cudaStreamCreateWithFlags(void** stream, unsigned flags) {
  const int error = NEXT(cudaStreamCreateWithFlags)(stream, flags);
  if (!error) capture::add_stream(*stream, flags);
  return error;
}

int cudaStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  const int error = NEXT(cudaStreamCreateWithPriority)(stream, flags, priority);
  if (!error) capture::add_stream(*stream, flags);
  return error;
}

int cudaEventCreate(void** event) {
  const int error = NEXT(cudaEventCreate)(event);
  if (!error) capture::state().order.add_event(*event);
  return error;
}

int cudaEventCreateWithFlags(void** event, unsigned flags) {
  const int error = NEXT(cudaEventCreateWithFlags)(event, flags);
  if (!error) capture::state().order.add_event(*event);
  return error;
}

int cudaEventRecord(void* event, void* stream) {
  const int error = NEXT(cudaEventRecord)(event, stream);
  if (!error && capture::is_ordered(stream)) capture::state().order.record_event(event, stream);
  return error;
}

int cudaEventRecordWithFlags(void* event, void* stream, unsigned flags) {
  const int error = NEXT(cudaEventRecordWithFlags)(event, stream, flags);
  if (!error && capture::is_ordered(stream)) capture::state().order.record_event(event, stream);
  return error;
}

int cudaStreamWaitEvent(void* stream, void* event, unsigned flags) {
  const int error = NEXT(cudaStreamWaitEvent)(stream, event, flags);
  if (!error && capture::is_ordered(stream)) capture::state().order.wait_event(stream, event);
  return error;
}

int cudaStreamSynchronize(void* stream) {
  const int error = NEXT(cudaStreamSynchronize)(stream);
  if (!error) capture::finish_stream(stream);
  return error;
}

int cudaStreamQuery(void* stream) {
  const int error = NEXT(cudaStreamQuery)(stream);
  if (!error) capture::finish_stream(stream);
  return error;
}

int cudaEventSynchronize(void* event) {
  const int error = NEXT(cudaEventSynchronize)(event);
  if (!error && capture::state().active) capture::state().order.finish_event(event);
  return error;
}

int cudaEventQuery(void* event) {
  const int error = NEXT(cudaEventQuery)(event);
  if (!error && capture::state().active) capture::state().order.finish_event(event);
  return error;
}

int cudaDeviceSynchronize() {
  const int error = NEXT(cudaDeviceSynchronize)();
  if (!error && capture::state().active) capture::state().order.finish_all();
  return error;
}
}
