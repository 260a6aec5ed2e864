#include "worker_replay.h"

#include <dlfcn.h>
#include <algorithm>
#include <cstring>

#include "cuda_calls.h"
#include "worker_image.h"
#include "worker_record.h"
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

// What nvcc puts before a fat binary for the runtime.
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

// The runtime copies as many bytes as a kernel's parameters have, and a text in the artifact may say that it has fewer.
bool are_all(const void* kernel, const std::vector<uint32_t>& sizes) {
  using Ask = int(const void*, size_t, size_t*, size_t*);
  static Ask* const ask =
      reinterpret_cast<Ask*>(dlsym(RTLD_DEFAULT, "cudaFuncGetParamInfo"));  // older runtimes lack it
  size_t at = 0, bytes = 0, count = 0;
  bool same = true;
  for (; ask && ask(kernel, count, &at, &bytes) == 0; ++count)
    same = same && count < sizes.size() && bytes == sizes[count];
  cudaGetLastError();  // the end of the list is an error
  return same;
}

}  // namespace

// Tells the runtime of the kernels and of all variables, as the candidate's own code would.
void Replay::enlist(const std::vector<std::string>& kernels) {
  static Wrapper wrapper;  // the runtime keeps its address
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
  for (const Variable& one : variables_of(image_)) {
    const auto [name, token] = known(one.name);
    variables_[one.name] = one.bytes;
    __cudaRegisterVar(module, token, name, name, 0, one.bytes, one.constant, 0);
  }
  __cudaRegisterFatBinaryEnd(module);
}

std::string Replay::open(const std::string& artifact, Reader* from) {
  std::vector<std::string> kernels;
  for (auto count = from->take<uint32_t>(); count && from->good(); --count) kernels.push_back(take_name(from));
  if (!open_) {
    const std::string file = contents_of(artifact);
    image_ = image_of(file);
    if (image_.empty()) return "The artifact does not hold one image of device code, as the compiler leaves it.";
    record::open(file);
    enlist(kernels);
  }
  open_ = true;
  return take_values(from) ? "" : "A recording that cannot be read.";
}

bool Replay::take_values(Reader* from) {
  values_.clear();
  for (auto count = from->take<uint32_t>(); count && from->good(); --count) {
    const auto found = variables_.find(take_name(from));
    const auto bytes = from->take<uint64_t>();
    const uint8_t* const data = from->bytes(bytes);
    if (!data) return false;
    if (found == variables_.end()) continue;  // no kernel of the machine code has it
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

bool Replay::find(const std::string& name, Step* step) const {
  auto found = handles_.find(name);
  step->handle = found == handles_.end() ? nullptr : found->second;
  return step->handle != nullptr;
}

bool Replay::read_kernel(Reader* from, Step* step) const {
  const std::string name = take_name(from);
  const std::vector<uint32_t>* expected = record::parameters(name);
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
  for (uint32_t& size : step->sizes) size = from->take<uint32_t>(), step->bytes += size;
  return expected && *expected == step->sizes && find(name, step) && are_all(step->handle, step->sizes);
}

bool Replay::read(Reader* from, const Arenas& arenas, Step* step) const {
  auto held = [&](uint64_t address) { return arenas.holds(address, step->bytes); };
  bool has_data = false, good = true;
  step->kind = Operation(from->take<uint32_t>());
  switch (step->kind) {
    case kNothing:
    case kBegin: break;
    case kKernel: good = read_kernel(from, step), has_data = true; break;
    case kFill:
      step->to = from->take<uint64_t>(), step->value = int(from->take<uint32_t>()),
      step->bytes = from->take<uint64_t>();
      good = held(step->to);
      break;
    case kCopy:
      step->to = from->take<uint64_t>(), step->from = from->take<uint64_t>(), step->bytes = from->take<uint64_t>();
      good = held(step->to) && held(step->from);
      break;
    case kRows:
      step->to = from->take<uint64_t>(), step->to_pitch = from->take<uint64_t>(), step->from = from->take<uint64_t>();
      step->from_pitch = from->take<uint64_t>(), step->bytes = from->take<uint64_t>(),
      step->rows = from->take<uint64_t>();
      good = arenas.holds(step->to, span_of(step->to_pitch, step->bytes, step->rows)) &&
             arenas.holds(step->from, span_of(step->from_pitch, step->bytes, step->rows));
      break;
    case kFillRows:
      step->to = from->take<uint64_t>(), step->to_pitch = from->take<uint64_t>(),
      step->value = int(from->take<uint32_t>());
      step->bytes = from->take<uint64_t>(), step->rows = from->take<uint64_t>();
      good = arenas.holds(step->to, span_of(step->to_pitch, step->bytes, step->rows));
      break;
    case kBytes:
      step->to = from->take<uint64_t>(), step->bytes = from->take<uint32_t>(), has_data = true;
      good = held(step->to);
      break;
    case kSymbol:
      good = find(take_name(from), step);
      step->offset = from->take<uint64_t>(), step->bytes = from->take<uint32_t>(), has_data = true;
      break;
    case kLookup:
      good = find(take_name(from), step);
      step->offset = from->take<uint64_t>(), step->from = from->take<uint64_t>(), step->bytes = from->take<uint64_t>();
      good = good && held(step->from);
      break;
    case kAttribute:
      good = find(take_name(from), step);
      step->attribute = from->take<int32_t>(), step->value = from->take<int32_t>();
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
  if (std::string fault = open(artifact, &from); !fault.empty()) return fault;
  while (!from.whole()) {
    Step& step = steps_.emplace_back();
    if (!read(&from, arenas, &step)) return "A recording that cannot be read.";
    if (step.kind == kBegin &&
        !std::all_of(steps_.begin(), steps_.end(), [](const Step& one) { return is_setting(one.kind); }))
      return "A recording that asks for work before its call.";
    for (uint64_t at = 0; uint32_t size : step.sizes) step.arguments.push_back(step.data.data() + at), at += size;
    step.shape.attributes = step.attributes.data();
    step.shape.count = unsigned(step.attributes.size());
    if (step.kind != kBegin) continue;
    int error = perform(stream);
    if (!error) error = cudaStreamSynchronize(stream);
    if (error) return std::string("What was set before the call was refused: ") + cudaGetErrorName(error) + ".";
    steps_.clear();
  }
  ready_ = true;
  return "";
}

int Replay::ask(const Step& step, void* stream) {
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
    if (int error = ask(step, stream)) return error;
  return 0;
}

}  // namespace worker
