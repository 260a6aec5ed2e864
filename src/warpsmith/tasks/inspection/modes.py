"""How foreign code is run here: where we say, whatever device it names, and in float64, whatever type it casts to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from warpsmith.tasks.inputs import TORCH

CPU = torch.device("cpu")
NARROW = frozenset(there for ours, there in TORCH.items() if ours.floating) - {torch.float64}
CASTS = frozenset({Tensor.float, Tensor.half, Tensor.bfloat16})


class OnDevice(TorchFunctionMode):
    """`.cuda()` and `device="cuda"` mean the given device: the CPU, unless a reference is computed elsewhere."""

    def __init__(self, device: torch.device = CPU) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is Tensor.cuda:
            return args[0].to(self._device)
        return func(*map(self._moved, args), **{key: self._moved(value) for key, value in (kwargs or {}).items()})

    def _moved(self, value: Any) -> Any:
        if isinstance(value, torch.device):
            return self._device if value.type == "cuda" else value
        return self._device if isinstance(value, str) and value.split(":")[0] == "cuda" else value


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


@contextmanager
def on_device(device: torch.device = CPU) -> Iterator[None]:
    """Tensors made in here, with or without a device named, are on the one given."""
    with OnDevice(device), torch.device(device) if device != CPU else nullcontext():
        yield
