// Operations of a stream: a launch, a copy, a memset, a release of memory, or none.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "../engine/engine.h"

namespace executor {

struct Nothing {};

struct Kernel {
  int function = -1;
  vgpu::Launch launch;
};

enum class Direction : uint64_t { In = 0, Out = 1, Within = 2 };

// A copy of rows of `width` bytes. The address of the host side belongs to another process; `staged` holds its rows
// once they are read.
struct Copy {
  Direction direction = Direction::Within;
  uint64_t to = 0, to_pitch = 0, from = 0, from_pitch = 0, width = 0, height = 1;
  bool is_staged = false;
  std::vector<uint8_t> staged;
};

struct Fill {
  uint64_t to = 0, pitch = 0;
  uint32_t value = 0;
  uint64_t element = 1, count = 0, rows = 1;
};

struct Release {
  uint64_t start = 0;
};

using Work = std::variant<Nothing, Kernel, Copy, Fill, Release>;

}  // namespace executor
