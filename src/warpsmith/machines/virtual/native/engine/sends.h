// Copies from shared to global memory (cp.async.bulk with a bulk_group). The engine reads the source as late as a GPU
// may: when the group is waited for, or when the thread exits. The bytes at that time are copied. A change since the
// issue is reported as a race.
#pragma once

#include "lower.h"
#include "warp.h"

namespace vgpu {

void queue_send(Warp& warp, const Inst& inst, int lane,
                const PendingSend::Part& part);  // adds to the group that is not yet committed
void finish_sends(Warp& warp, uint32_t lanes);   // of threads that exit
bool lower_sends(Lowering& lowering);            // cp.async.bulk.commit_group, .wait_group

}  // namespace vgpu
