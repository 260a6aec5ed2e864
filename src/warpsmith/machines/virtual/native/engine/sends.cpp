#include "sends.h"

#include <cstring>

#include "grid.h"

namespace vgpu {

namespace {

void perform_send(Warp& warp, const PendingSend& pending) {
  for (const PendingSend::Part& part : pending.parts) {
    if (std::memcmp(part.from, part.was, part.bytes) != 0)
      report(warp, *pending.inst, pending.lane, {"race", part.address, part.bytes, "shared", false}, [] {
        return std::string("sends shared memory that is written again before the copy has been waited for");
      });
    std::memcpy(part.to, part.from, part.bytes);
  }
}

template <class F>
void perform_due(Warp& warp, uint32_t lanes, F due) {
  if (warp.sends.empty()) return;
  size_t kept = 0;
  for (size_t i = 0; i < warp.sends.size(); ++i) {
    PendingSend& pending = warp.sends[i];
    if (lanes >> pending.lane & 1 && due(pending)) perform_send(warp, pending);
    else if (kept++ != i) warp.sends[kept - 1] = std::move(pending);
  }
  warp.sends.resize(kept);
}

void commit_sends(Warp& warp, const Inst&) {
  each(warp.mask, [&](int lane) { ++warp.send_group[lane]; });
}

void wait_sends(Warp& warp, const Inst& inst) {
  perform_due(warp, warp.mask, [&](const PendingSend& pending) {
    return pending.group + uint32_t(inst.imm) < warp.send_group[pending.lane];
  });
}

}  // namespace

void queue_send(Warp& warp, const Inst& inst, int lane, const PendingSend::Part& part) {
  const bool more = !warp.sends.empty() && warp.sends.back().inst == &inst && warp.sends.back().lane == lane &&
                    warp.sends.back().group == warp.send_group[lane];
  if (!more) warp.sends.push_back({&inst, uint8_t(lane), warp.send_group[lane], {}});
  warp.sends.back().parts.push_back(part);
  std::memcpy(warp.sends.back().parts.back().was, part.from, part.bytes);
}

void finish_sends(Warp& warp, uint32_t lanes) {
  perform_due(warp, lanes, [](const PendingSend&) { return true; });
}

bool lower_sends(Lowering& lowering) {
  if (lowering.has("commit_group")) {
    lowering.emit(commit_sends);
    return true;
  }
  int64_t left = 0;
  if (lowering.operands() != 1 || !lowering.number(lowering.operand(0), &left)) return false;
  lowering.emit(wait_sends).imm = left;
  return true;
}

}  // namespace vgpu
