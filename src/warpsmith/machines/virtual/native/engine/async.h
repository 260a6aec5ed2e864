// Declarations that the asynchronous copies share: the arrival of a copy at an mbarrier.
#pragma once

#include "control.h"
#include "lower.h"

namespace vgpu {

// Emits the arrival of bytes at the mbarrier that the operand names; `bytes` is the place of the byte count. If
// `blocks` is the place of a mask, the bytes arrive at the same mbarrier of each of these blocks.
bool lower_completion(Lowering& lowering, const ptx::Operand& barrier, int32_t bytes, int32_t blocks = kNoLane);
bool lower_tensor_copy(Lowering& lowering);  // cp.async.bulk.tensor

}  // namespace vgpu
