// Order of operations that streams, events and captures define.
#include "streams.h"

#include <algorithm>

namespace executor {
namespace {

constexpr size_t kLongFrontier = 16;

template <class T>
void merge(std::vector<T>* into, const std::vector<T>& from) {
  for (const T& item : from)
    if (std::find(into->begin(), into->end(), item) == into->end()) into->push_back(item);
}

}  // namespace

Stream* Streams::find(Id id) {
  auto found = streams_.find(id);
  return found == streams_.end() || found->second.gone ? nullptr : &found->second;
}

Id Streams::create(bool blocking, int priority) {
  Id id = (*next_)++;
  streams_[id].blocking = blocking;
  streams_[id].priority = priority;
  return id;
}

// The work of a destroyed stream still runs. The entry stays while the legacy stream may have to wait for it.
cuda::Error Streams::destroy(Id id) {
  Stream* stream = find(id);
  if (!stream || id == kLegacy) return cuda::kInvalidResourceHandle;
  if (stream->capture) return invalidate_capture(stream, cuda::kStreamCaptureInvalidated);
  if (queue_->done(stream->frontier)) streams_.erase(id);
  else stream->gone = true;
  return cuda::kSuccess;
}

std::vector<Operation> Streams::work_before(Id id, const Stream& stream) {
  std::vector<Operation> found = stream.frontier;
  if (id == kLegacy) {
    for (auto& [other, content] : streams_)
      if (other != kLegacy && content.blocking) merge(&found, content.frontier);
  } else if (stream.blocking) {
    merge(&found, streams_[kLegacy].frontier);
  }
  return found;
}

void Streams::shorten_frontier(Id id, Stream* stream) {
  if (stream->frontier.size() > kLongFrontier) stream->frontier = {queue_->add(Nothing{}, stream->frontier, id, false)};
}

cuda::Error Streams::invalidate_capture(Stream* stream, cuda::Error error) {
  if (stream->capture) stream->capture->invalid = true;
  return error;
}

cuda::Error Streams::check_unsafe_call() {
  for (auto& [id, stream] : streams_)
    if (stream.capture && stream.capture->mode != Mode::Relaxed)
      return invalidate_capture(&stream, cuda::kStreamCaptureUnsupported);
  return cuda::kSuccess;
}

cuda::Error Streams::enqueue(Id id, Work work, bool host_waits) {
  Stream* stream = find(id);
  if (!stream) return cuda::kInvalidResourceHandle;
  if (id == kLegacy)
    for (auto& [other, content] : streams_)
      if (content.capture && content.blocking) return invalidate_capture(&content, cuda::kStreamCaptureImplicit);
  if (stream->capture) {
    if (stream->capture->invalid) return cuda::kStreamCaptureInvalidated;
    if (host_waits || std::holds_alternative<Release>(work))
      return invalidate_capture(stream, cuda::kStreamCaptureUnsupported);
    stream->nodes = {graphs_->add(stream->capture->graph, std::move(work), stream->nodes)};
    return cuda::kSuccess;
  }
  stream->frontier = {queue_->add(std::move(work), work_before(id, *stream), id, false)};
  return host_waits ? queue_->finish(stream->frontier) : queue_->sticky_error();
}

cuda::Error Streams::launch(Id exec_id, Id id) {
  Stream* stream = find(id);
  Exec* exec = graphs_->exec(exec_id);
  if (!stream || !exec) return cuda::kInvalidResourceHandle;
  if (stream->capture) return invalidate_capture(stream, cuda::kStreamCaptureUnsupported);
  std::vector<Operation> base = work_before(id, *stream);
  merge(&base, exec->last);
  std::map<Id, Operation> made;
  for (const Node& node : exec->graph.nodes) {
    std::vector<Operation> after = node.after.empty() ? base : std::vector<Operation>{};
    for (Id earlier : node.after) after.push_back(made[earlier]);
    made[node.id] = queue_->add(node.work, after, id, true);
  }
  stream->frontier = base;
  if (!made.empty()) stream->frontier.clear();
  for (Id leaf : exec->graph.leaves()) stream->frontier.push_back(made[leaf]);
  exec->last = stream->frontier;
  shorten_frontier(id, stream);
  return queue_->sticky_error();
}

cuda::Error Streams::sync(Id id) {
  Stream* stream = find(id);
  if (!stream) return cuda::kInvalidResourceHandle;
  if (stream->capture) return invalidate_capture(stream, cuda::kStreamCaptureUnsupported);
  return queue_->finish(work_before(id, *stream));
}

cuda::Error Streams::sync_all() {
  if (cuda::Error error = check_unsafe_call()) return error;
  return queue_->finish_all();
}

// The first query finds the work unfinished, as late as a GPU may; the second runs it, so that a polling loop ends.
cuda::Error Streams::query(Id id) {
  Stream* stream = find(id);
  if (!stream) return cuda::kInvalidResourceHandle;
  if (stream->capture) return invalidate_capture(stream, cuda::kStreamCaptureUnsupported);
  std::vector<Operation> ends = work_before(id, *stream);
  bool wait = !queue_->done(ends) && !stream->polled;
  stream->polled = wait;
  return wait ? cuda::kNotReady : queue_->finish(ends);
}

Event* Streams::find_event(Id id) {
  auto found = events_.find(id);
  return found == events_.end() ? nullptr : &found->second;
}

Id Streams::create_event(bool timed) {
  Id id = (*next_)++;
  events_[id].timed = timed;
  return id;
}

cuda::Error Streams::destroy_event(Id event) {
  return events_.erase(event) ? cuda::kSuccess : cuda::kInvalidResourceHandle;
}

cuda::Error Streams::record(Id event_id, Id id) {
  Stream* stream = find(id);
  Event* event = find_event(event_id);
  if (!stream || !event) return cuda::kInvalidResourceHandle;
  event->recorded = true;
  event->polled = false;
  event->capture = stream->capture;
  event->nodes = stream->nodes;
  event->frontier = stream->capture ? std::vector<Operation>{} : work_before(id, *stream);
  return cuda::kSuccess;
}

cuda::Error Streams::wait(Id id, Id event_id) {
  Stream* stream = find(id);
  Event* event = find_event(event_id);
  if (!stream || !event) return cuda::kInvalidResourceHandle;
  if (!event->recorded) return cuda::kSuccess;
  if (event->capture) {
    if (stream->capture && stream->capture != event->capture)
      return invalidate_capture(stream, cuda::kStreamCaptureMerge);
    if (id == kLegacy) return cuda::kStreamCaptureImplicit;
    stream->capture = event->capture;
    merge(&stream->nodes, event->nodes);
    return cuda::kSuccess;
  }
  if (stream->capture) return invalidate_capture(stream, cuda::kStreamCaptureIsolation);
  merge(&stream->frontier, event->frontier);
  shorten_frontier(id, stream);
  return cuda::kSuccess;
}

// Synchronizing with a captured event invalidates the capture.
cuda::Error Streams::invalidate_by_event(Event* event) {
  event->capture->invalid = true;
  return cuda::kCapturedEvent;
}

cuda::Error Streams::sync_event(Id id) {
  Event* event = find_event(id);
  if (!event) return cuda::kInvalidResourceHandle;
  if (event->capture) return invalidate_by_event(event);
  return queue_->finish(event->frontier);
}

cuda::Error Streams::query_event(Id id) {
  Event* event = find_event(id);
  if (!event) return cuda::kInvalidResourceHandle;
  if (event->capture) return invalidate_by_event(event);
  bool wait = !queue_->done(event->frontier) && !event->polled;
  event->polled = wait;
  return wait ? cuda::kNotReady : queue_->finish(event->frontier);
}

cuda::Error Streams::elapsed(Id first, Id second, double* us) {
  Event *from = find_event(first), *to = find_event(second);
  if (!from || !to || !from->timed || !to->timed || !from->recorded || !to->recorded)
    return cuda::kInvalidResourceHandle;
  if (!queue_->done(from->frontier) || !queue_->done(to->frontier)) return cuda::kNotReady;
  *us = queue_->ended_us(to->frontier) - queue_->ended_us(from->frontier);
  return cuda::kSuccess;
}

cuda::Error Streams::begin(Id id, Mode mode) {
  Stream* stream = find(id);
  if (!stream) return cuda::kInvalidResourceHandle;
  if (id == kLegacy) return cuda::kStreamCaptureUnsupported;
  if (stream->capture) return invalidate_capture(stream, cuda::kStreamCaptureUnsupported);
  stream->capture = std::make_shared<Capture>(Capture{graphs_->create(), id, mode, false});
  stream->nodes.clear();
  return cuda::kSuccess;
}

cuda::Error Streams::end(Id id, Id* graph) {
  Stream* origin = find(id);
  if (!origin) return cuda::kInvalidResourceHandle;
  if (!origin->capture) return cuda::kIllegalState;
  std::shared_ptr<Capture> capture = origin->capture;
  cuda::Error error = capture->invalid ? cuda::kStreamCaptureInvalidated : cuda::kSuccess;
  if (capture->origin != id) return invalidate_capture(origin, cuda::kStreamCaptureUnmatched);
  const Graph* made = graphs_->at(capture->graph);
  if (!made) error = cuda::kStreamCaptureInvalidated;  // the graph was destroyed during the capture
  std::vector<Id> joined = made ? made->reach(origin->nodes) : std::vector<Id>{};
  for (auto& [other, stream] : streams_) {
    if (stream.capture != capture) continue;
    for (Id node : stream.nodes)
      if (!std::binary_search(joined.begin(), joined.end(), node) && !error) error = cuda::kStreamCaptureUnjoined;
    stream.capture.reset();
    stream.nodes.clear();
  }
  for (auto& [other, event] : events_)
    if (event.capture == capture) event = Event{event.timed, false, false, {}, {}, {}};
  *graph = error ? 0 : capture->graph;
  if (error) graphs_->destroy(capture->graph);
  return error;
}

uint64_t Streams::state(Id id, Id* graph) {
  Stream* stream = find(id);
  if (!stream || !stream->capture) return 0;
  *graph = stream->capture->graph;
  return stream->capture->invalid ? 2 : 1;
}

}  // namespace executor
