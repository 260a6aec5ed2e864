// Execution of a grid: blocks become resident, run in turns, and leave.
#pragma once

#include "grid.h"

namespace vgpu {

std::string check_limits(const Gpu& gpu, const Launch& launch, const Program& program, const ptx::Function& entry,
                         std::pair<int, size_t> resources);
void run_grid(Grid& grid);
void gather_counters(Grid& grid);

}  // namespace vgpu
