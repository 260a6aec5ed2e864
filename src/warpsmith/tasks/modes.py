"""How foreign code is run here: on the CPU whatever device it names, and in float64 whatever type it casts to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16})
CASTS = frozenset({Tensor.float, Tensor.half, Tensor.bfloat16})


class OnCpu(TorchFunctionMode):
    """`.cuda()` and `device="cuda"` mean the CPU: the reference is computed there, a GPU or not."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is Tensor.cuda:
            return args[0]
        return func(*map(_cpu, args), **{key: _cpu(value) for key, value in (kwargs or {}).items()})


class Lifted(TorchFunctionMode):
    """A cast to a narrow type is a cast to float64, so that the reference of a task that casts stays exact."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in CASTS:
            return args[0].double()
        return func(*map(_wide, args), **{key: _wide(value) for key, value in (kwargs or {}).items()})


@contextmanager
def lifted() -> Iterator[None]:
    """Everything floating in here is float64, tensors made from nothing included."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Lifted():
            yield
    finally:
        torch.set_default_dtype(before)


def _wide(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in NARROW else value


def _cpu(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    return "cpu" if isinstance(value, str) and value.split(":")[0] == "cuda" else value
