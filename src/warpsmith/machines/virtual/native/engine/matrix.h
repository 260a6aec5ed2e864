// Declarations that the matrix instructions share. Operands are kept in a table, because they outnumber the fields of
// Inst.
#pragma once

#include "lower.h"
#include "warp.h"

namespace vgpu {

bool whole_warp(Warp& warp, const Inst& inst);  // returns false with a finding if lanes are missing
const std::vector<uint32_t>& places_of(const Inst& inst);
Inst& emit_matrix(Lowering& lowering, Handler fn, std::vector<uint32_t> places);
bool fragment_sources(Lowering& lowering, const ptx::Operand& operand, int width, size_t count,
                      std::vector<uint32_t>* places);
bool fragment_targets(Lowering& lowering, const ptx::Operand& operand, int width, size_t count,
                      std::vector<uint32_t>* places);

}  // namespace vgpu
