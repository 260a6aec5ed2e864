// The direction of a copy and where its rows lie, said once for streams and for graphs.
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

// cudaMemcpyDefault looks at the pointers; a device pointer in the host's place is taken for what it is, as CUDA does.
Way resolve(Way way, const void* to, const void* from);
int transfer(const Rows& rows, Way way, uint64_t stream, bool blocking);

}  // namespace standin
