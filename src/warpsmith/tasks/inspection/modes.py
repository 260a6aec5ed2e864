"""Torch modes for foreign code: a chosen device, and float64 throughout."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from warpsmith.tasks.inputs import TORCH

CPU = torch.device("cpu")
NARROW = frozenset(there for ours, there in TORCH.items() if ours.floating) - {torch.float64}
# Methods whose name states the type, so that no argument can be widened.
CASTS = frozenset({Tensor.float, Tensor.half, Tensor.bfloat16})


class OnDevice(TorchFunctionMode):
    """A mode that moves CUDA tensors to the given device, usually the CPU."""

    def __init__(self, device: torch.device = CPU) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is Tensor.cuda:
            return args[0].to(self._device)
        return func(
            *map(self._move_value, args), **{key: self._move_value(value) for key, value in (kwargs or {}).items()}
        )

    def _move_value(self, value: Any) -> Any:
        """Return a device argument replaced by the chosen device."""
        # `torch.device("cuda")`, and strings such as "cuda:0".
        if isinstance(value, torch.device):
            return self._device if value.type == "cuda" else value
        return self._device if isinstance(value, str) and value.split(":")[0] == "cuda" else value


class CastsToFloat64(TorchFunctionMode):
    """A mode that widens every cast to float64."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in CASTS:
            return args[0].double()
        return func(*map(_widen, args), **{key: _widen(value) for key, value in (kwargs or {}).items()})


@contextmanager
def cast_to_float64() -> Iterator[None]:
    """Make every floating-point tensor inside float64, new tensors included."""
    before = torch.get_default_dtype()
    # Tensors that the code creates by itself take the default type.
    torch.set_default_dtype(torch.float64)
    try:
        with CastsToFloat64():
            yield
    finally:
        torch.set_default_dtype(before)


def _widen(value: Any) -> Any:
    """Return float64 in place of a narrower type."""
    return torch.float64 if isinstance(value, torch.dtype) and value in NARROW else value


@contextmanager
def run_on_device(device: torch.device = CPU) -> Iterator[None]:
    """Create every tensor inside on `device`."""
    with OnDevice(device), torch.device(device) if device != CPU else nullcontext():
        yield
