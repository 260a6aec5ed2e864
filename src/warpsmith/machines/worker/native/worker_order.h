// What is known to be over when: the order that streams, events and waits of the host give to the work of one call.
// Work that the call's own stream does not come to know of is still to run when the results are read, and work that
// does not know how far that stream had come may read arguments before they are made.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace worker {

class Order {
 public:
  // A stream, and whether the legacy default stream waits for it and it for that; one that had its address is another.
  void made(void* stream, bool with_default);
  void made(void* event) { events_.erase(event); }

  void begin(void* stream);  // nothing is to run yet; `stream` is the call's own
  void asked(void* stream);
  bool is_forked(
      void* stream);  // whether what it is asked for now comes after what the call's own stream had to do before
  void recorded(void* event, void* stream);
  void waits(void* stream, void* event);
  void over(void* stream);  // the host knows that all of it is
  void passed(void* event);
  void all_over();
  bool is_joined();  // whether the call's own stream ends after everything else

 private:
  using Known = std::map<void*, uint64_t>;  // how much of each stream's work

  static void join(Known* to, const Known& from);
  static void rename(Known* known, void* stream, void* name);
  Known& ready(void* stream);  // what a stream knows that is asked for something now

  std::set<void*> with_default_ = {reinterpret_cast<void*>(2)};  // the thread's own default stream
  std::map<void*, Known> streams_, events_;
  Known asked_, host_;
  void* own_ = nullptr;
  uintptr_t gone_ = 0;  // streams whose address another has now
};

}  // namespace worker
