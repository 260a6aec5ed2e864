// Groups of lanes of one warp. The group at the lowest block runs first, so that diverged lanes reconverge; groups at
// the same block merge.
#include "control.h"

namespace vgpu {

void park_group(Warp& warp, GroupState state, uint32_t at) {
  Group& group = warp.groups[warp.group_count++];
  group.at = at;
  group.mask = warp.mask;
  group.state = state;
  group.stamp = warp.executed;
  warp.mask = 0;
}

void split_group(Warp& warp, uint32_t at, uint32_t mask) {
  for (int i = 0; i < warp.group_count; ++i)
    if (warp.groups[i].at == at && warp.groups[i].state != GroupState::AtBarrier) {
      warp.groups[i].mask |= mask;
      warp.groups[i].state = GroupState::Ready;
      return;
    }
  Group& group = warp.groups[warp.group_count++];
  group.at = at;
  group.mask = mask;
  group.state = GroupState::Ready;
  group.stamp = 0;
}

namespace {

int pick(const Warp& warp, bool fair) {
  int best = -1;
  for (int i = 0; i < warp.group_count; ++i) {
    if (warp.groups[i].state != GroupState::Ready) continue;
    if (best < 0 || (fair ? warp.groups[i].stamp < warp.groups[best].stamp : warp.groups[i].at < warp.groups[best].at))
      best = i;
  }
  return best;
}

}  // namespace

bool wake_group(Warp& warp) {
  for (int i = 0; i < warp.group_count; ++i)
    if (warp.groups[i].state == GroupState::AtWarpSync) {
      warp.groups[i].state = GroupState::Ready;
      warp.without_missing = true;
      return true;
    }
  return false;
}

bool choose_group(Warp& warp, bool fair) {
  int best = pick(warp, fair);
  if (best < 0) return false;
  uint32_t at = warp.groups[best].at, mask = 0;
  warp.others = UINT32_MAX;
  for (int i = 0; i < warp.group_count;) {
    Group& group = warp.groups[i];
    if (group.at == at && group.state != GroupState::AtBarrier) {
      mask |= group.mask;
      group = warp.groups[--warp.group_count];
      continue;
    }
    // A fair turn is not ended by groups at lower blocks. Lanes that wait at a warp-wide instruction join the group
    // when it arrives there.
    if (group.state != GroupState::AtBarrier && (!fair || group.at > at) && group.at < warp.others)
      warp.others = group.at;
    ++i;
  }
  warp.at = at;
  set_mask(warp, mask);
  return true;
}

}  // namespace vgpu
