// Memory, transfers, and the requests of the evaluator process.
#include <cstring>

#include "session.h"

namespace executor {

using wire::Call;

namespace {

// Computes the bytes from the first row to the end of the last. Returns false on overflow or beyond the limit.
bool span(uint64_t rows, uint64_t pitch, uint64_t width, uint64_t* bytes) {
  uint64_t before = 0, total = 0;
  if (rows == 0 || __builtin_mul_overflow(rows - 1, pitch, &before) || __builtin_add_overflow(before, width, bytes))
    return false;
  return !__builtin_mul_overflow(rows, width, &total) && total <= wire::kMostBytes;
}

}  // namespace

Answer Session::allocate(uint64_t bytes, const std::string& owner) {
  Answer answer;
  if (bytes == 0) return answer;  // cudaMalloc of 0 bytes returns a null pointer
  std::string label = owner + " " + std::to_string(++allocations_);
  uint64_t start = engine_.allocate(bytes, label);
  if (!start && !queue_.finish_all()) start = engine_.allocate(bytes, label);
  if (!start) {
    ledger_.set_error(cuda::kMemoryAllocation, "memory",
                      "cudaMalloc of " + std::to_string(bytes) + " bytes; the virtual GPU has " +
                          std::to_string(setup_.gpu.memory_bytes) + " and " + std::to_string(allocated_bytes_) +
                          " are taken.");
    answer.error = cuda::kMemoryAllocation;
    return answer;
  }
  allocated_bytes_ += bytes;
  sizes_[start] = bytes;
  answer.words[0] = start;
  return answer;
}

Answer Session::import(uint64_t bytes) {
  if (imported_ >= setup_.lent_count) return {cuda::kInvalidValue, {}, {}};
  Answer answer;
  const int descriptor = setup_.lent_from + imported_;
  ++imported_;
  answer.words[0] = engine_.share(descriptor, bytes, "lent " + std::to_string(imported_));
  if (!answer.words[0]) answer.error = cuda::kMemoryAllocation;
  return answer;
}

Answer Session::release(uint64_t start, uint64_t stream, bool lazily) {
  Answer answer;
  if (start == 0) return answer;
  auto known = sizes_.find(start);
  if (known == sizes_.end()) {
    answer.error = refuse(cuda::kInvalidValue, "out_of_bounds", "",
                          "cudaFree of an address that is not the start of a live allocation.");
    return answer;
  }
  if (lazily) {
    answer.error = streams_.enqueue(stream, Release{start}, false);
  } else {
    answer.error = queue_.finish_all();  // cudaFree synchronizes the device
    engine_.release(start);
  }
  allocated_bytes_ -= known->second;
  sizes_.erase(known);
  return answer;
}

Answer Session::memory(const wire::Request& request) {
  const uint64_t* words = request.words;
  bool lazily = request.call == Call::AllocateAsync || request.call == Call::FreeAsync;
  Answer answer;
  switch (request.call) {
    case Call::Allocate:
    case Call::Free:
      if (cuda::Error error = streams_.check_unsafe_call()) return {error, {}, {}};
      [[fallthrough]];
    case Call::AllocateAsync:
    case Call::FreeAsync:
      if (lazily && !streams_.at(words[1])) return {cuda::kInvalidResourceHandle, {}, {}};
      if (lazily && streams_.at(words[1])->capture) {
        queue_.set_sticky_error(cuda::kNotSupported, "unknown_call",
                                "cudaMallocAsync or cudaFreeAsync in a stream capture");
        return {cuda::kNotSupported, {}, {}};
      }
      if (request.call == Call::Allocate || request.call == Call::AllocateAsync)
        return allocate(words[0], "allocation");
      return release(words[0], lazily ? words[1] : 0, lazily);
    case Call::MemoryInfo: return memory_info();
    case Call::Import: return import(words[0]);
    case Call::Pointer: answer.words[0] = engine_.contains(words[0], 1); return answer;
    default: return {cuda::kUnknown, {}, {}};
  }
}

cuda::Error Session::check(const Copy& copy) {
  if (copy.height == 0 || copy.width == 0) return cuda::kSuccess;
  bool two = copy.height > 1, to_device = copy.direction != Direction::Out,
       from_device = copy.direction != Direction::In;
  if (two && (copy.to_pitch < copy.width || copy.from_pitch < copy.width)) return cuda::kInvalidPitchValue;
  uint64_t to_bytes = 0, from_bytes = 0;
  bool sane = span(copy.height, copy.to_pitch, copy.width, &to_bytes) &&
              span(copy.height, copy.from_pitch, copy.width, &from_bytes);
  if (!sane) return cuda::kInvalidValue;
  auto outside = [&](const char* does, uint64_t bytes) {
    return refuse(cuda::kInvalidValue, "out_of_bounds", "",
                  std::string("A copy ") + does + " " + std::to_string(bytes) +
                      " bytes of device memory that is not wholly inside one allocation.");
  };
  if (to_device && !engine_.contains(copy.to, to_bytes)) return outside("writes", to_bytes);
  if (from_device && !engine_.contains(copy.from, from_bytes)) return outside("reads", from_bytes);
  bool swapped = (!to_device && engine_.contains(copy.to, 1)) || (!from_device && engine_.contains(copy.from, 1));
  return swapped ? cuda::kInvalidValue : cuda::kSuccess;
}

cuda::Error Session::check(const Fill& fill) {
  if (fill.count == 0 || fill.rows == 0) return cuda::kSuccess;
  uint64_t width = 0, bytes = 0;
  if (fill.element != 1 && fill.element != 2 && fill.element != 4) return cuda::kInvalidValue;
  if (__builtin_mul_overflow(fill.element, fill.count, &width)) return cuda::kInvalidValue;
  if (fill.rows > 1 && fill.pitch < width) return cuda::kInvalidPitchValue;
  if (span(fill.rows, fill.pitch, width, &bytes) && engine_.contains(fill.to, bytes)) return cuda::kSuccess;
  return refuse(cuda::kInvalidValue, "out_of_bounds", "",
                "A memset of " + std::to_string(width) + " bytes is not wholly inside one allocation.");
}

Answer Session::transfers(const wire::Request& request, Bytes bytes) {
  const uint64_t* words = request.words;
  bool waits = words[7] & wire::kBlocking;
  if (request.call == Call::Fill) {
    Fill fill{words[1], words[2], uint32_t(words[3]), words[4], words[5], words[6]};
    if (cuda::Error error = check(fill)) return {error, {}, {}};
    if (fill.count == 0 || fill.rows == 0) return {};
    return {streams_.enqueue(words[0], fill, waits), {}, {}};
  }
  Copy copy;
  copy.direction = Direction(uint64_t(request.call) - uint64_t(Call::CopyIn));
  copy.to = words[1];
  copy.to_pitch = words[2];
  copy.from = words[3];
  copy.from_pitch = words[4];
  copy.width = words[5];
  copy.height = words[6];
  if (cuda::Error error = check(copy)) return {error, {}, {}};
  if (copy.width == 0 || copy.height == 0) return {};
  copy.is_staged = copy.direction == Direction::In && !(words[7] & wire::kLazySource);
  if (copy.is_staged && bytes.size() != copy.width * copy.height) return {cuda::kInvalidValue, {}, {}};
  copy.staged = std::move(bytes);
  return {streams_.enqueue(words[0], std::move(copy), waits), {}, {}};
}

Answer Session::memory_info() const {
  Answer answer;
  answer.words[0] = setup_.gpu.memory_bytes - std::min<uint64_t>(allocated_bytes_, setup_.gpu.memory_bytes);
  answer.words[1] = setup_.gpu.memory_bytes;
  return answer;
}

Answer Session::answer_evaluator(const wire::Request& request, const Bytes& bytes) {
  const uint64_t* words = request.words;
  std::vector<vgpu::Finding> findings;
  Answer answer;
  bool moved = true;
  if (request.call == Call::EvaluatorFacts) {
    if (words[0] & 1) {
      queue_.report_unjoined();
      queue_.finish_all();
    }
    std::string text = ledger_.text();
    answer.bytes.assign(text.begin(), text.end());
    if (words[0] & 2) ledger_.clear();
    return answer;
  }
  if (request.call == Call::EvaluatorMemory) return memory_info();
  if (request.call == Call::EvaluatorAllocate) return allocate(words[0], "argument");
  Operation operation = queue_.add_evaluator_operation();
  switch (request.call) {
    case Call::EvaluatorWrite: moved = engine_.write(operation, words[0], bytes.data(), bytes.size(), &findings); break;
    case Call::EvaluatorFill:
      moved = engine_.fill(operation, words[0], uint32_t(words[1]), words[2], words[3], &findings);
      break;
    case Call::EvaluatorRead:
      if (words[1] > setup_.gpu.memory_bytes) return {cuda::kInvalidValue, {}, {}};
      answer.bytes.resize(words[1]);
      moved = engine_.read(operation, answer.bytes.data(), words[0], words[1], &findings);
      break;
    default: moved = false;
  }
  if (request.call == Call::EvaluatorRead)
    ledger_.add_findings(findings);  // a result that was never written or that another operation still writes
  if (!moved) answer.error = cuda::kInvalidValue;
  return answer;
}

}  // namespace executor
