// Connection to the executor, and the last error of each thread. No device memory is held here.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "../executor/errors.h"
#include "../executor/wire.h"
#include "types.h"

namespace standin {

using wire::Call;
using Words = std::initializer_list<uint64_t>;

struct Result {
  int error = 0;
  uint64_t words[8] = {};
  std::vector<uint8_t> bytes;
};

// Sends one request, serves accesses to this process's memory, and returns the reply. Sets the error of
// cudaGetLastError.
Result call_executor(Call call, Words words, const void* bytes = nullptr, size_t length = 0);
int submit(Call call, Words words, const void* bytes = nullptr, size_t length = 0);

int set_last_error(int error);  // sets the error of cudaGetLastError and returns it
int last_error(bool forget);
int report_unknown_call(const std::string& name);  // reports to the executor a runtime call that the stand-in lacks
const wire::Device& device();

inline uint64_t word(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Handles are small numbers, where no page is mapped: a dereference crashes.
inline void* handle(uint64_t id) { return reinterpret_cast<void*>(id << 8); }
inline uint64_t id_of(const void* handle) { return word(handle) >> 8; }

uint64_t per_thread_stream();
// Handles 0 and 1 are the legacy default stream, 2 is the per-thread default stream.
uint64_t stream_of(const void* handle);
// The same for code compiled with --default-stream per-thread, where 0 is the per-thread default stream.
uint64_t stream_of_ptsz(const void* handle);

}  // namespace standin
