"""CUDA C++ as a PyTorch extension: functions over `torch::Tensor` and PYBIND11_MODULE."""

from warpsmith.languages.cuda import cuda_language, torch_skeleton
from warpsmith.languages.nvcc import exported_directions
from warpsmith.records import Language

RULES = """\
- Give one complete CUDA C++ file. It is compiled by nvcc without libtorch: `#include <torch/extension.h>` gives
  `torch::Tensor`, factories, dispatch and check macros and the current stream, but no ATen operators.
- Export the function with exactly the signature of the skeleton. Launch on the current stream."""


def is_torch(source: str) -> bool:
    """Whether a source exports functions as a PyTorch extension."""
    return "PYBIND11_MODULE" in source or not exported_directions(source)


LANGUAGE = cuda_language(
    key=Language.TORCH,
    rules=RULES,
    results_preallocated=False,
    recognizes=is_torch,
    skeleton=torch_skeleton,
)
