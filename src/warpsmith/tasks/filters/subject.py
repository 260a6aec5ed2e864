"""The task under its filters: draws made small enough, calls that cannot touch their arguments.

A task whose inputs are large is looked at on the first rows of its leading axis, where it runs on them.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from warpsmith.records import Case, Role, Trial
from warpsmith.tasks.filters.plan import Clock, pair
from warpsmith.tasks.inputs import Value, Values, mapped, tensors
from warpsmith.tasks.reference import TaskProgram

ELEMENTS = 1 << 20  # inputs past this are cut: 4 MiB of float32, a fraction of a second for most operations
ROWS = 4  # the least that is kept of the leading axis, so that variation along it still shows
REFUSALS = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    AssertionError,
)  # what torch says of shapes that do not fit


@dataclass(frozen=True)
class Cut:
    """Which arguments are cut to how many rows."""

    places: frozenset[int]
    rows: int
    of: int

    def apply(self, arguments: Values) -> Values:
        """The arguments with the chosen ones cut; copies, so that the large ones can be freed."""
        chosen = (self._one(value) if place in self.places else value for place, value in enumerate(arguments))
        return tuple(chosen)

    def _one(self, value: Value) -> Value:
        return mapped((value,), lambda t: t[: self.rows].clone() if _rows(t) == self.of else t)[0]


@dataclass(frozen=True)
class Sample:
    """One call that was made: the trial, its arguments and what came out."""

    trial: Trial
    arguments: Values
    outputs: tuple[Tensor, ...]

    @property
    def where(self) -> str:
        """The draw in words, for a sentence."""
        return f"case '{self.trial.case.name}', init {self.trial.init}, seed {self.trial.seed}"


class FilteredProgram:
    """A program with its clock and its cut. `names` are forward's arguments, `results` what it returns."""

    def __init__(self, program: TaskProgram, clock: Clock) -> None:
        self.program = program
        self.clock = clock
        self.signature = program.task.forward
        self._cuts: dict[str, Cut | None] = {}

    def elements(self, case: Case) -> int:
        """Elements of a case's arguments, counted without their memory; zero where that cannot be done."""
        try:
            with torch.device("meta"), torch.no_grad():
                return sum(tensor.numel() for tensor in tensors(self.program.arguments(pair(case)[0])))
        except Exception:  # noqa: BLE001 - whatever fails here is told by the draw with real tensors that follows
            return 0

    def sample(self, trial: Trial) -> Sample:
        """Draw and call; the first draw of a case decides how it is cut."""
        arguments = self.program.arguments(trial)
        if trial.case.name in self._cuts:
            arguments = self._trimmed(trial, arguments)
            return Sample(trial, arguments, self.call(arguments))
        for cut in self._choices(arguments):
            try:
                smaller = cut.apply(arguments)
                found = Sample(trial, smaller, self.call(smaller))
            except REFUSALS:
                continue
            self._cuts[trial.case.name] = cut
            return found
        self._cuts[trial.case.name] = None
        return Sample(trial, arguments, self.call(arguments))

    def call(self, arguments: Values) -> tuple[Tensor, ...]:
        """Forward without gradients on copies: a task may work in place."""
        begun = time.monotonic()
        with torch.no_grad():
            found = self.program.forward(mapped(arguments, torch.clone))
        self.clock.forward_s = max(self.clock.forward_s, time.monotonic() - begun)
        return tuple(part.detach() for part in found)

    def result_name(self, place: int) -> str:
        """The name of an output."""
        names = self.signature.results
        return names[place] if place < len(names) else f"output {place}"

    def notes(self) -> tuple[str, ...]:
        """How inputs were made smaller."""
        cut = [(name, cut) for name, cut in self._cuts.items() if cut]
        return tuple(
            f"case '{name}' was looked at on {cut.rows} of {cut.of} rows of "
            f"{', '.join(self.signature.arguments[place].name for place in sorted(cut.places))}"
            for name, cut in cut
        )

    def _trimmed(self, trial: Trial, arguments: Values) -> Values:
        cut = self._cuts[trial.case.name]
        return cut.apply(arguments) if cut else arguments

    def _choices(self, arguments: Values) -> Iterable[Cut]:
        """Cuts to try, widest first: all data of the leading size, the inputs among it, the first input alone."""
        roles = [spec.role for spec in self.signature.arguments]
        data = [place for place, role in enumerate(roles) if role in (Role.INPUT, Role.FIXED)]
        inputs = [place for place in data if roles[place] is Role.INPUT] or data
        leading = next((_rows(t) for t in tensors(arguments[place] for place in inputs)), 0)
        total = sum(t.numel() for t in tensors(arguments[place] for place in data))
        rows = max(ROWS, leading * ELEMENTS // max(total, 1))
        if total <= ELEMENTS or rows >= leading:
            return
        full = Cut(frozenset(data), rows, leading)
        for places in (data, inputs, inputs[:1]):
            yield replace(full, places=frozenset(p for p in places if _has(arguments[p], leading)))


def _rows(tensor: Tensor) -> int:
    return tensor.shape[0] if tensor.ndim else 0


def _has(value: Value, rows: int) -> bool:
    return any(_rows(tensor) == rows for tensor in tensors((value,)))
