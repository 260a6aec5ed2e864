#include "worker_order.h"

#include <algorithm>

namespace worker {
namespace {

// The legacy default stream has two names.
void* named(void* stream) { return reinterpret_cast<uintptr_t>(stream) == 1 ? nullptr : stream; }

}  // namespace

void Order::join(Known* to, const Known& from) {
  for (const auto& [stream, count] : from) (*to)[stream] = std::max((*to)[stream], count);
}

void Order::rename(Known* known, void* stream, void* name) {
  if (auto found = known->extract(stream)) found.key() = name, known->insert(std::move(found));
}

Order::Known& Order::ready(void* stream) {
  stream = named(stream);
  Known& known = streams_[stream];
  join(&known, host_);
  if (with_default_.contains(stream)) join(&known, streams_[nullptr]);
  if (stream == nullptr)
    for (void* one : with_default_) join(&known, streams_[one]);
  return known;
}

void Order::made(void* stream, bool with_default) {
  if (with_default) with_default_.insert(stream);
  else with_default_.erase(stream);
  void* const name = reinterpret_cast<void*>(~gone_++);
  for (Known* known : {&asked_, &host_}) rename(known, stream, name);
  for (auto* all : {&streams_, &events_})
    for (auto& [key, known] : *all) rename(&known, stream, name);
  streams_.erase(stream);
}

void Order::begin(void* stream) {
  streams_.clear(), events_.clear(), asked_.clear(), host_.clear();
  own_ = stream;
  asked(own_);  // what it had to do before the call
}

void Order::asked(void* stream) {
  stream = named(stream);
  ready(stream)[stream] = ++asked_[stream];
}

bool Order::is_forked(void* stream) { return ready(stream).contains(own_); }

void Order::recorded(void* event, void* stream) { events_[event] = ready(stream); }

void Order::waits(void* stream, void* event) {
  if (auto found = events_.find(event); found != events_.end()) join(&ready(stream), found->second);
}

void Order::over(void* stream) { join(&host_, ready(stream)); }

void Order::passed(void* event) {
  if (auto found = events_.find(event); found != events_.end()) join(&host_, found->second);
}

void Order::all_over() { join(&host_, asked_); }

bool Order::is_joined() {
  const Known& known = ready(own_);
  return std::all_of(asked_.begin(), asked_.end(), [&](const auto& one) {
    auto found = known.find(one.first);
    return found != known.end() && found->second >= one.second;
  });
}

}  // namespace worker
