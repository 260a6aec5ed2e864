// Parsing of a capture, whose every field is checked, and submission of its operations.
#include "worker_replay.h"

#include <dlfcn.h>
#include <algorithm>
#include <cstring>

#include "cuda_calls.h"
#include "worker_capture.h"
#include "worker_image.h"
#include "worker_variables.h"

extern "C" {
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** module);
void __cudaRegisterFunction(void** module, const char* host, char* device, const char* name, int limit, void* thread,
                            void* block, void* blocks, void* grid, int* warp);
void __cudaRegisterVar(void** module, char* host, char* device, const char* name, int external, size_t bytes,
                       int constant, int global);
int cudaLaunchKernelExC(const worker::LaunchConfig* shape, const void* kernel, void** arguments);
int cudaFuncSetAttribute(const void* kernel, int attribute, int value);
int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, void* stream);
int cudaGetLastError();
}

namespace worker {
namespace {

// The wrapper that nvcc emits around a fat binary for the runtime.
struct Wrapper {
  int magic = 0x466243b1, version = 1;
  const void* data = nullptr;
  void* more = nullptr;
};

std::string take_name(Reader* from) {
  const auto length = from->take<uint32_t>();
  const uint8_t* text = from->bytes(length);
  return text ? std::string(text, text + length) : "";
}

// The runtime copies as many bytes as the machine code declares for the parameters. The PTX text in the artifact may
// declare fewer, and the runtime would then read beyond the captured arguments.
bool match_parameters(const void* kernel, const std::vector<uint32_t>& sizes) {
  using ParameterInfo = int(const void*, size_t, size_t*, size_t*);
  // Runtimes before CUDA 12.4 lack the function.
  static ParameterInfo* const parameter_info =
      reinterpret_cast<ParameterInfo*>(dlsym(RTLD_DEFAULT, "cudaFuncGetParamInfo"));
  size_t at = 0, bytes = 0, count = 0;
  bool same = true;
  for (; parameter_info && parameter_info(kernel, count, &at, &bytes) == 0; ++count)
    same = same && count < sizes.size() && bytes == sizes[count];
  cudaGetLastError();  // clears the error that ends the list
  return same;
}

}  // namespace

// Registers all kernels and variables with the runtime, as the constructors in the candidate's host code would.
void Replay::register_code(const std::vector<std::string>& kernels) {
  static Wrapper wrapper;  // static: the runtime keeps its address
  wrapper.data = image_.data();
  void** const module = __cudaRegisterFatBinary(&wrapper);
  auto known = [&](const std::string& name) {
    auto [found, fresh] = handles_.try_emplace(name, nullptr);
    if (fresh) found->second = &tokens_.emplace_back();
    return std::pair(const_cast<char*>(found->first.c_str()), static_cast<char*>(const_cast<void*>(found->second)));
  };
  for (const std::string& kernel : kernels) {
    const auto [name, token] = known(kernel);
    __cudaRegisterFunction(module, token, name, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  }
  for (const Variable& one : list_variables(image_)) {
    const auto [name, token] = known(one.name);
    variables_[one.name] = one.bytes;
    __cudaRegisterVar(module, token, name, name, 0, one.bytes, one.constant, 0);
  }
  __cudaRegisterFatBinaryEnd(module);
}

std::string Replay::load_image(const std::string& artifact, Reader* from) {
  std::vector<std::string> kernels;
  for (auto count = from->take<uint32_t>(); count && from->good(); --count) kernels.push_back(take_name(from));
  if (!open_) {
    const std::string file = read_file(artifact);
    image_ = extract_image(file);
    if (image_.empty()) return "The artifact does not hold exactly one image of device code as the compiler embeds it.";
    capture::open(file);
    register_code(kernels);
  }
  open_ = true;
  return read_variables(from) ? "" : "The capture cannot be parsed.";
}

bool Replay::read_variables(Reader* from) {
  values_.clear();
  for (auto count = from->take<uint32_t>(); count && from->good(); --count) {
    const auto found = variables_.find(take_name(from));
    const auto bytes = from->take<uint64_t>();
    const uint8_t* const data = from->bytes(bytes);
    if (!data) return false;
    if (found == variables_.end()) continue;  // no kernel of the machine code uses it
    if (found->second != bytes) return false;
    values_.emplace_back(handles_.at(found->first), std::string(data, data + bytes));
  }
  return from->good();
}

int Replay::restore(void* stream) const {
  int error = 0;
  for (const auto& [symbol, bytes] : values_)
    if (!error) error = cudaMemcpyToSymbolAsync(symbol, bytes.data(), bytes.size(), 0, kHostToDevice, stream);
  return error ? error : cudaStreamSynchronize(stream);
}

bool Replay::find_handle(const std::string& name, Step* step) const {
  auto found = handles_.find(name);
  step->handle = found == handles_.end() ? nullptr : found->second;
  return step->handle != nullptr;
}

bool Replay::read_kernel(Reader* from, Step* step) const {
  const std::string name = take_name(from);
  const std::vector<uint32_t>* expected = capture::parameters(name);
  step->shape.grid = from->take<Extent>();
  step->shape.block = from->take<Extent>();
  step->shape.shared = from->take<uint32_t>();
  for (auto count = from->take<uint32_t>(); count && from->good(); --count) {
    LaunchAttribute& one = step->attributes.emplace_back();
    one.id = int(from->take<uint32_t>());
    if (const uint8_t* value = from->bytes(kAttributeBytes)) std::memcpy(one.bytes, value, kAttributeBytes);
    if (!is_kept(one.id)) return false;
  }
  step->sizes.resize(from->take<uint32_t>() % 4096);
  for (uint32_t& size : step->sizes) {
    size = from->take<uint32_t>();
    step->bytes += size;
  }
  return expected && *expected == step->sizes && find_handle(name, step) && match_parameters(step->handle, step->sizes);
}

bool Replay::read_step(Reader* from, const Arenas& arenas, Step* step) const {
  auto is_shared = [&](uint64_t address) { return arenas.contains(address, step->bytes); };
  bool has_data = false, good = true;
  step->kind = Operation(from->take<uint32_t>());
  switch (step->kind) {
    case kNothing:
    case kBegin: break;
    case kKernel:
      good = read_kernel(from, step);
      has_data = true;
      break;
    case kFill:
      step->to = from->take<uint64_t>();
      step->value = int(from->take<uint32_t>());
      step->bytes = from->take<uint64_t>();
      good = is_shared(step->to);
      break;
    case kCopy:
      step->to = from->take<uint64_t>();
      step->from = from->take<uint64_t>();
      step->bytes = from->take<uint64_t>();
      good = is_shared(step->to) && is_shared(step->from);
      break;
    case kRows:
      step->to = from->take<uint64_t>();
      step->to_pitch = from->take<uint64_t>();
      step->from = from->take<uint64_t>();
      step->from_pitch = from->take<uint64_t>();
      step->bytes = from->take<uint64_t>();
      step->rows = from->take<uint64_t>();
      good = arenas.contains(step->to, span_of(step->to_pitch, step->bytes, step->rows)) &&
             arenas.contains(step->from, span_of(step->from_pitch, step->bytes, step->rows));
      break;
    case kFillRows:
      step->to = from->take<uint64_t>();
      step->to_pitch = from->take<uint64_t>();
      step->value = int(from->take<uint32_t>());
      step->bytes = from->take<uint64_t>();
      step->rows = from->take<uint64_t>();
      good = arenas.contains(step->to, span_of(step->to_pitch, step->bytes, step->rows));
      break;
    case kBytes:
      step->to = from->take<uint64_t>();
      step->bytes = from->take<uint32_t>();
      has_data = true;
      good = is_shared(step->to);
      break;
    case kSymbol:
      good = find_handle(take_name(from), step);
      step->offset = from->take<uint64_t>();
      step->bytes = from->take<uint32_t>();
      has_data = true;
      break;
    case kLookup:
      good = find_handle(take_name(from), step);
      step->offset = from->take<uint64_t>();
      step->from = from->take<uint64_t>();
      step->bytes = from->take<uint64_t>();
      good = good && is_shared(step->from);
      break;
    case kAttribute:
      good = find_handle(take_name(from), step);
      step->attribute = from->take<int32_t>();
      step->value = from->take<int32_t>();
      break;
    default: return false;
  }
  const uint8_t* data = has_data ? from->bytes(step->bytes) : nullptr;
  if (data) step->data.assign(data, data + step->bytes);
  return good && from->good();
}

std::string Replay::prepare(const std::string& artifact, Reader from, const Arenas& arenas, void* stream) {
  ready_ = false;
  steps_.clear();
  if (std::string reason = load_image(artifact, &from); !reason.empty()) return reason;
  while (!from.whole()) {
    Step& step = steps_.emplace_back();
    if (!read_step(&from, arenas, &step)) return "The capture cannot be parsed.";
    if (step.kind == kBegin &&
        !std::all_of(steps_.begin(), steps_.end(), [](const Step& one) { return is_setting(one.kind); }))
      return "The capture submits work before its call.";
    uint64_t at = 0;
    for (uint32_t size : step.sizes) {
      step.arguments.push_back(step.data.data() + at);
      at += size;
    }
    step.shape.attributes = step.attributes.data();
    step.shape.count = unsigned(step.attributes.size());
    if (step.kind != kBegin) continue;
    int error = perform(stream);
    if (!error) error = cudaStreamSynchronize(stream);
    if (error) return std::string("A setting that precedes the call failed: ") + cudaGetErrorName(error) + ".";
    steps_.clear();
  }
  ready_ = true;
  return "";
}

int Replay::issue(const Step& step, void* stream) {
  void* const to = reinterpret_cast<void*>(step.to);
  switch (step.kind) {
    case kKernel: {
      LaunchConfig shape = step.shape;
      shape.stream = stream;
      return cudaLaunchKernelExC(&shape, step.handle, const_cast<void**>(step.arguments.data()));
    }
    case kFill: return cudaMemsetAsync(to, step.value, step.bytes, stream);
    case kCopy:
      return cudaMemcpyAsync(to, reinterpret_cast<const void*>(step.from), step.bytes, kDeviceToDevice, stream);
    case kRows:
      return cudaMemcpy2DAsync(to, step.to_pitch, reinterpret_cast<const void*>(step.from), step.from_pitch, step.bytes,
                               step.rows, kDeviceToDevice, stream);
    case kFillRows: return cudaMemset2DAsync(to, step.to_pitch, step.value, step.bytes, step.rows, stream);
    case kBytes: return cudaMemcpyAsync(to, step.data.data(), step.bytes, kHostToDevice, stream);
    case kSymbol:
      return cudaMemcpyToSymbolAsync(step.handle, step.data.data(), step.bytes, step.offset, kHostToDevice, stream);
    case kLookup:
      return cudaMemcpyToSymbolAsync(step.handle, reinterpret_cast<const void*>(step.from), step.bytes, step.offset,
                                     kDeviceToDevice, stream);
    case kAttribute: return cudaFuncSetAttribute(step.handle, step.attribute, step.value);
    case kNothing:
    case kBegin: return 0;
  }
  return 0;
}

int Replay::perform(void* stream) const {
  for (const Step& step : steps_)
    if (int error = issue(step, stream)) return error;
  return 0;
}

}  // namespace worker
