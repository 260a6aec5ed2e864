// Checks of one request against the shadow cells: reads of unwritten memory, and races.
#pragma once

#include "access.h"

namespace vgpu {

struct View {
  Cells* cells = nullptr;
  int64_t origin = 0;  // byte offset of the first lane's access
  Address first = 0;   // its address, for messages
  uint32_t own = 0;    // this warp's stamp << 6
  uint32_t safe = 0;
  bool shared = false;  // the cells count clocks of warps; else they hold segments
  const char* space = "global";
};

View shared_view(Warp& warp, Block& owner, int64_t origin);
View global_view(Warp& warp, Allocation* allocation, Address first);
void shadow_read(Warp& warp, const Inst& inst, const View& view, const Memo& memo, uint32_t bytes, Strength strength);
void shadow_write(Warp& warp, const Inst& inst, const View& view, const Memo& memo, uint32_t bytes, Strength strength,
                  Access* access);
bool ordered_before(Warp& warp, bool shared, uint32_t cell, int lane);
std::string name_other_access(Warp& warp, bool shared, uint32_t cell);
constexpr uint32_t kPendingClock = 0x1fffff;  // the clock that marks an unfinished cp.async

}  // namespace vgpu
