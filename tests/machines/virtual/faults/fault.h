// What the faulty kernels share. Each takes 1024 floats and comes twice: as it is, and with `kFixed` repaired.
#pragma once

#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

inline cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }

// A launch of KERNEL<<<BLOCKS, THREADS, SHARED>>>(x, out, n) with an output of the input's size.
#define RUN(KERNEL, BLOCKS, THREADS, SHARED)                                                                       \
  [](torch::Tensor x) {                                                                                            \
    auto out = torch::zeros_like(x);                                                                               \
    KERNEL<<<BLOCKS, THREADS, SHARED, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), int(x.numel()));     \
    return out;                                                                                                    \
  }

// Both twins of one kernel under its name, the repaired one with `_fixed` behind it.
#define TWINS(NAME, BLOCKS, THREADS, SHARED)                   \
  m.def(#NAME, RUN(NAME<false>, BLOCKS, THREADS, SHARED));     \
  m.def(#NAME "_fixed", RUN(NAME<true>, BLOCKS, THREADS, SHARED))
#define HOST_TWINS(NAME)              \
  m.def(#NAME, &NAME<false>);         \
  m.def(#NAME "_fixed", &NAME<true>)
