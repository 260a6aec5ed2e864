// Copies by direction and rows, shared by streams and graphs.
#pragma once

#include "link.h"

namespace standin {

enum class Way : int { HostToHost = 0, In = 1, Out = 2, Within = 3, Default = 4 };

struct Rows {
  void* to = nullptr;
  size_t to_pitch = 0;
  const void* from = nullptr;
  size_t from_pitch = 0, width = 0, height = 1;
};

// cudaMemcpyDefault derives the direction from the pointers. As in CUDA, a device pointer on the host side is accepted.
Way resolve(Way way, const void* to, const void* from);
int transfer(const Rows& rows, Way way, uint64_t stream, bool blocking);

}  // namespace standin
