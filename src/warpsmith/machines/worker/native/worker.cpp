// The worker: loads an artifact and calls it, on a GPU or on the virtual GPU. It is the only process that runs
// candidate code, so the evaluator process trusts none of its answers. It holds no reference, no tolerance and no
// secret seed.
#include <dlfcn.h>
#include <poll.h>
#include <chrono>
#include <cstdlib>
#include <string>

#include "frames.h"
#include "seccomp.h"
#include "worker_capture.h"
#include "worker_gate.h"
#include "worker_memory.h"
#include "worker_replay.h"
#include "worker_values.h"

// Size of the restartable-sequence area of glibc 2.35 and later. The kernel moves a preempted thread to an address that
// this area names, which would let a candidate regain control after its call.
extern "C" __attribute__((weak)) const unsigned int __rseq_size;

namespace {

using namespace worker;
namespace frames = warpsmith::frames;

constexpr int kRequests = 3, kAnswers = 4;
constexpr double kSpin_us = 50e3;

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
  Writer head, values;  // the fields that precede a TIMED frame; the results
};

// A call that waits for GO. It owns the frame that its values point into.
struct Armed {
  frames::Frame frame;
  std::string name;
  uint32_t flags = 0;
  Arguments arguments;
};

struct Device {
  void *stream = nullptr, *begin = nullptr, *end = nullptr;
  Memory memory;
  Arenas arenas;
  Gate gate;
  Replay replay;                  // if ready, every call replays the capture
  std::vector<uint64_t> results;  // blocks with the results of the last call, kept until the next call
};

void answer(Kind kind, const Outcome& outcome) {
  Writer out;
  out.bytes(outcome.head.out().data(), outcome.head.out().size());
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
  Outcome outcome =
      failure(kCudaError, std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ") " + when + ".");
  outcome.cuda_error = error;
  return outcome;
}

template <class F>
bool look_up(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

Outcome load(const std::string& path, Artifact* artifact) {
  capture::open(read_file(path));
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return failure(kNoLoad, dlerror());
  bool whole = look_up(library, "warpsmith_abi", &artifact->abi) &&
               look_up(library, "warpsmith_entries", &artifact->entries) &&
               look_up(library, "warpsmith_call", &artifact->call);
  if (!whole) return failure(kNoLoad, "The artifact lacks warpsmith_abi, warpsmith_entries or warpsmith_call.");
  int version = artifact->abi();
  if (version != WARPSMITH_ABI)
    return failure(kOtherAbi, "The artifact speaks ABI " + std::to_string(version) + "; the worker speaks " +
                                  std::to_string(WARPSMITH_ABI) + ".");
  return {};
}

// Gives each tensor its address: the one in a shared arena, or fresh device memory with a copy of the bytes.
int place_arguments(Arguments* arguments, const Arenas& arenas, Memory* memory) {
  for (Held& held : arguments->held) {
    uint64_t span = 0;
    if (held.address && arenas.is_open()) held.address = arenas.decode(held.address);
    if (held.address) {
      if (extent(held.tensor, &span)) memory->add_range(held.address, span);
      held.tensor.data = reinterpret_cast<void*>(held.address);
      continue;
    }
    held.tensor.data = memory->allocate(held.length);
    if (!held.tensor.data) return 2;  // cudaErrorMemoryAllocation
    if (int error = held.length ? cudaMemcpy(held.tensor.data, held.bytes, held.length, kHostToDevice) : 0)
      return error;
  }
  return 0;
}

std::string describe_defect(const WsValue& value, const Memory& memory) {
  if (value.kind != WS_TENSOR || !value.as.tensor) return "is not a tensor";
  const DLTensor& tensor = *value.as.tensor;
  uint64_t bytes = 0;
  if (tensor.device.device_type != 2) return "is not on the device";
  if (!extent(tensor, &bytes)) return "has sizes or strides that no tensor has";
  uint64_t start = uint64_t(tensor.data) + tensor.byte_offset;
  if (bytes && !memory.contains(start, bytes)) return "does not lie in memory that the evaluator gave";
  return "";
}

int write_result(const DLTensor& tensor, const Device& device, bool with_bytes, Writer* to) {
  uint64_t span = 0, start = uint64_t(tensor.data) + tensor.byte_offset;
  extent(tensor, &span);
  std::vector<uint8_t> bytes(with_bytes ? span : 0);
  int error = 0;
  if (!bytes.empty())
    error = cudaMemcpyAsync(bytes.data(), reinterpret_cast<void*>(start), span, kDeviceToHost, device.stream);
  if (!error && with_bytes) error = cudaStreamSynchronize(device.stream);
  if (!error) write_tensor(to, tensor, device.arenas.is_open() ? device.arenas.encode(start) : start, bytes);
  return error;
}

Outcome collect_results(const WsValue* results, int count, const Device& device, bool with_bytes) {
  Outcome outcome;
  for (int i = 0; i < count; ++i) {
    if (std::string defect = describe_defect(results[i], device.memory); !defect.empty())
      return failure(kBadResult, "Result " + std::to_string(i) + " " + defect + ".");
    if (int error = write_result(*results[i].as.tensor, device, with_bytes, &outcome.values))
      return cuda_failure(error, "when the results were read");
  }
  outcome.count = uint32_t(count);
  return outcome;
}

// Returns the outcome of a call after the device has finished it.
Outcome finish_call(int count, int error, const WsValue* results, const Device& device, bool with_bytes) {
  Outcome outcome;
  if (count < 0) outcome = failure(count, device.memory.complaint());
  else if (count > kMostResults)
    outcome = failure(WS_TOO_MANY_RESULTS, "More than " + std::to_string(kMostResults) + " results.");
  else if (error) outcome = cuda_failure(error, "at the end of the call");
  else if (int left = cudaGetLastError())
    outcome = cuda_failure(left, "left by a CUDA call whose error was not checked");
  else outcome = collect_results(results, count, device, with_bytes);
  if (error && !outcome.cuda_error) outcome.cuda_error = error;
  return outcome;
}

int make_call(const Artifact& artifact, const Armed& armed, Device* device, WsValue* results) {
  if (device->replay.is_ready()) {
    device->replay.perform(device->stream);  // finish_call finds an error through cudaGetLastError
    return 0;
  }
  const WsHost host = make_host(&device->memory, device->stream);
  return artifact.call(armed.name.c_str(), &host, armed.arguments.values.data(), int(armed.arguments.values.size()),
                       results, kMostResults);
}

double elapsed_us(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from).count();
}

Outcome invoke(const Artifact& artifact, Armed* armed, Device* device) {
  if (int error = place_arguments(&armed->arguments, device->arenas, &device->memory))
    return cuda_failure(error, "when the arguments were placed");
  if (int error = device->replay.is_ready() ? device->replay.restore(device->stream) : 0)
    return cuda_failure(error, "when variables were set");
  WsValue results[kMostResults] = {};
  if (armed->flags & kCaptureCall) capture::begin(device->stream);
  auto begin = std::chrono::steady_clock::now();
  int count = make_call(artifact, *armed, device, results);
  capture::end();
  int error = cudaStreamSynchronize(device->stream);
  double seconds = elapsed_us(begin) / 1e6;
  Outcome outcome = finish_call(count, error, results, *device, armed->flags & kReturnBytes);
  outcome.seconds = seconds;
  return outcome;
}

Outcome read_call(const Artifact& artifact, const Device& device, Armed* armed) {
  Reader from(armed->frame.payload.data(), armed->frame.payload.size());
  armed->flags = from.take<uint32_t>();
  auto length = from.take<uint32_t>(), count = from.take<uint32_t>();
  const uint8_t* name = from.bytes(length);
  if (!name || !read_values(&from, count, &armed->arguments) || !from.whole())
    return failure(kBadRequest, "The call cannot be parsed.");
  if (!artifact.call && !device.replay.is_ready()) return failure(kBadRequest, "No artifact is loaded.");
  armed->name.assign(name, name + length);
  return {};
}

Outcome call(const Artifact& artifact, const frames::Frame& frame, Device* device) {
  Armed armed{frame, {}, 0, {}};
  if (Outcome read = read_call(artifact, *device, &armed); read.status != kDone) return read;
  try {
    return invoke(artifact, &armed, device);
  } catch (...) {
    return failure(kThrew, "An exception came out of warpsmith_call.");
  }
}

// A profiler or sanitizer inside this process needs system calls that the filter forbids. The parent sets the variable
// before it loads a candidate.
bool is_under_tool() { return getenv("WARPSMITH_UNDER_TOOL") != nullptr; }

Outcome install_filter(warpsmith::seccomp::Phase phase) {
  if (is_under_tool() || warpsmith::seccomp::install_worker(phase)) return {};
  return failure(kBadRequest, "The worker's seccomp filter was refused.");
}

// Maps the shared memory. The seccomp filter that follows allows only the system calls that loading and computing need.
Outcome map_shared(const frames::Frame& frame, Device* device) {
  Reader from(frame.payload.data(), frame.payload.size());
  std::vector<Shared> shared(from.take<uint32_t>() % 64);
  for (Shared& one : shared) one = {from.take<int32_t>(), from.take<uint64_t>(), from.take<uint64_t>()};
  if (!from.whole() || shared.size() != kArenas)
    return failure(kBadRequest, "The description of the shared memory cannot be parsed.");
  if (std::string reason = device->arenas.map(shared); !reason.empty()) return failure(kBadRequest, reason);
  if (std::string reason = device->gate.prepare(); !reason.empty()) return failure(kBadRequest, reason);
  if (int error = cudaEventCreate(&device->begin)) return cuda_failure(error, "when the events were created");
  if (int error = cudaEventCreate(&device->end)) return cuda_failure(error, "when the events were created");
  device->memory.use_arenas(device->arenas);
  capture::use_memory(&device->memory, &device->arenas);
  return install_filter(warpsmith::seccomp::Phase::kLoading);
}

// The evaluator process used the device last, and this process slept. The steps of a timed call run twice without a
// call, so that the device has switched to this context and the driver's code is in the caches. The measured time then
// does not depend on the pause before it.
int wake_device(Device* device) {
  for (int round = 0; round < 2; ++round) {
    if (int error = device->gate.close(device->stream)) return error;
    cudaEventRecord(device->begin, device->stream);
    cudaEventRecord(device->end, device->stream);
    device->gate.open();
    if (int error = cudaDeviceSynchronize()) return error;
  }
  return 0;
}

void release_results(Device* device) {
  for (uint64_t block : device->results) device->memory.release(reinterpret_cast<void*>(block));
  device->results.clear();
}

// Prepares a call: the arguments are in place, and with kAwake the device has just run work of this context. The gate
// can then occupy the multiprocessors before the call is submitted.
Outcome arm(const Artifact& artifact, Armed* armed, Device* device) {
  release_results(device);
  if (Outcome read = read_call(artifact, *device, armed); read.status != kDone) return read;
  if (int error = place_arguments(&armed->arguments, device->arenas, &device->memory))
    return cuda_failure(error, "when the arguments were placed");
  int error = armed->flags & kAwake ? wake_device(device) : 0;
  return error ? cuda_failure(error, "before the call") : Outcome{};
}

// Copies the results at this point of the stream. Work that a candidate left on other streams cannot change the copy.
void take_snapshot(const WsValue* results, int count, const Device& device) {
  const Arena& snapshot = device.arenas.at(kSnapshotArena);
  uint64_t at = 256;
  for (int i = 0; i < count && i < kMostResults; ++i) {
    uint64_t span = 0;
    if (!describe_defect(results[i], device.memory).empty() || !extent(*results[i].as.tensor, &span)) return;
    if (span > snapshot.bytes - at) return;
    const DLTensor& tensor = *results[i].as.tensor;
    cudaMemcpyAsync(reinterpret_cast<void*>(snapshot.base + at), static_cast<char*>(tensor.data) + tensor.byte_offset,
                    span, kDeviceToDevice, device.stream);
    at += (span + 255) / 256 * 256;
  }
}

void keep_results(const WsValue* results, int count, Device* device) {
  for (int i = 0; i < count && i < kMostResults; ++i)
    if (results[i].kind == WS_TENSOR && results[i].as.tensor)
      device->results.push_back(uint64_t(results[i].as.tensor->data));
}

void write_clocks(const Device& device, float event_ms, double host_us, Outcome* outcome) {
  const auto& blocks = device.memory.blocks().allocated();
  outcome->head.put(double(event_ms) * 1000.0);
  outcome->head.put(host_us);
  outcome->head.put(uint32_t(blocks.size()));
  for (const auto& [address, bytes] : blocks) {
    outcome->head.put(device.arenas.encode(address));
    outcome->head.put(bytes);
  }
}

Outcome run_timed(const Artifact& artifact, const Armed& armed, uint32_t flags, Device* device) {
  const bool queued = flags & kQueued;
  WsValue results[kMostResults] = {};
  if (int error = queued ? device->gate.close(device->stream) : 0)
    return cuda_failure(error, "when the gate was closed");
  if (flags & kCaptureGo) capture::begin(device->stream);
  auto begin = std::chrono::steady_clock::now();
  cudaEventRecord(device->begin, device->stream);
  int count = make_call(artifact, armed, device, results);
  double host_us = elapsed_us(begin);
  cudaEventRecord(device->end, device->stream);
  capture::end();
  if (queued) {
    take_snapshot(results, count, *device);
    device->gate.open();
  }
  // Runs while the device still works. After cudaDeviceSynchronize it would be part of the evaluator's wall time and
  // grow with the results.
  Outcome outcome = finish_call(count, 0, results, *device, false);
  int error = cudaDeviceSynchronize();
  float event_ms = 0;
  if (!error) error = cudaEventElapsedTime(&event_ms, device->begin, device->end);
  if (error) outcome = finish_call(count, error, results, *device, false);
  outcome.seconds = elapsed_us(begin) / 1e6;
  device->memory.release_due();  // blocks that cudaFreeAsync gave back
  write_clocks(*device, event_ms, host_us, &outcome);
  keep_results(results, count, device);
  return outcome;
}

Outcome run_armed(const Artifact& artifact, const Armed& armed, uint32_t flags, Device* device) {
  release_results(device);
  Outcome outcome;
  try {
    outcome = run_timed(artifact, armed, flags, device);
  } catch (...) {
    outcome = failure(kThrew, "An exception came out of warpsmith_call.");
  }
  if (outcome.head.out().empty()) {
    device->gate.open();
    write_clocks(*device, 0, 0, &outcome);
  }
  return outcome;
}

uint32_t flags_of(const frames::Frame& frame) {
  return Reader(frame.payload.data(), frame.payload.size()).take<uint32_t>();
}

// Answers with the capture and the addresses of the arenas, because the operations name addresses.
void answer_capture(const Device& device) {
  Writer out;
  const std::string &refusal = capture::refusal(), &operations = capture::operations();
  out.put(uint32_t(refusal.size()));
  out.bytes(refusal.data(), refusal.size());
  for (int i = 0; i < kArenas; ++i) out.put(device.arenas.base(i));
  out.bytes(operations.data(), operations.size());
  frames::write_frame(kAnswers, kCaptured, out.out());
}

Outcome load_capture(const frames::Frame& frame, Device* device) {
  Reader from(frame.payload.data(), frame.payload.size());
  const auto length = from.take<uint32_t>();
  const uint8_t* path = from.bytes(length);
  for (int i = 0; i < kArenas; ++i)
    if (from.take<uint64_t>() != device->arenas.base(i))
      return failure(kBadRequest, "The arenas lie at other addresses in this process.");
  if (!path) return failure(kBadRequest, "The capture cannot be parsed.");
  const std::string reason =
      device->replay.prepare(std::string(path, path + length), from, device->arenas, device->stream);
  return reason.empty() ? Outcome{} : failure(kBadRequest, reason);
}

// Runs before the evaluator process flushes the L2 cache: variables that are written later would be cached for the
// call.
Outcome restore(Device* device) {
  const int error = device->replay.is_ready() ? device->replay.restore(device->stream) : 0;
  return error ? cuda_failure(error, "when variables were set") : Outcome{};
}

// Polls for the next request for at most 50 ms. Waking a sleeping process takes tens of microseconds, which would be
// part of the measured time.
void poll_requests() {
  pollfd request{kRequests, POLLIN, 0};
  for (auto begin = std::chrono::steady_clock::now(); elapsed_us(begin) < kSpin_us;)
    if (poll(&request, 1, 0) != 0) return;
}

Outcome load_guarded(const frames::Frame& frame, Device* device, Artifact* artifact) {
  using warpsmith::seccomp::Phase;
  if (&__rseq_size && __rseq_size) return failure(kBadRequest, "The C library has registered a restartable sequence.");
  // Constructors of the artifact run inside dlopen, so the first filter precedes it. The second filter forbids the
  // system calls that only loading needs. If memory is shared, map_shared has installed the first one.
  if (!device->arenas.is_open())
    if (Outcome sealed = install_filter(Phase::kLoading); sealed.status != kDone) return sealed;
  Outcome outcome = load(std::string(frame.payload.begin(), frame.payload.end()), artifact);
  Outcome sealed = install_filter(Phase::kClosed);
  return sealed.status == kDone ? outcome : sealed;
}

Kind reply_kind(uint16_t request) {
  switch (request) {
    case kLoad:
    case kShare:
    case kLoadCapture:
    case kRestore: return kLoaded;
    case kArm: return kReady;
    case kGo: return kTimed;
    default: return kResult;
  }
}

Outcome handle(const frames::Frame& frame, Artifact* artifact, Armed* armed, Device* device) {
  switch (frame.kind) {
    case kLoadCapture: return load_capture(frame, device);
    case kRestore: return restore(device);
    case kShare: return map_shared(frame, device);
    case kLoad: return load_guarded(frame, device, artifact);
    case kCall: return call(*artifact, frame, device);
    case kArm: *armed = Armed{frame, {}, 0, {}}; return arm(*artifact, armed, device);
    case kGo: return run_armed(*artifact, *armed, flags_of(frame), device);
    default: return failure(kBadRequest, "A frame of kind " + std::to_string(frame.kind) + ".");
  }
}

}  // namespace

int main() {
  Artifact artifact;
  Armed armed;
  Device device;
  // The call uses a stream that synchronizes with the legacy default stream, as torch's does: kernels launched without
  // a stream are then joined. A side stream without a join is not.
  int error = cudaSetDeviceFlags(kScheduleSpin);  // an interrupt-driven wait would be part of the wall time
  if (!error) error = cudaSetDevice(0);
  if (!error) error = cudaStreamCreate(&device.stream);
  find_encoder();  // before a candidate is loaded
  frames::Frame frame;
  while (frames::read_frame(kRequests, &frame, kMostFrameBytes) == frames::Fault::kNone && frame.kind != kLeave) {
    if (frame.kind == kCapture) {
      answer_capture(device);
      continue;
    }
    answer(reply_kind(frame.kind),
           error ? cuda_failure(error, "when the device was opened") : handle(frame, &artifact, &armed, &device));
    if (frame.kind == kArm) poll_requests();
    else device.memory.end_call();
  }
  _exit(0);  // no destructor of the candidate may run after the last answer
}
