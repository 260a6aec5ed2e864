// What the asynchronous copies share: the end of a copy at an mbarrier.
#pragma once

#include "control.h"
#include "lower.h"

namespace vgpu {

// Emits the arrival of bytes at the mbarrier that the operand names; `bytes` is the place of their count. With the
// place of a mask of blocks it arrives at the same mbarrier of each of them.
bool lower_completion(Lowering& lowering, const ptx::Operand& barrier, int32_t bytes, int32_t blocks = kNoLane);
bool lower_tensor_copy(Lowering& lowering);  // cp.async.bulk.tensor

}  // namespace vgpu
