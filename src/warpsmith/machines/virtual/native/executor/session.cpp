// Dispatch of requests; modules, functions, streams and events.
#include "session.h"

#include <cstring>

namespace executor {

using wire::Call;

Session::Session(const Setup& setup)
    : setup_(setup),
      engine_(setup.gpu, setup.options),
      ledger_(setup.options.print_limit),
      catalog_(&engine_, setup.gpu),
      queue_(&engine_, &catalog_, &ledger_, setup.gpu, setup.rates),
      graphs_(&next_),
      streams_(&queue_, &graphs_, &next_) {}

Answer Session::answer(const wire::Request& request, Bytes bytes) {
  uint32_t call = uint32_t(request.call);
  if (request.call == Call::UnknownCall) {
    queue_.set_sticky_error(cuda::kNotSupported, "unknown_call", std::string(bytes.begin(), bytes.end()));
    return {queue_.sticky_error(), {}, {}};
  }
  if (request.call == Call::Describe) return describe();
  if (queue_.sticky_error()) return {queue_.sticky_error(), {}, {}};
  if (call < uint32_t(Call::Allocate)) return modules(request, std::move(bytes));
  if (call < uint32_t(Call::CopyIn)) return memory(request);
  if (call < uint32_t(Call::Launch)) return transfers(request, std::move(bytes));
  if (call < uint32_t(Call::StreamCreate)) return launches(request, std::move(bytes));
  if (call < uint32_t(Call::EventCreate)) return streams(request);
  if (call < uint32_t(Call::CaptureBegin)) return events(request);
  if (call < uint32_t(Call::EvaluatorAllocate)) return graphs(request, std::move(bytes));
  return {cuda::kUnknown, {}, {}};
}

Answer Session::give_up(const std::string& why) {
  queue_.set_sticky_error(cuda::kLaunchFailure, "launch", "The virtual GPU cannot do what was asked of it: " + why);
  return {cuda::kLaunchFailure, {}, {}};
}

Answer Session::describe() {
  wire::Device device;
  const vgpu::Gpu& gpu = setup_.gpu;
  std::strncpy(device.name, ("NVIDIA " + gpu.name).c_str(), sizeof device.name - 1);
  device.memory_bytes = gpu.memory_bytes;
  device.shared_per_block = gpu.shared_per_block;
  device.shared_per_block_optin = gpu.shared_per_block_optin;
  device.shared_per_sm = gpu.shared_per_sm;
  device.l2_bytes = setup_.l2_bytes;
  device.sm_count = gpu.sm_count;
  device.major = gpu.cc_major;
  device.minor = gpu.cc_minor;
  device.threads_per_block = gpu.max_threads_per_block;
  device.threads_per_sm = gpu.max_threads_per_sm;
  device.blocks_per_sm = gpu.max_blocks_per_sm;
  device.registers_per_sm = gpu.registers_per_sm;
  device.clock_khz = setup_.clock_khz;
  device.memory_clock_khz = setup_.memory_clock_khz;
  device.bus_bits = setup_.bus_bits;
  Answer answer;
  auto* raw = reinterpret_cast<uint8_t*>(&device);
  answer.bytes.assign(raw, raw + sizeof device);
  return answer;
}

cuda::Error Session::refuse(cuda::Error error, const std::string& checker, const std::string& kernel,
                            const std::string& sentence) {
  vgpu::Finding finding;
  finding.checker = checker;
  finding.kernel = kernel;
  finding.message = sentence;
  ledger_.add_findings(std::move(finding));
  return error;
}

Answer Session::modules(const wire::Request& request, Bytes bytes) {
  std::string name(bytes.begin(), bytes.end()), error;
  Answer answer;
  int module = int(request.words[0]);
  switch (request.call) {
    case Call::LoadModule: answer.words[0] = uint64_t(catalog_.add(std::move(bytes))); return answer;
    case Call::DropModule:
      queue_.finish_all();
      catalog_.drop(module);
      return answer;
    case Call::Function: return function(request, name);
    case Call::Symbol: {
      size_t size = 0;
      answer.words[0] = catalog_.symbol(module, name, &size, &error);
      answer.words[1] = size;
      if (!answer.words[0]) {
        answer.error = cuda::kInvalidSymbol;
        ledger_.set_error(answer.error, "bad_module", error);
      }
      return answer;
    }
    default: return {cuda::kUnknown, {}, {}};
  }
}

Answer Session::function(const wire::Request& request, const std::string& name) {
  std::string error;
  int found = catalog_.function(int(request.words[0]), name, &error);
  if (found < 0) {
    queue_.set_sticky_error(cuda::kInvalidPtx, "bad_module", error);
    return {cuda::kInvalidPtx, {}, {}};
  }
  const Function& function = *catalog_.at(uint64_t(found));
  Answer answer;
  answer.words[0] = uint64_t(found);
  answer.words[1] = function.parameter_bytes;
  for (const vgpu::Parameter& parameter : function.parameters) {
    uint64_t pair[2] = {parameter.offset, parameter.bytes};
    auto* raw = reinterpret_cast<uint8_t*>(pair);
    answer.bytes.insert(answer.bytes.end(), raw, raw + sizeof pair);
  }
  return answer;
}

Answer Session::streams(const wire::Request& request) {
  const uint64_t* words = request.words;
  Answer answer;
  switch (request.call) {
    case Call::StreamCreate: answer.words[0] = streams_.create(!(words[0] & 1), int(int64_t(words[1]))); break;
    case Call::StreamDestroy: answer.error = streams_.destroy(words[0]); break;
    case Call::StreamSync: answer.error = streams_.sync(words[0]); break;
    case Call::StreamQuery: answer.error = streams_.query(words[0]); break;
    case Call::StreamWait: answer.error = streams_.wait(words[0], words[1]); break;
    case Call::StreamFacts: {
      const Stream* stream = streams_.at(words[0]);
      if (!stream) return {cuda::kInvalidResourceHandle, {}, {}};
      answer.words[0] = stream->blocking ? 0 : 1;
      answer.words[1] = uint64_t(int64_t(stream->priority));
      break;
    }
    default: answer.error = cuda::kUnknown;
  }
  return answer;
}

Answer Session::events(const wire::Request& request) {
  const uint64_t* words = request.words;
  Answer answer;
  double us = 0;
  switch (request.call) {
    // 2 is cudaEventDisableTiming
    case Call::EventCreate: answer.words[0] = streams_.create_event(!(words[0] & 2)); break;
    case Call::EventDestroy: answer.error = streams_.destroy_event(words[0]); break;
    case Call::EventRecord: answer.error = streams_.record(words[0], words[1]); break;
    case Call::EventSync: answer.error = streams_.sync_event(words[0]); break;
    case Call::EventQuery: answer.error = streams_.query_event(words[0]); break;
    case Call::EventElapsed: answer.error = streams_.elapsed(words[0], words[1], &us); break;
    case Call::DeviceSync: answer.error = streams_.sync_all(); break;
    default: answer.error = cuda::kUnknown;
  }
  if (request.call == Call::EventElapsed) answer.words[0] = uint64_t(int64_t(us * 1000));
  return answer;
}

}  // namespace executor
