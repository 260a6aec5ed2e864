// The worker: loads an artifact and calls it, on a GPU or on the virtual one. What it answers is a claim.
// It knows no reference, no tolerance and no clock that counts.
#include <dlfcn.h>
#include <poll.h>
#include <chrono>
#include <cstdlib>
#include <string>

#include "frames.h"
#include "seccomp.h"
#include "worker_gate.h"
#include "worker_memory.h"
#include "worker_record.h"
#include "worker_replay.h"
#include "worker_values.h"

// glibc's, from 2.35 on: bytes of the area through which the kernel moves a thread that was preempted to another
// address.
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
  Writer head, values;  // what a frame of another kind has before, and the results
};

// A call that was armed: its values stay where they are until it is made.
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
  Replay replay;                  // once it is ready, calls are asked for as they were recorded
  std::vector<uint64_t> results;  // blocks of the last call's results, the judge's until the next one
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
  record::open(contents_of(path));
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

// Puts each tensor where the candidate finds it: at the judge's address, or in memory made here.
int place(Arguments* arguments, const Arenas& arenas, Memory* memory) {
  for (Held& held : arguments->held) {
    uint64_t span = 0;
    if (held.address && arenas.is_open()) held.address = arenas.decode(held.address);
    if (held.address) {
      if (extent(held.tensor, &span)) memory->know(held.address, span);
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

int give_back(const DLTensor& tensor, const Device& device, bool with_bytes, Writer* to) {
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

Outcome gather(const WsValue* results, int count, const Device& device, bool with_bytes) {
  Outcome outcome;
  for (int i = 0; i < count; ++i) {
    if (std::string fault = fault_of(results[i], device.memory); !fault.empty())
      return failure(kBadResult, "Result " + std::to_string(i) + " " + fault + ".");
    if (int error = give_back(*results[i].as.tensor, device, with_bytes, &outcome.values))
      return cuda_failure(error, "when the results were read");
  }
  outcome.count = uint32_t(count);
  return outcome;
}

// What the call came to, once the device is done with it.
Outcome conclude(int count, int error, const WsValue* results, const Device& device, bool with_bytes) {
  Outcome outcome;
  if (count < 0) outcome = failure(count, device.memory.complaint());
  else if (count > kMostResults)
    outcome = failure(WS_TOO_MANY_RESULTS, "More than " + std::to_string(kMostResults) + " results.");
  else if (error) outcome = cuda_failure(error, "at the end of the call");
  else if (int left = cudaGetLastError()) outcome = cuda_failure(left, "left behind by a call that nobody looked at");
  else outcome = gather(results, count, device, with_bytes);
  if (error && !outcome.cuda_error) outcome.cuda_error = error;
  return outcome;
}

int enter(const Artifact& artifact, const Armed& armed, Device* device, WsValue* results) {
  if (device->replay.is_ready()) {
    device->replay.perform(device->stream);  // an error of it is still there when the call is concluded
    return 0;
  }
  const WsHost host = lend(&device->memory, device->stream);
  return artifact.call(armed.name.c_str(), &host, armed.arguments.values.data(), int(armed.arguments.values.size()),
                       results, kMostResults);
}

double microseconds(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from).count();
}

Outcome invoke(const Artifact& artifact, Armed* armed, Device* device) {
  if (int error = place(&armed->arguments, device->arenas, &device->memory))
    return cuda_failure(error, "when the arguments were placed");
  if (int error = device->replay.is_ready() ? device->replay.restore(device->stream) : 0)
    return cuda_failure(error, "when variables were set");
  WsValue results[kMostResults] = {};
  if (armed->flags & kRecordCall) record::begin(device->stream);
  auto begin = std::chrono::steady_clock::now();
  int count = enter(artifact, *armed, device, results);
  record::end();
  int error = cudaStreamSynchronize(device->stream);
  double seconds = microseconds(begin) / 1e6;
  Outcome outcome = conclude(count, error, results, *device, armed->flags & kReturnBytes);
  outcome.seconds = seconds;
  return outcome;
}

Outcome read_call(const Artifact& artifact, const Device& device, Armed* armed) {
  Reader from(armed->frame.payload.data(), armed->frame.payload.size());
  armed->flags = from.take<uint32_t>();
  auto length = from.take<uint32_t>(), count = from.take<uint32_t>();
  const uint8_t* name = from.bytes(length);
  if (!name || !read_values(&from, count, &armed->arguments) || !from.whole())
    return failure(kBadRequest, "A call that cannot be read.");
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

// A tool that looks into this process needs calls that the filter refuses; the parent says so before a candidate is
// here.
bool under_tool() { return getenv("WARPSMITH_UNDER_TOOL") != nullptr; }

Outcome seal(warpsmith::seccomp::Phase phase) {
  if (under_tool() || warpsmith::seccomp::install_worker(phase)) return {};
  return failure(kBadRequest, "The worker's seccomp filter was refused.");
}

// Takes the judge's memory in, and from then on makes no call but those that computing needs.
Outcome share(const frames::Frame& frame, Device* device) {
  Reader from(frame.payload.data(), frame.payload.size());
  std::vector<Shared> shared(from.take<uint32_t>() % 64);
  for (Shared& one : shared) one = {from.take<int32_t>(), from.take<uint64_t>(), from.take<uint64_t>()};
  if (!from.whole() || shared.size() != kArenas) return failure(kBadRequest, "A share that cannot be read.");
  if (std::string fault = device->arenas.map(shared); !fault.empty()) return failure(kBadRequest, fault);
  if (std::string fault = device->gate.prepare(); !fault.empty()) return failure(kBadRequest, fault);
  if (int error = cudaEventCreate(&device->begin)) return cuda_failure(error, "when the clock was made");
  if (int error = cudaEventCreate(&device->end)) return cuda_failure(error, "when the clock was made");
  device->memory.share(device->arenas);
  record::serve(&device->memory, &device->arenas);
  return seal(warpsmith::seccomp::Phase::kLoading);
}

// The device last worked for the judge, and this process slept. What a timed call does is done twice without a call:
// the device comes back to this process and the driver's code into the caches, whatever lay between this call and the
// last.
int wake(Device* device) {
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

// Everything in place, and for a call that is timed or behind the gate the device idle, with this process's context on
// it: it now costs what it costs, and the gate runs before what it shall hold back.
Outcome arm(const Artifact& artifact, Armed* armed, Device* device) {
  release_results(device);
  if (Outcome read = read_call(artifact, *device, armed); read.status != kDone) return read;
  if (int error = place(&armed->arguments, device->arenas, &device->memory))
    return cuda_failure(error, "when the arguments were placed");
  int error = armed->flags & kAwake ? wake(device) : 0;
  return error ? cuda_failure(error, "before the call") : Outcome{};
}

// Copies the results as they are when the stream reaches this point, whatever still runs beside it.
void take_snapshot(const WsValue* results, int count, const Device& device) {
  const Arena& snapshot = device.arenas.at(kSnapshotArena);
  uint64_t at = 256;
  for (int i = 0; i < count && i < kMostResults; ++i) {
    uint64_t span = 0;
    if (!fault_of(results[i], device.memory).empty() || !extent(*results[i].as.tensor, &span)) return;
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

void put_clocks(const Device& device, float event_ms, double host_us, Outcome* outcome) {
  const auto& taken = device.memory.blocks().taken();
  outcome->head.put(double(event_ms) * 1000.0);
  outcome->head.put(host_us);
  outcome->head.put(uint32_t(taken.size()));
  for (const auto& [address, bytes] : taken) outcome->head.put(device.arenas.encode(address)), outcome->head.put(bytes);
}

Outcome make_timed(const Artifact& artifact, const Armed& armed, uint32_t flags, Device* device) {
  const bool queued = flags & kQueued;
  WsValue results[kMostResults] = {};
  if (int error = queued ? device->gate.close(device->stream) : 0)
    return cuda_failure(error, "when the gate was closed");
  if (flags & kRecordGo) record::begin(device->stream);
  auto begin = std::chrono::steady_clock::now();
  cudaEventRecord(device->begin, device->stream);
  int count = enter(artifact, armed, device, results);
  double host_us = microseconds(begin);
  cudaEventRecord(device->end, device->stream);
  record::end();
  if (queued) take_snapshot(results, count, *device), device->gate.open();
  // While the device still works: what is done after it stands on the judge's clock, and grows with the results.
  Outcome outcome = conclude(count, 0, results, *device, false);
  int error = cudaDeviceSynchronize();
  float event_ms = 0;
  if (!error) error = cudaEventElapsedTime(&event_ms, device->begin, device->end);
  if (error) outcome = conclude(count, error, results, *device, false);
  outcome.seconds = microseconds(begin) / 1e6;
  device->memory.release_due();  // what was given back in the order of a stream is not kept
  put_clocks(*device, event_ms, host_us, &outcome);
  keep_results(results, count, device);
  return outcome;
}

Outcome go(const Artifact& artifact, const Armed& armed, uint32_t flags, Device* device) {
  release_results(device);
  Outcome outcome;
  try {
    outcome = make_timed(artifact, armed, flags, device);
  } catch (...) {
    outcome = failure(kThrew, "An exception came out of warpsmith_call.");
  }
  if (outcome.head.out().empty()) device->gate.open(), put_clocks(*device, 0, 0, &outcome);
  return outcome;
}

uint32_t flags_of(const frames::Frame& frame) {
  return Reader(frame.payload.data(), frame.payload.size()).take<uint32_t>();
}

// The recorded call, with where the judge's memory lies: its operations name addresses.
void tell_recorded(const Device& device) {
  Writer out;
  const std::string &fault = record::fault(), &operations = record::operations();
  out.put(uint32_t(fault.size()));
  out.bytes(fault.data(), fault.size());
  for (int i = 0; i < kArenas; ++i) out.put(device.arenas.base(i));
  out.bytes(operations.data(), operations.size());
  frames::write_frame(kAnswers, worker::kRecorded, out.out());
}

Outcome play(const frames::Frame& frame, Device* device) {
  Reader from(frame.payload.data(), frame.payload.size());
  const auto length = from.take<uint32_t>();
  const uint8_t* path = from.bytes(length);
  for (int i = 0; i < kArenas; ++i)
    if (from.take<uint64_t>() != device->arenas.base(i))
      return failure(kBadRequest, "The judge's memory lies elsewhere here.");
  if (!path) return failure(kBadRequest, "A recording that cannot be read.");
  const std::string fault =
      device->replay.prepare(std::string(path, path + length), from, device->arenas, device->stream);
  return fault.empty() ? Outcome{} : failure(kBadRequest, fault);
}

// Before the judge cleans the cache: what is written here would be warm for the call.
Outcome restore(Device* device) {
  const int error = device->replay.is_ready() ? device->replay.restore(device->stream) : 0;
  return error ? cuda_failure(error, "when variables were set") : Outcome{};
}

// A process that sleeps is woken late by tens of microseconds, which would stand on the clocks. Once armed it waits
// awake, for a bounded time.
void stay_awake() {
  pollfd request{kRequests, POLLIN, 0};
  for (auto begin = std::chrono::steady_clock::now(); microseconds(begin) < kSpin_us;)
    if (poll(&request, 1, 0) != 0) return;
}

Outcome load_guarded(const frames::Frame& frame, Device* device, Artifact* artifact) {
  using warpsmith::seccomp::Phase;
  if (&__rseq_size && __rseq_size) return failure(kBadRequest, "The C library has registered a restartable sequence.");
  if (!device->arenas.is_open())  // else it was put on when the memory was shared
    if (Outcome sealed = seal(Phase::kLoading); sealed.status != kDone) return sealed;
  Outcome outcome = load(std::string(frame.payload.begin(), frame.payload.end()), artifact);
  Outcome sealed = seal(Phase::kClosed);
  return sealed.status == kDone ? outcome : sealed;
}

}  // namespace

int main() {
  Artifact artifact;
  Armed armed;
  Device device;
  // A stream of its own, but one that the legacy default stream is ordered with: kernels launched without a
  // stream are then joined as they are under torch, and a side stream without a join is not.
  int ready = cudaSetDeviceFlags(kScheduleSpin);  // being woken would show on the judge's clock
  if (!ready) ready = cudaSetDevice(0);
  if (!ready) ready = cudaStreamCreate(&device.stream);
  find_encoder();  // while no candidate is here
  frames::Frame frame;
  while (frames::read_frame(kRequests, &frame, kMostFrameBytes) == frames::Fault::kNone) {
    Outcome outcome = ready ? cuda_failure(ready, "when the device was opened")
                            : failure(kBadRequest, "A frame of kind " + std::to_string(frame.kind) + ".");
    Kind kind = worker::kResult;
    if (frame.kind == kLeave) break;
    if (frame.kind == kLoad || frame.kind == kShare || frame.kind == kPlay || frame.kind == kRestore)
      kind = worker::kLoaded;
    if (frame.kind == kArm) kind = worker::kReady, armed = Armed{frame, {}, 0, {}};
    if (frame.kind == kGo) kind = worker::kTimed;
    if (frame.kind == kRecord) {
      tell_recorded(device);
      continue;
    }
    if (!ready) switch (frame.kind) {
        case kPlay: outcome = play(frame, &device); break;
        case kRestore: outcome = restore(&device); break;
        case kShare: outcome = share(frame, &device); break;
        case kLoad: outcome = load_guarded(frame, &device, &artifact); break;
        case kCall: outcome = call(artifact, frame, &device); break;
        case kArm: outcome = arm(artifact, &armed, &device); break;
        case kGo: outcome = go(artifact, armed, flags_of(frame), &device); break;
      }
    answer(kind, outcome);
    if (frame.kind != kArm) device.memory.end_call();
    if (frame.kind == kArm) stay_awake();
  }
  _exit(0);  // no destructors of the candidate's after the last answer
}
