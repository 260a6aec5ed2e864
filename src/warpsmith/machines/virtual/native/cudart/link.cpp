// Requests to the executor, one at a time over all threads.
#include "link.h"

#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "../executor/channel.h"

namespace standin {
namespace {

constexpr int kExecutorGone = 86;  // exit status that tells the evaluator process why this process ended
std::recursive_mutex line_lock;
thread_local int recorded_error = 0;
int sticky_error = 0;  // an error that no later call clears

int line() {
  static const int fd = [] {
    const char* text = std::getenv(wire::kSocketVariable);
    return text ? std::atoi(text) : -1;
  }();
  return fd;
}

[[noreturn]] void exit_without_executor() {
  if (errno == EFAULT) std::raise(SIGSEGV);  // the kernel found the candidate's bad pointer: end as a dereference would
  const char text[] = "the executor of the virtual GPU is gone\n";
  [[maybe_unused]] ssize_t written = ::write(2, text, sizeof text - 1);
  ::_exit(kExecutorGone);
}

bool is_sticky(int error) {
  return error == cuda::kIllegalAddress || error == cuda::kLaunchTimeout || error == cuda::kAssert ||
         error == cuda::kMisalignedAddress || error == cuda::kLaunchFailure || error == cuda::kNotSupported ||
         error == cuda::kInvalidPtx;
}

// Serves the executor's access to rows of this process's memory.
void serve_host_access(const wire::Reply& reply, const std::vector<uint8_t>& brought) {
  uint64_t address = reply.words[0], pitch = reply.words[1], width = reply.words[2], height = reply.words[3];
  std::vector<uint8_t> rows(reply.kind == wire::Kind::ReadHost ? width * height : 0);
  for (uint64_t row = 0; row < height; ++row) {
    auto* place = reinterpret_cast<uint8_t*>(address + row * pitch);
    if (reply.kind == wire::Kind::ReadHost) std::memcpy(rows.data() + row * width, place, width);
    else std::memcpy(place, brought.data() + row * width, width);
  }
  if (!channel::send_frame(line(), wire::Request{}, rows.data(), rows.size())) exit_without_executor();
}

}  // namespace

Result call_executor(Call call, Words words, const void* bytes, size_t length) {
  Result result;
  if (line() < 0) {
    result.error = set_last_error(cuda::kNoDevice);
    return result;
  }
  std::lock_guard<std::recursive_mutex> hold(line_lock);
  wire::Request request;
  request.call = call;
  size_t at = 0;
  for (uint64_t word : words) request.words[at++] = word;
  if (!channel::send_frame(line(), request, bytes, length)) exit_without_executor();
  wire::Reply reply;
  while (true) {
    if (!channel::receive_frame(line(), &reply, &result.bytes, wire::kMostBytes)) exit_without_executor();
    if (reply.kind == wire::Kind::Done) break;
    serve_host_access(reply, result.bytes);
  }
  std::memcpy(result.words, reply.words, sizeof result.words);
  result.error = set_last_error(reply.error);
  if (is_sticky(reply.error)) sticky_error = reply.error;
  return result;
}

int submit(Call call, Words words, const void* bytes, size_t length) {
  return call_executor(call, words, bytes, length).error;
}

int set_last_error(int error) {
  if (error) recorded_error = error;
  return error;
}

int last_error(bool forget) {
  int error = sticky_error ? sticky_error : recorded_error;
  if (forget) recorded_error = 0;
  return error;
}

int report_unknown_call(const std::string& name) {
  if (line() < 0) return set_last_error(cuda::kNoDevice);
  return submit(Call::UnknownCall, {}, name.data(), name.size());
}

const wire::Device& device() {
  static const wire::Device found = [] {
    wire::Device device;
    Result result = call_executor(Call::Describe, {});
    if (result.bytes.size() == sizeof device) std::memcpy(&device, result.bytes.data(), sizeof device);
    return device;
  }();
  return found;
}

uint64_t per_thread_stream() {
  thread_local uint64_t mine = call_executor(Call::StreamCreate, {0, 0}).words[0];
  return mine;
}

uint64_t stream_of(const void* handle) {
  if (word(handle) < 2) return 0;
  if (word(handle) == 2) return per_thread_stream();
  return word(handle) < 256 ? ~uint64_t(0) : id_of(handle);
}

uint64_t stream_of_ptsz(const void* handle) { return handle ? stream_of(handle) : per_thread_stream(); }

}  // namespace standin
