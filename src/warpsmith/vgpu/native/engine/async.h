// What the asynchronous copies share: the end of a copy at an mbarrier.
#pragma once

#include "lower.h"

namespace vgpu {

// Emits the arrival of bytes at the mbarrier that the operand names; `bytes` is the place of their count.
bool lower_completion(Lowering& l, const ptx::Operand& barrier, int32_t bytes);
bool lower_tensor_copy(Lowering& l);  // cp.async.bulk.tensor

}  // namespace vgpu
