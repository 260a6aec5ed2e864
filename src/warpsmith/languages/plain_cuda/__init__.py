"""CUDA C++ as `extern "C"` functions over DLPack tensors; the caller passes results."""

from warpsmith.languages.cuda import cuda_language, plain_skeleton
from warpsmith.languages.nvcc import exported_directions
from warpsmith.records import Language

RULES = """\
- Give one complete CUDA C++ file with `extern "C"` functions over `DLTensor`; `#include <warpsmith/abi.h>` declares it.
- Export the function with exactly the signature of the skeleton: results come with their memory. Launch on the given
  stream, and return 0 if every call succeeded."""


def is_plain(source: str) -> bool:
    """Whether a source exports `extern "C"` functions."""
    return "PYBIND11_MODULE" not in source and bool(exported_directions(source))


LANGUAGE = cuda_language(
    key=Language.PLAIN,
    rules=RULES,
    results_preallocated=True,
    recognizes=is_plain,
    skeleton=plain_skeleton,
)
