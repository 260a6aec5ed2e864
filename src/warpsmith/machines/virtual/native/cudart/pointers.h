// Kinds of pointers: pinned host memory, device memory, or neither.
#pragma once

#include "link.h"

namespace standin {

bool is_pinned(const void* address);
bool is_device(const void* address);

}  // namespace standin
