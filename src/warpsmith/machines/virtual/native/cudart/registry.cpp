// Registration of modules, kernels and variables by the code that nvcc emits, and their lookup.
#include "registry.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

namespace standin {
namespace {

struct Wrapper {
  int magic, version;
  const uint8_t* fatbin;
  void* linked;
};

struct FatHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;
};

// Never destroyed: artifacts unregister themselves in atexit handlers, after static objects are destroyed.
struct Tables {
  std::recursive_mutex lock;
  std::vector<std::unique_ptr<Module>> modules;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::map<const void*, Kernel*> by_function;
  std::map<const void*, std::unique_ptr<Variable>> variables;
};

Tables& tables() {
  static Tables* made = new Tables;
  return *made;
}

bool load(Module* module) {
  if (module->number >= 0) return true;
  auto* wrapper = static_cast<const Wrapper*>(module->wrapper);
  if (!wrapper || !wrapper->fatbin) return false;
  FatHeader header;
  std::memcpy(&header, wrapper->fatbin, sizeof header);
  Result result = call_executor(Call::LoadModule, {}, wrapper->fatbin, header.header_bytes + header.bytes);
  if (!result.error) module->number = int(result.words[0]);
  return !result.error;
}

bool resolve(Kernel* kernel) {
  if (kernel->known) return true;
  if (!load(kernel->module)) return false;
  Result result =
      call_executor(Call::Function, {uint64_t(kernel->module->number)}, kernel->name.data(), kernel->name.size());
  if (result.error) return false;
  kernel->function = result.words[0];
  kernel->parameter_bytes = result.words[1];
  kernel->parameters.resize(result.bytes.size() / sizeof(Parameter));
  if (!result.bytes.empty())
    std::memcpy(kernel->parameters.data(), result.bytes.data(), kernel->parameters.size() * sizeof(Parameter));
  return kernel->known = true;
}

constexpr int kNoKernel = STANDIN_MAJOR >= 13 ? cuda::kInvalidResourceHandle : cuda::kInvalidDeviceFunction;

// Finds a kernel by host function, or by a handle from __cudaGetKernel.
Kernel* find_kernel(const void* function) {
  auto found = tables().by_function.find(function);
  if (found != tables().by_function.end()) return found->second;
  for (auto& kernel : tables().kernels)
    if (kernel.get() == function) return kernel.get();
  return nullptr;
}

}  // namespace

Kernel* kernel_of(const void* function) {
  std::lock_guard<std::recursive_mutex> hold(tables().lock);
  Kernel* kernel = find_kernel(function);
  if (!kernel) set_last_error(kNoKernel);
  return kernel && resolve(kernel) ? kernel : nullptr;
}

Variable* variable_of(const void* symbol) {
  std::lock_guard<std::recursive_mutex> hold(tables().lock);
  auto found = tables().variables.find(symbol);
  if (found == tables().variables.end()) {
    set_last_error(cuda::kInvalidSymbol);
    return nullptr;
  }
  Variable* variable = found->second.get();
  if (variable->address) return variable;
  if (!load(variable->module)) return nullptr;
  Result result =
      call_executor(Call::Symbol, {uint64_t(variable->module->number)}, variable->name.data(), variable->name.size());
  if (result.error) return nullptr;
  variable->address = result.words[0];
  variable->bytes = result.words[1];
  return variable;
}

const void* function_by_number(uint64_t function) {
  std::lock_guard<std::recursive_mutex> hold(tables().lock);
  for (auto& [pointer, kernel] : tables().by_function)
    if (kernel->known && kernel->function == function) return pointer;
  return nullptr;
}

std::vector<uint8_t> packed(const Kernel& kernel, void** arguments) {
  std::vector<uint8_t> bytes(kernel.parameter_bytes);
  for (size_t i = 0; i < kernel.parameters.size(); ++i)
    std::memcpy(bytes.data() + kernel.parameters[i].offset, arguments[i], kernel.parameters[i].bytes);
  return bytes;
}

}  // namespace standin

using namespace standin;

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  std::lock_guard<std::recursive_mutex> hold(tables().lock);
  tables().modules.push_back(std::make_unique<Module>());
  tables().modules.back()->wrapper = wrapper;
  return reinterpret_cast<void**>(tables().modules.back().get());
}

void __cudaRegisterFatBinaryEnd(void**) {}
char __cudaInitModule(void**) { return 1; }

// Runs at exit or when the library is closed. It sends no request, because the executor may have ended.
void __cudaUnregisterFatBinary(void** handle) {
  std::lock_guard<std::recursive_mutex> hold(tables().lock);
  auto* module = reinterpret_cast<Module*>(handle);
  std::erase_if(tables().by_function, [&](auto& entry) { return entry.second->module == module; });
  std::erase_if(tables().variables, [&](auto& entry) { return entry.second->module == module; });
}

void __cudaRegisterFunction(void** handle, const char* function, char*, const char* name, int, void*, void*, void*,
                            void*, int*) {
  std::lock_guard<std::recursive_mutex> hold(tables().lock);
  tables().kernels.push_back(std::make_unique<Kernel>());
  Kernel* kernel = tables().kernels.back().get();
  kernel->module = reinterpret_cast<Module*>(handle);
  kernel->name = name;
  tables().by_function[function] = kernel;
}

void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t, int, int) {
  std::lock_guard<std::recursive_mutex> hold(tables().lock);
  auto variable = std::make_unique<Variable>();
  variable->module = reinterpret_cast<Module*>(handle);
  variable->name = name;
  tables().variables[host] = std::move(variable);
}

int cudaGetSymbolAddress(void** address, const void* symbol) {
  Variable* variable = variable_of(symbol);
  if (!variable) return last_error(false);
  *address = reinterpret_cast<void*>(variable->address);
  return cuda::kSuccess;
}

int cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  Variable* variable = variable_of(symbol);
  if (!variable) return last_error(false);
  *bytes = variable->bytes;
  return cuda::kSuccess;
}

// Sends no request, because it runs in static initializers too.
int __cudaGetKernel(void** kernel, const void* function) {
  std::lock_guard<std::recursive_mutex> hold(tables().lock);
  *kernel = find_kernel(function);
  return *kernel ? cuda::kSuccess : set_last_error(kNoKernel);
}

int cudaGetKernel(void** kernel, const void* function) { return __cudaGetKernel(kernel, function); }
int cudaGetFuncBySymbol(void** kernel, const void* function) { return __cudaGetKernel(kernel, function); }

int cudaFuncGetName(const char** name, const void* function) {
  Kernel* kernel = kernel_of(function);
  if (!kernel) return last_error(false);
  *name = kernel->name.c_str();
  return cuda::kSuccess;
}

int cudaFuncGetParamInfo(const void* function, size_t index, size_t* offset, size_t* bytes) {
  Kernel* kernel = kernel_of(function);
  if (!kernel) return last_error(false);
  if (index >= kernel->parameters.size()) return set_last_error(cuda::kInvalidValue);
  *offset = kernel->parameters[index].offset;
  if (bytes) *bytes = kernel->parameters[index].bytes;
  return cuda::kSuccess;
}

}  // extern "C"
