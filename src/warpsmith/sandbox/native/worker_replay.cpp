#include "worker_replay.h"

#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>

#include "cuda_calls.h"

extern "C" {
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** module);
void __cudaRegisterFunction(void** module, const char* host, char* device, const char* name, int limit, void* thread, void* block, void* blocks, void* grid, int* warp);
void __cudaRegisterVar(void** module, char* host, char* device, const char* name, int external, size_t bytes, int constant, int global);
int cudaLaunchKernelExC(const worker::LaunchConfig* shape, const void* kernel, void** arguments);
int cudaFuncSetAttribute(const void* kernel, int attribute, int value);
int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, void* stream);
}

namespace worker {
namespace {

// What nvcc puts before a fat binary for the runtime.
struct Wrapper {
  int magic = 0x466243b1, version = 1;
  const void* data = nullptr;
  void* more = nullptr;
};

// The section of an ELF file with this name.
std::string section(const std::string& file, const char* name) {
  Elf64_Ehdr head{};
  if (file.size() < sizeof head) return "";
  std::memcpy(&head, file.data(), sizeof head);
  std::vector<Elf64_Shdr> all(head.e_shnum);
  if (head.e_shstrndx >= all.size() || head.e_shoff + all.size() * sizeof(Elf64_Shdr) > file.size()) return "";
  std::memcpy(all.data(), file.data() + head.e_shoff, all.size() * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& one : all) {
    const uint64_t at = all[head.e_shstrndx].sh_offset + one.sh_name;
    if (at < file.size() && std::strcmp(file.c_str() + at, name) == 0) return file.substr(std::min<uint64_t>(one.sh_offset, file.size()), one.sh_size);
  }
  return "";
}

std::string take_name(Reader* from) {
  const auto length = from->take<uint32_t>();
  const uint8_t* text = from->bytes(length);
  return text ? std::string(text, text + length) : "";
}

}  // namespace

std::string Replay::open(const std::string& artifact, Reader* from) {
  static Wrapper wrapper;  // the runtime keeps its address
  void** module = nullptr;
  if (!open_) {
    std::ifstream file(artifact, std::ios::binary);
    image_ = section({std::istreambuf_iterator<char>(file), {}}, ".nv_fatbin");
    if (image_.empty()) return "The artifact holds no device code.";
    wrapper.data = image_.data();
    module = __cudaRegisterFatBinary(&wrapper);
  }
  auto known = [&](const std::string& name) {
    auto [found, fresh] = handles_.try_emplace(name, nullptr);
    if (fresh) found->second = &tokens_.emplace_back();
    return std::pair(const_cast<char*>(found->first.c_str()), const_cast<char*>(static_cast<const char*>(found->second)));
  };
  for (auto count = from->take<uint32_t>(); count && from->good(); --count) {
    const auto [name, token] = known(take_name(from));
    if (module) __cudaRegisterFunction(module, token, name, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  }
  for (auto count = from->take<uint32_t>(); count && from->good(); --count) {
    const auto [name, token] = known(take_name(from));
    const auto bytes = from->take<uint64_t>();
    const auto constant = from->take<uint32_t>();
    if (module) __cudaRegisterVar(module, token, name, name, 0, bytes, int(constant), 0);
  }
  if (module) __cudaRegisterFatBinaryEnd(module);
  open_ = true;
  return "";
}

const void* Replay::handle(const std::string& name) const {
  auto found = handles_.find(name);
  return found == handles_.end() ? nullptr : found->second;
}

void Replay::read_kernel(Reader* from, Step* step) const {
  step->handle = handle(take_name(from));
  step->shape.grid = from->take<Extent>();
  step->shape.block = from->take<Extent>();
  step->shape.shared = from->take<uint32_t>();
  if (from->take<uint32_t>()) step->attributes.push_back({kCooperativeAttribute, 0, {.cooperative = 1}});
  const auto cluster = from->take<Extent>();
  if (cluster.x * cluster.y * cluster.z > 1) step->attributes.push_back({kClusterAttribute, 0, {.cluster = cluster}});
  step->sizes.resize(from->take<uint32_t>() % 4096);
  for (uint32_t& size : step->sizes) size = from->take<uint32_t>(), step->bytes += size;
}

void Replay::read(Reader* from, Step* step) const {
  step->kind = Operation(from->take<uint32_t>());
  switch (step->kind) {
    case kKernel: read_kernel(from, step); break;
    case kFill: step->to = from->take<uint64_t>(), step->value = int(from->take<uint32_t>()), step->bytes = from->take<uint64_t>(); return;
    case kCopy: step->to = from->take<uint64_t>(), step->from = from->take<uint64_t>(), step->bytes = from->take<uint64_t>(); return;
    case kAttribute: step->handle = handle(take_name(from)), step->attribute = from->take<int32_t>(), step->value = from->take<int32_t>(); return;
    case kBytes: step->to = from->take<uint64_t>(), step->bytes = from->take<uint32_t>(); break;
    case kBegin: return;
    case kSymbol: step->handle = handle(take_name(from)), step->to = from->take<uint64_t>(), step->bytes = from->take<uint32_t>(); break;
    default: from->bytes(~uint64_t(0)); return;  // no such kind: nothing more can be read
  }
  const uint8_t* data = from->bytes(step->bytes);
  if (data) step->data.assign(data, data + step->bytes);
}

std::string Replay::prepare(const std::string& artifact, Reader from, void* stream) {
  ready_ = false;
  steps_.clear();
  if (std::string fault = open(artifact, &from); !fault.empty()) return fault;
  while (from.good() && !from.whole()) {
    Step& step = steps_.emplace_back();
    read(&from, &step);
    for (uint64_t at = 0; uint32_t size : step.sizes) step.arguments.push_back(step.data.data() + at), at += size;
    step.shape.attributes = step.attributes.data();
    step.shape.count = unsigned(step.attributes.size());
    if (step.kind != kBegin) continue;
    if (int error = perform(stream)) return std::string("What was set before the call was refused: ") + cudaGetErrorName(error) + ".";
    steps_.clear();
  }
  if (!from.good()) return "A recording that cannot be read.";
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
    case kCopy: return cudaMemcpyAsync(to, reinterpret_cast<const void*>(step.from), step.bytes, kDeviceToDevice, stream);
    case kBytes: return cudaMemcpyAsync(to, step.data.data(), step.bytes, kHostToDevice, stream);
    case kSymbol: return cudaMemcpyToSymbolAsync(step.handle, step.data.data(), step.bytes, step.to, kHostToDevice, stream);
    case kAttribute: return cudaFuncSetAttribute(step.handle, step.attribute, step.value);
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
