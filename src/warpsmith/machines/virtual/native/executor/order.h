// Which operation is complete before which may start: vector clocks over lanes, exact for any DAG of operations.
// Knows neither streams nor events; whoever adds an operation names those it waits for.
#pragma once

#include <cstdint>
#include <vector>

namespace executor {

using Operation = uint32_t;  // from 1; 0 is none

class Order {
 public:
  // A new operation after those named and after all the host has waited for.
  Operation add(const std::vector<Operation>& after);

  // The host has seen `operation` end: whatever it asks for next comes later.
  void host_saw(Operation operation) { join(&host_, clocks_[operation]); }

  bool before(Operation earlier, Operation later) const;
  Operation last() const { return Operation(clocks_.size() - 1); }

 private:
  using Clock = std::vector<uint32_t>;  // for each lane, how much of it is over

  static void join(Clock* into, const Clock& from);
  uint32_t lane_for(const Clock& clock);

  struct Seat {
    uint32_t lane = 0, place = 0;
  };
  std::vector<Clock> clocks_{Clock{}};
  std::vector<Seat> seats_{Seat{}};
  std::vector<uint32_t> lengths_;  // operations in each lane
  Clock host_;
};

}  // namespace executor
