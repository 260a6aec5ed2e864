"""The correct kernels as data: what each is called with, what must come back, and how near. Knows no sandbox."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from exactly import FLOAT32, Format, evaluate

KERNELS = Path(__file__).parent / "kernels"
Value = torch.Tensor | float | int | bool | None
Bound = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Sample:
    """One call of one entry. Without `bound` the result must have the same bits, any NaN being one NaN."""

    entry: str
    arguments: tuple[Value, ...]
    expected: tuple[torch.Tensor, ...]
    bound: Bound | None = None
    tag: str = ""
    order_free: bool = False  # results are sets: compared after sorting
    says: str = ""  # what device printf must have written

    @property
    def name(self) -> str:
        """The entry, and what tells this call from the others of it."""
        return f"{self.entry}-{self.tag}" if self.tag else self.entry

    def fault(self, found: tuple[torch.Tensor, ...]) -> str:
        """What is wrong with the results, or nothing."""
        if len(found) != len(self.expected):
            return f"{len(found)} results; expected {len(self.expected)}"
        faults = (self._differs(got, want) for got, want in zip(found, self.expected, strict=True))
        return next((fault for fault in faults if fault), "")

    def _differs(self, found: torch.Tensor, expected: torch.Tensor) -> str:
        if found.shape != expected.shape:
            return f"shape {tuple(found.shape)}; expected {tuple(expected.shape)}"
        if self.order_free:
            found, expected = found.sort().values, expected.sort().values
        if self.bound is None:
            return difference(found, expected)
        return beyond(found, expected, self.bound(expected.double()))


def agreement(sample: Sample, one: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...]) -> str:
    """Where two runs of a sample differ by more than each may differ from the truth; nothing when they agree."""
    bound = sample.bound
    twice = None if bound is None else lambda expected: 2 * bound(expected)
    return Sample(sample.entry, (), other, bound=twice, order_free=sample.order_free).fault(one)


def difference(found: torch.Tensor, expected: torch.Tensor) -> str:
    """The first place where the bits differ."""
    if found.dtype != expected.dtype:
        return f"dtype {found.dtype}; expected {expected.dtype}"
    equal = found == expected
    if found.is_floating_point():
        equal = (equal & (found.signbit() == expected.signbit())) | (found.isnan() & expected.isnan())
    return _first(~equal, found, expected)


def beyond(found: torch.Tensor, expected: torch.Tensor, bound: torch.Tensor) -> str:
    """The first place where the error is above its bound; NaN is above every bound."""
    return _first(~((found.double() - expected.double()).abs() <= bound), found, expected)


def _first(wrong: torch.Tensor, found: torch.Tensor, expected: torch.Tensor) -> str:
    if not wrong.any():
        return ""
    place = tuple(int(index) for index in wrong.nonzero()[0])
    got, want = found[place].item(), expected[place].item()
    return f"{int(wrong.sum())} of {wrong.numel()} differ; at {place} {got}, expected {want}"


def sample(entry: str, *arguments: Value, **more: object) -> Callable[[Callable[..., object]], Sample]:
    """A sample whose expectation is the decorated function of the arguments."""

    def made(reference: Callable[..., object]) -> Sample:
        expected = reference(*arguments)
        results = expected if isinstance(expected, tuple) else (expected,)
        return Sample(entry, arguments, results, **more)  # type: ignore[arg-type]

    return made


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal numbers from a seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def whole(*shape: int, low: int = -8, high: int = 9, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Whole numbers: sums and products of few of them are exact in every order."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def ulps(*counts: float) -> Bound:
    """A bound in units of the last place of float32, from the right result rounded to float32; one count a column."""

    def bound(expected: torch.Tensor) -> torch.Tensor:
        exponent = torch.frexp(expected).exponent.clamp(min=-125)
        return torch.tensor(counts, dtype=torch.float64) * torch.exp2((exponent - 24).double())

    return bound


def relative(error: float) -> Bound:
    """A bound relative to the largest expected magnitude: for sums whose order is free."""
    return lambda expected: torch.full_like(expected, error) * expected.abs().max()


def by_element(
    operation: Callable[..., object], *tensors: torch.Tensor, to: Format = FLOAT32, mode: str = "rn"
) -> torch.Tensor:
    """An operation on each element, computed exactly and rounded once."""
    columns = [tensor.double().flatten().tolist() for tensor in tensors]
    values = [evaluate(operation, to, mode, *row) for row in zip(*columns, strict=True)]  # type: ignore[arg-type]
    return torch.tensor(values, dtype=torch.float64).to(tensors[0].dtype).reshape(tensors[0].shape)


@cache
def samples(module: str) -> tuple[Sample, ...]:
    """The samples of one file of kernels, from the file of the same name beside it."""
    found = vars(importlib.import_module(f"kernels.{module}")).values()
    return tuple(value for value in found if isinstance(value, Sample))


def modules() -> tuple[str, ...]:
    """The names of the files of kernels."""
    return tuple(sorted(path.stem for path in KERNELS.glob("*.cu")))


def source(module: str) -> str:
    """The text of a file of kernels."""
    return (KERNELS / f"{module}.cu").read_text()
