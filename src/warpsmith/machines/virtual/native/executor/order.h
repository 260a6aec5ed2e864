// Order of operations: vector clocks over lanes, exact for every directed acyclic graph of operations. The caller names
// the operations that a new one waits for; streams and events are not known here.
#pragma once

#include <cstdint>
#include <vector>

namespace executor {

using Operation = uint32_t;  // from 1; 0 is none

class Order {
 public:
  // Adds an operation after the named ones and after all that the host has waited for.
  Operation add(const std::vector<Operation>& after);

  // The host has waited for `operation`: later operations come after it.
  void host_waited_for(Operation operation) { join(&host_, clocks_[operation]); }

  bool before(Operation earlier, Operation later) const;
  Operation last() const { return Operation(clocks_.size() - 1); }

 private:
  using Clock = std::vector<uint32_t>;  // for each lane, the number of complete operations

  static void join(Clock* into, const Clock& from);
  uint32_t lane_for(const Clock& clock);

  struct Position {
    uint32_t lane = 0, place = 0;
  };
  std::vector<Clock> clocks_{Clock{}};
  std::vector<Position> positions_{Position{}};
  std::vector<uint32_t> lengths_;  // number of operations in each lane
  Clock host_;
};

}  // namespace executor
