// Everything of torch that a kernel may name, and the parts of the C++ library that torch's own headers bring along.
#pragma once

#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "bind.h"
#include "cuda.h"
#include "dispatch.h"
#include "factory.h"
#include "numeric.h"

namespace at {
using namespace c10;
}
namespace torch {
using namespace at;
using Dtype = c10::ScalarType;
struct NoGradGuard {
  NoGradGuard() {}
};
struct InferenceMode {
  explicit InferenceMode(bool = true) {}
};
}  // namespace torch
namespace at {
using torch::NoGradGuard;
}
