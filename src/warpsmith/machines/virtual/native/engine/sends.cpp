#include "sends.h"

#include <cstring>

#include "grid.h"

namespace vgpu {

namespace {

void make(Warp& w, const PendingSend& s) {
  for (const PendingSend::Part& part : s.parts) {
    if (std::memcmp(part.from, part.was, part.bytes) != 0)
      report(w, *s.inst, s.lane, {"race", part.address, part.bytes, "shared", false}, [] {
        return std::string("sends shared memory that is written again before the copy has been waited for");
      });
    std::memcpy(part.to, part.from, part.bytes);
  }
}

template <class F>
void make_due(Warp& w, uint32_t lanes, F due) {
  if (w.sends.empty()) return;
  size_t kept = 0;
  for (size_t i = 0; i < w.sends.size(); ++i) {
    PendingSend& s = w.sends[i];
    if (lanes >> s.lane & 1 && due(s)) make(w, s);
    else if (kept++ != i) w.sends[kept - 1] = std::move(s);
  }
  w.sends.resize(kept);
}

void commit_sends(Warp& w, const Inst&) {
  each(w.mask, [&](int lane) { ++w.send_group[lane]; });
}

void wait_sends(Warp& w, const Inst& i) {
  make_due(w, w.mask, [&](const PendingSend& s) { return s.group + uint32_t(i.imm) < w.send_group[s.lane]; });
}

}  // namespace

void send(Warp& w, const Inst& inst, int lane, const PendingSend::Part& part) {
  const bool more = !w.sends.empty() && w.sends.back().inst == &inst && w.sends.back().lane == lane &&
                    w.sends.back().group == w.send_group[lane];
  if (!more) w.sends.push_back({&inst, uint8_t(lane), w.send_group[lane], {}});
  w.sends.back().parts.push_back(part);
  std::memcpy(w.sends.back().parts.back().was, part.from, part.bytes);
}

void finish_sends(Warp& w, uint32_t lanes) {
  make_due(w, lanes, [](const PendingSend&) { return true; });
}

bool lower_sends(Lowering& l) {
  if (l.has("commit_group")) {
    l.emit(commit_sends);
    return true;
  }
  int64_t left = 0;
  if (l.operands() != 1 || !l.number(l.operand(0), &left)) return false;
  l.emit(wait_sends).imm = left;
  return true;
}

}  // namespace vgpu
