"""CUDA C++ in the form of PyTorch extensions: functions over `torch::Tensor` and PYBIND11_MODULE."""

from warpsmith.languages.cuda import cuda_language, torch_skeleton
from warpsmith.languages.nvcc import exported
from warpsmith.records import Language

RULES = """\
- Give one complete CUDA C++ file. It is compiled by nvcc without libtorch: `#include <torch/extension.h>` gives
  `torch::Tensor`, factories, dispatch and check macros and the current stream, but no ATen operators.
- Export the function with exactly the signature of the skeleton. Launch on the current stream."""


def is_torch(source: str) -> bool:
    """Whether a source exports its functions as a PyTorch extension, as far as its text tells."""
    return "PYBIND11_MODULE" in source or not exported(source)


LANGUAGE = cuda_language(
    key=Language.TORCH,
    rules=RULES,
    results_preallocated=False,
    recognizes=is_torch,
    skeleton=torch_skeleton,
)
