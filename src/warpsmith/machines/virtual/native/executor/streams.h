// Streams, events and stream captures by the rules of CUDA. They decide the order of operations; the queue runs them.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "graphs.h"
#include "queue.h"

namespace executor {

enum class Mode : uint64_t { Global = 0, ThreadLocal = 1, Relaxed = 2 };

struct Capture {
  Id graph = 0, origin = 0;
  Mode mode = Mode::Global;
  bool invalid = false;
};

struct Stream {
  bool blocking = true, gone = false, polled = false;  // blocking: ordered with the legacy default stream
  int priority = 0;
  std::vector<Operation> frontier;  // operations that the next one waits for
  std::shared_ptr<Capture> capture;
  std::vector<Id> nodes;  // the same during a capture
};

struct Event {
  bool timed = true, recorded = false, polled = false;
  std::vector<Operation> frontier;
  std::shared_ptr<Capture> capture;
  std::vector<Id> nodes;
};

constexpr Id kLegacy = 0;

class Streams {
 public:
  Streams(Queue* queue, Graphs* graphs, Id* next) : queue_(queue), graphs_(graphs), next_(next) {
    streams_[kLegacy] = {};
  }

  Id create(bool blocking, int priority);
  cuda::Error destroy(Id stream);
  const Stream* at(Id stream) { return find(stream); }
  cuda::Error enqueue(Id stream, Work work, bool host_waits);
  cuda::Error launch(Id exec, Id stream);
  cuda::Error sync(Id stream);
  cuda::Error sync_all();
  cuda::Error query(Id stream);
  // Returns an error for a call that CUDA forbids during a capture in global or thread-local mode; the call invalidates
  // it.
  cuda::Error check_unsafe_call();

  Id create_event(bool timed);
  cuda::Error destroy_event(Id event);
  cuda::Error record(Id event, Id stream);
  cuda::Error wait(Id stream, Id event);
  cuda::Error sync_event(Id event);
  cuda::Error query_event(Id event);
  cuda::Error elapsed(Id first, Id second, double* us);

  cuda::Error begin(Id stream, Mode mode);
  cuda::Error end(Id stream, Id* graph);
  uint64_t state(Id stream, Id* graph);  // 0 none, 1 active, 2 invalidated

 private:
  Stream* find(Id stream);
  Event* find_event(Id event);
  std::vector<Operation> work_before(Id id, const Stream& stream);
  void shorten_frontier(Id id, Stream* stream);
  cuda::Error invalidate_capture(Stream* stream, cuda::Error error);
  cuda::Error invalidate_by_event(Event* event);

  Queue* queue_;
  Graphs* graphs_;
  Id* next_;
  std::map<Id, Stream> streams_;
  std::map<Id, Event> events_;
};

}  // namespace executor
