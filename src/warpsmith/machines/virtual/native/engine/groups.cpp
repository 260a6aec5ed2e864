// Groups of lanes of one warp: the lowest basic block runs first, groups that meet become one.
#include "control.h"

namespace vgpu {

void park(Warp& w, GroupState state, uint32_t at) {
  Group& g = w.groups[w.group_count++];
  g.at = at;
  g.mask = w.mask;
  g.state = state;
  g.stamp = w.executed;
  w.mask = 0;
}

void split(Warp& w, uint32_t at, uint32_t mask) {
  for (int i = 0; i < w.group_count; ++i)
    if (w.groups[i].at == at && w.groups[i].state != GroupState::AtBarrier) {
      w.groups[i].mask |= mask;
      w.groups[i].state = GroupState::Ready;
      return;
    }
  Group& g = w.groups[w.group_count++];
  g.at = at;
  g.mask = mask;
  g.state = GroupState::Ready;
  g.stamp = 0;
}

namespace {

int pick(const Warp& w, bool fair) {
  int best = -1;
  for (int i = 0; i < w.group_count; ++i) {
    if (w.groups[i].state != GroupState::Ready) continue;
    if (best < 0 || (fair ? w.groups[i].stamp < w.groups[best].stamp : w.groups[i].at < w.groups[best].at)) best = i;
  }
  return best;
}

}  // namespace

bool wake(Warp& w) {
  for (int i = 0; i < w.group_count; ++i)
    if (w.groups[i].state == GroupState::AtWarpSync) {
      w.groups[i].state = GroupState::Ready;
      w.alone = true;
      return true;
    }
  return false;
}

bool choose(Warp& w, bool fair) {
  int best = pick(w, fair);
  if (best < 0) return false;
  uint32_t at = w.groups[best].at, mask = 0;
  w.others = UINT32_MAX;
  for (int i = 0; i < w.group_count;) {
    Group& g = w.groups[i];
    if (g.at == at && g.state != GroupState::AtBarrier) {
      mask |= g.mask;
      g = w.groups[--w.group_count];
      continue;
    }
    // A fair turn is not cut short by groups that lie lower. Who waits for lanes at a warp-wide instruction is met
    // there.
    if (g.state != GroupState::AtBarrier && (!fair || g.at > at) && g.at < w.others) w.others = g.at;
    ++i;
  }
  w.at = at;
  set_mask(w, mask);
  return true;
}

}  // namespace vgpu
