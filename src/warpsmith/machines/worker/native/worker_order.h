// Order of the work of one call, as streams, events and host synchronization define it. If the call's own stream does
// not wait for some work, that work may still run when the results are read. If some work does not wait for the call's
// own stream, it may read arguments before they are written.
//
// For each stream the class keeps a vector clock: how many operations of every other stream are known to be complete.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace worker {

class Order {
 public:
  // Registers a new stream and whether it synchronizes with the legacy default stream. A stream that had the same
  // address before is a different stream.
  void add_stream(void* stream, bool with_default);
  void add_event(void* event) { events_.erase(event); }

  void begin(void* stream);  // forgets all earlier work; `stream` is the call's own stream
  void add_work(void* stream);
  // Whether the next operation of the stream comes after the work that preceded the call.
  bool is_forked(void* stream);
  void record_event(void* event, void* stream);
  void wait_event(void* stream, void* event);
  void finish_stream(void* stream);  // the host has waited for the stream
  void finish_event(void* event);
  void finish_all();
  bool is_joined();  // whether the call's own stream ends after all other work

 private:
  using Known = std::map<void*, uint64_t>;  // number of complete operations for each stream

  static void join(Known* to, const Known& from);
  static void rename(Known* known, void* stream, void* name);
  Known& known_to(void* stream);  // what the next operation on a stream comes after

  std::set<void*> synchronizes_with_default_ = {reinterpret_cast<void*>(2)};  // 2 is cudaStreamPerThread
  std::map<void*, Known> streams_, events_;
  Known submitted_, seen_by_host_;
  void* own_ = nullptr;
  uintptr_t destroyed_streams_ = 0;  // count of destroyed streams, used as unique names for them
};

}  // namespace worker
