"""A fake program for tests of filters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from warpsmith.records import (
    Argument,
    ArgumentKind,
    Case,
    Dtype,
    Group,
    Origin,
    Role,
    Signature,
    Task,
    Tolerance,
    Trial,
)
from warpsmith.tasks.filters.plan import Clock, pair_of_seeds
from warpsmith.tasks.filters.subject import FilteredProgram, Sample
from warpsmith.tasks.formats import backward_signature
from warpsmith.tasks.inputs import Values, outputs

CASE = Case(name="only", group=Group.DEV, axes={"rows": 8}, dtype=Dtype.FLOAT32)
LETTERS = {"x": Role.INPUT, "w": Role.PARAMETER, "i": Role.FIXED}


@dataclass
class FakeProgram:
    """A program whose arguments x… are inputs, w… parameters and i… integers below eight."""

    function: Callable[..., object]
    names: Sequence[str] = ("x",)
    shape: tuple[int, ...] = (8, 16)
    origin: Origin = Origin.SUITE
    calls: int = field(default=0)

    @property
    def task(self) -> Task:
        """Return a task of one case."""
        specs = [Argument(name=name, kind=ArgumentKind.TENSOR, role=LETTERS[name[0]]) for name in self.names]
        forward = Signature(arguments=tuple(specs), results=("out",))
        return Task(
            name="fake",
            version="0",
            origin=self.origin,
            description="a function under test",
            source="",
            forward=forward,
            backward=backward_signature(forward, ()),
            cases=(CASE,),
            tolerance=Tolerance(norm_floor={Dtype.FLOAT32: 2e-6}),
        )

    def arguments(self, trial: Trial) -> Values:
        """Draw normal values, or integers, from the seed."""
        source = torch.Generator().manual_seed(trial.seed)
        return tuple(
            torch.randint(8, self.shape[:1], generator=source)
            if name[0] == "i"
            else torch.randn(self.shape, generator=source)
            for name in self.names
        )

    def forward(self, arguments: Values) -> tuple[Tensor, ...]:
        """Call the function and count the call."""
        self.calls += 1
        return outputs(self.function(*arguments))

    def backward_arguments(self, arguments: Values, grads: Sequence[Tensor]) -> Values:
        """Return upstream gradients followed by forward's arguments."""
        return (*grads, *arguments)


def fake_program(function: Callable[..., object], *names: str, shape: tuple[int, ...] = (8, 16)) -> FilteredProgram:
    """Return a filtered program without a time limit."""
    return FilteredProgram(FakeProgram(function, names or ("x",), shape), Clock(60.0))


def draw_samples(given: FilteredProgram) -> tuple[Sample, Sample]:
    """Draw two samples of a program."""
    base, other = pair_of_seeds(CASE)
    return given.draw_sample(base), given.draw_sample(other)
