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
#include "range.h"

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

// Empty here, so that the compiler's complaint names the operator that was wanted from them.
namespace torch {
namespace nn::functional {}
namespace nn::init {}
namespace linalg {}
namespace special {}
namespace fft {}
namespace indexing {}
namespace autograd {}
namespace jit {}
}  // namespace torch
namespace at {
namespace native {}
namespace cuda::blas {}
namespace indexing {}
}  // namespace at
