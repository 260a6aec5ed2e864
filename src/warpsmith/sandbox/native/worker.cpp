// The worker: loads an artifact and calls it, on a GPU or on the virtual one. What it answers is a claim.
// It knows no reference, no tolerance and no clock that counts.
#include <chrono>
#include <dlfcn.h>
#include <string>

#include "frames.h"
#include "worker_memory.h"
#include "worker_values.h"

namespace {

using namespace worker;
namespace frames = warpsmith::frames;

constexpr int kRequests = 3, kAnswers = 4;

struct Artifact {
  int (*abi)() = nullptr;
  int (*entries)(const WsEntry**) = nullptr;
  int (*call)(const char*, const WsHost*, const WsValue*, int, WsValue*, int) = nullptr;
};

struct Outcome {
  int32_t status = kDone, cuda_error = 0;
  double seconds = 0;
  std::string text;
  uint32_t count = 0;
  Writer values;
};

void answer(Kind kind, const Outcome& outcome) {
  Writer out;
  out.put(outcome.status);
  out.put(outcome.cuda_error);
  out.put(outcome.seconds);
  out.put(uint32_t(outcome.text.size()));
  out.put(outcome.count);
  out.bytes(outcome.text.data(), outcome.text.size());
  out.bytes(outcome.values.out().data(), outcome.values.out().size());
  frames::write_frame(kAnswers, kind, out.out());
}

Outcome failure(int32_t status, std::string text) {
  Outcome outcome;
  outcome.status = status;
  outcome.text = std::move(text);
  return outcome;
}

Outcome cuda_failure(int error, const std::string& when) {
  Outcome outcome = failure(kCudaError, std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ") " + when + ".");
  outcome.cuda_error = error;
  return outcome;
}

template <class F>
bool look_up(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

Outcome load(const std::string& path, Artifact* artifact) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return failure(kNoLoad, dlerror());
  bool whole = look_up(library, "warpsmith_abi", &artifact->abi) && look_up(library, "warpsmith_entries", &artifact->entries) &&
               look_up(library, "warpsmith_call", &artifact->call);
  if (!whole) return failure(kNoLoad, "The artifact lacks warpsmith_abi, warpsmith_entries or warpsmith_call.");
  int version = artifact->abi();
  if (version != WARPSMITH_ABI)
    return failure(kOtherAbi, "The artifact speaks ABI " + std::to_string(version) + "; the worker speaks " + std::to_string(WARPSMITH_ABI) + ".");
  return {};
}

// Puts each tensor where the candidate finds it: at the judge's address, or in memory made here.
int place(Arguments* arguments, Memory* memory) {
  for (Held& held : arguments->held) {
    uint64_t span = 0;
    if (held.address) {
      if (extent(held.tensor, &span)) memory->know(held.address, span);
      held.tensor.data = reinterpret_cast<void*>(held.address);
      continue;
    }
    held.tensor.data = memory->allocate(held.length);
    if (!held.tensor.data) return 2;  // cudaErrorMemoryAllocation
    if (int error = held.length ? cudaMemcpy(held.tensor.data, held.bytes, held.length, kHostToDevice) : 0) return error;
  }
  return 0;
}

std::string fault_of(const WsValue& value, const Memory& memory) {
  if (value.kind != WS_TENSOR || !value.as.tensor) return "is not a tensor";
  const DLTensor& tensor = *value.as.tensor;
  uint64_t bytes = 0;
  if (tensor.device.device_type != 2) return "is not on the device";
  if (!extent(tensor, &bytes)) return "has sizes or strides that no tensor has";
  uint64_t start = uint64_t(tensor.data) + tensor.byte_offset;
  if (bytes && !memory.contains(start, bytes)) return "does not lie in memory that the evaluator gave";
  return "";
}

int give_back(const DLTensor& tensor, void* stream, bool with_bytes, Writer* to) {
  uint64_t span = 0, start = uint64_t(tensor.data) + tensor.byte_offset;
  extent(tensor, &span);
  std::vector<uint8_t> bytes(with_bytes ? span : 0);
  int error = 0;
  if (!bytes.empty()) error = cudaMemcpyAsync(bytes.data(), reinterpret_cast<void*>(start), span, kDeviceToHost, stream);
  if (!error) error = cudaStreamSynchronize(stream);
  if (!error) write_tensor(to, tensor, start, bytes);
  return error;
}

Outcome gather(const WsValue* results, int count, const Memory& memory, void* stream, bool with_bytes) {
  Outcome outcome;
  for (int i = 0; i < count; ++i) {
    if (std::string fault = fault_of(results[i], memory); !fault.empty())
      return failure(kBadResult, "Result " + std::to_string(i) + " " + fault + ".");
    if (int error = give_back(*results[i].as.tensor, stream, with_bytes, &outcome.values)) return cuda_failure(error, "when the results were read");
  }
  outcome.count = uint32_t(count);
  return outcome;
}

Outcome invoke(const Artifact& artifact, const std::string& name, Arguments* arguments, Memory* memory, void* stream, bool with_bytes) {
  if (int error = place(arguments, memory)) return cuda_failure(error, "when the arguments were placed");
  WsHost host = lend(memory, stream);
  WsValue results[kMostResults] = {};
  auto begin = std::chrono::steady_clock::now();
  int count = artifact.call(name.c_str(), &host, arguments->values.data(), int(arguments->values.size()), results, kMostResults);
  int error = cudaStreamSynchronize(stream);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  Outcome outcome;
  if (count < 0) outcome = failure(count, memory->complaint());
  else if (count > kMostResults) outcome = failure(WS_TOO_MANY_RESULTS, "More than " + std::to_string(kMostResults) + " results.");
  else if (error) outcome = cuda_failure(error, "at the end of the call");
  else if (int left = cudaGetLastError()) outcome = cuda_failure(left, "left behind by a call that nobody looked at");
  else outcome = gather(results, count, *memory, stream, with_bytes);
  if (error && !outcome.cuda_error) outcome.cuda_error = error;
  outcome.seconds = seconds;
  return outcome;
}

Outcome call(const Artifact& artifact, const frames::Frame& frame, Memory* memory, void* stream) {
  Reader from(frame.payload.data(), frame.payload.size());
  auto flags = from.take<uint32_t>(), length = from.take<uint32_t>(), count = from.take<uint32_t>();
  const uint8_t* name = from.bytes(length);
  Arguments arguments;
  if (!name || !read_values(&from, count, &arguments) || !from.whole()) return failure(kBadRequest, "A call that cannot be read.");
  if (!artifact.call) return failure(kBadRequest, "No artifact is loaded.");
  try {
    return invoke(artifact, std::string(name, name + length), &arguments, memory, stream, flags & kReturnBytes);
  } catch (...) {
    return failure(kThrew, "An exception came out of warpsmith_call.");
  }
}

}  // namespace

int main() {
  Artifact artifact;
  Memory memory;
  void* stream = nullptr;
  // A stream of its own, but one that the legacy default stream is ordered with: kernels launched without a
  // stream are then joined as they are under torch, and a side stream without a join is not.
  int ready = cudaSetDevice(0);
  if (!ready) ready = cudaStreamCreate(&stream);
  frames::Frame frame;
  while (frames::read_frame(kRequests, &frame, kMostFrameBytes) == frames::Fault::kNone) {
    if (frame.kind == kLeave) break;
    Outcome outcome = failure(kBadRequest, "A frame of kind " + std::to_string(frame.kind) + ".");
    if (ready) outcome = cuda_failure(ready, "when the device was opened");
    else if (frame.kind == kLoad) outcome = load(std::string(frame.payload.begin(), frame.payload.end()), &artifact);
    else if (frame.kind == kCall) outcome = call(artifact, frame, &memory, stream);
    answer(frame.kind == kLoad ? worker::kLoaded : worker::kResult, outcome);
    memory.end_call();
  }
  _exit(0);  // no destructors of the candidate's after the last answer
}
