// The stand-in's line to the executor, and the errors that a thread remembers. Holds no device memory.
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

// One request, errands to this process's memory, one reply; the error is remembered for cudaGetLastError.
Result ask(Call call, Words words, const void* bytes = nullptr, size_t length = 0);
int say(Call call, Words words, const void* bytes = nullptr, size_t length = 0);

int settle(int error);  // remembers an error and gives it back
int last_error(bool forget);
int unknown(const std::string& name);  // tells the executor that the candidate needs a call that is not here
const wire::Device& device();

inline uint64_t word(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Handles are numbers that no page is mapped at: a dereference crashes.
inline void* handle(uint64_t id) { return reinterpret_cast<void*>(id << 8); }
inline uint64_t id_of(const void* handle) { return word(handle) >> 8; }

uint64_t per_thread_stream();
// Handles 0 and 1 are the legacy default stream, 2 this thread's own.
uint64_t stream_of(const void* handle);
// The same for code compiled with --default-stream per-thread, where 0 is this thread's own.
uint64_t stream_of_ptsz(const void* handle);

}  // namespace standin
