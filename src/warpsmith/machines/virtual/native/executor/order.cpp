// Vector clocks of operations.
#include "order.h"

#include <algorithm>

namespace executor {

void Order::join(Clock* into, const Clock& from) {
  if (into->size() < from.size()) into->resize(from.size(), 0);
  for (size_t lane = 0; lane < from.size(); ++lane) (*into)[lane] = std::max((*into)[lane], from[lane]);
}

// Returns a lane for the operation. A lane is a chain: each operation comes after all earlier ones of its lane.
uint32_t Order::lane_for(const Clock& clock) {
  for (size_t lane = 0; lane < lengths_.size(); ++lane)
    if (lane < clock.size() && clock[lane] == lengths_[lane]) return uint32_t(lane);
  lengths_.push_back(0);
  return uint32_t(lengths_.size() - 1);
}

Operation Order::add(const std::vector<Operation>& after) {
  Clock clock = host_;
  for (Operation operation : after) join(&clock, clocks_[operation]);
  uint32_t lane = lane_for(clock);
  uint32_t place = ++lengths_[lane];
  if (clock.size() <= lane) clock.resize(lane + 1, 0);
  clock[lane] = place;
  clocks_.push_back(std::move(clock));
  positions_.push_back({lane, place});
  return last();
}

bool Order::before(Operation earlier, Operation later) const {
  if (earlier == 0 || later == 0 || earlier >= clocks_.size() || later >= clocks_.size()) return earlier < later;
  if (earlier == later) return false;
  const Clock& clock = clocks_[later];
  Position position = positions_[earlier];
  return position.lane < clock.size() && clock[position.lane] >= position.place;
}

}  // namespace executor
