// Vector clocks over streams.
#include "worker_order.h"

#include <algorithm>

namespace worker {
namespace {

// The legacy default stream has two handles: nullptr and cudaStreamLegacy (1).
void* normalize_stream(void* stream) { return reinterpret_cast<uintptr_t>(stream) == 1 ? nullptr : stream; }

}  // namespace

void Order::join(Known* to, const Known& from) {
  for (const auto& [stream, count] : from) (*to)[stream] = std::max((*to)[stream], count);
}

void Order::rename(Known* known, void* stream, void* name) {
  if (auto found = known->extract(stream)) {
    found.key() = name;
    known->insert(std::move(found));
  }
}

Order::Known& Order::known_to(void* stream) {
  stream = normalize_stream(stream);
  Known& known = streams_[stream];
  join(&known, seen_by_host_);
  if (synchronizes_with_default_.contains(stream)) join(&known, streams_[nullptr]);
  if (stream == nullptr)
    for (void* one : synchronizes_with_default_) join(&known, streams_[one]);
  return known;
}

void Order::add_stream(void* stream, bool with_default) {
  if (with_default) synchronizes_with_default_.insert(stream);
  else synchronizes_with_default_.erase(stream);
  void* const name = reinterpret_cast<void*>(~destroyed_streams_++);
  for (Known* known : {&submitted_, &seen_by_host_}) rename(known, stream, name);
  for (auto* all : {&streams_, &events_})
    for (auto& [key, known] : *all) rename(&known, stream, name);
  streams_.erase(stream);
}

void Order::begin(void* stream) {
  streams_.clear();
  events_.clear();
  submitted_.clear();
  seen_by_host_.clear();
  own_ = stream;
  add_work(own_);  // stands for the work before the call
}

void Order::add_work(void* stream) {
  stream = normalize_stream(stream);
  known_to(stream)[stream] = ++submitted_[stream];
}

bool Order::is_forked(void* stream) { return known_to(stream).contains(own_); }

void Order::record_event(void* event, void* stream) { events_[event] = known_to(stream); }

void Order::wait_event(void* stream, void* event) {
  if (auto found = events_.find(event); found != events_.end()) join(&known_to(stream), found->second);
}

void Order::finish_stream(void* stream) { join(&seen_by_host_, known_to(stream)); }

void Order::finish_event(void* event) {
  if (auto found = events_.find(event); found != events_.end()) join(&seen_by_host_, found->second);
}

void Order::finish_all() { join(&seen_by_host_, submitted_); }

bool Order::is_joined() {
  const Known& known = known_to(own_);
  return std::all_of(submitted_.begin(), submitted_.end(), [&](const auto& one) {
    auto found = known.find(one.first);
    return found != known.end() && found->second >= one.second;
  });
}

}  // namespace worker
