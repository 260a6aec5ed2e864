// Session of one candidate: serves its requests and owns its device.
#pragma once

#include <string>
#include <vector>

#include "catalog.h"
#include "graphs.h"
#include "ledger.h"
#include "queue.h"
#include "streams.h"
#include "wire.h"

namespace executor {

struct Setup {
  vgpu::Gpu gpu;
  vgpu::Options options;
  Rates rates;
  uint64_t l2_bytes = 0;
  int clock_khz = 0, memory_clock_khz = 0, bus_bits = 0;
  int lent_from = 0, lent_count = 0;  // descriptors of memory that the evaluator process reads and writes directly
};

struct Answer {
  cuda::Error error = cuda::kSuccess;
  uint64_t words[8] = {};
  std::vector<uint8_t> bytes;
};

using Bytes = std::vector<uint8_t>;

class Session {
 public:
  explicit Session(const Setup& setup);

  Answer answer(const wire::Request& request, Bytes bytes);
  Answer answer_evaluator(const wire::Request& request, const Bytes& bytes);
  Answer memory_info() const;
  // Ends the session after a request that failed with an exception; every later result of the candidate is an error.
  Answer give_up(const std::string& why);
  void set_host(Host* host) { queue_.set_host(host); }

 private:
  Answer modules(const wire::Request& request, Bytes bytes);
  Answer memory(const wire::Request& request);
  Answer transfers(const wire::Request& request, Bytes bytes);
  Answer launches(const wire::Request& request, Bytes bytes);
  Answer streams(const wire::Request& request);
  Answer events(const wire::Request& request);
  Answer graphs(const wire::Request& request, Bytes bytes);
  Answer nodes(const wire::Request& request, Bytes bytes);
  Answer change(const wire::Request& request, Bytes bytes);

  Answer function(const wire::Request& request, const std::string& name);
  Answer function_facts(const Function& function);
  Answer allocate(uint64_t bytes, const std::string& owner);
  Answer import(uint64_t bytes);
  Answer release(uint64_t start, uint64_t stream, bool lazily);
  Answer describe();
  // Decodes a kernel from words: function, grid and block packed in three, shared memory, flags, cluster in two.
  cuda::Error kernel(const uint64_t* at, Bytes parameters, Kernel* made);
  cuda::Error check(const Copy& copy);
  cuda::Error check(const Fill& fill);
  cuda::Error refuse(cuda::Error error, const std::string& checker, const std::string& kernel,
                     const std::string& sentence);

  Setup setup_;
  vgpu::Engine engine_;
  Ledger ledger_;
  Catalog catalog_;
  Queue queue_;
  Id next_ = 1;
  Graphs graphs_;
  Streams streams_;
  int imported_ = 0;
  uint64_t allocated_bytes_ = 0, allocations_ = 0;
  std::map<uint64_t, uint64_t> sizes_;  // size of each live allocation
};

}  // namespace executor
