// Copies from shared to global memory (cp.async.bulk with a bulk_group). They read as late as a GPU may: when their
// group is waited for, or their thread exits. What lies there by then is what is written, and a change in between is a
// race.
#pragma once

#include "lower.h"
#include "warp.h"

namespace vgpu {

void send(Warp& warp, const Inst& inst, int lane,
          const PendingSend::Part& part);       // of a copy that has not been committed
void finish_sends(Warp& warp, uint32_t lanes);  // of threads that exit
bool lower_sends(Lowering& lowering);           // cp.async.bulk.commit_group, .wait_group

}  // namespace vgpu
