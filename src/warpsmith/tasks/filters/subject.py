"""A task under its filters: bounded samples, protected arguments."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from warpsmith.records import Case, Role, Trial
from warpsmith.tasks.filters.plan import Clock, pair_of_seeds
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
class RowLimit:
    """The arguments to cut, and the rows that stay."""

    places: frozenset[int]
    rows: int
    of: int

    def apply(self, arguments: Values) -> Values:
        """Return the arguments with the chosen ones cut; copies, so that the large ones can be freed."""
        chosen = (self._limit_value(value) if place in self.places else value for place, value in enumerate(arguments))
        return tuple(chosen)

    def _limit_value(self, value: Value) -> Value:
        """Return the value with fewer rows in its tensors of `of` rows."""
        return mapped((value,), lambda t: t[: self.rows].clone() if _row_count(t) == self.of else t)[0]


@dataclass(frozen=True)
class Sample:
    """One call: its test input, arguments and results."""

    trial: Trial
    arguments: Values
    outputs: tuple[Tensor, ...]

    @property
    def description(self) -> str:
        """The test input in words."""
        return f"case '{self.trial.case.name}', init {self.trial.init}, seed {self.trial.seed}"


class FilteredProgram:
    """A program with its clock and row limits. `names` are forward's arguments, `results` its outputs."""

    def __init__(self, program: TaskProgram, clock: Clock) -> None:
        self.program = program
        self.clock = clock
        self.signature = program.task.forward
        self._cuts: dict[str, RowLimit | None] = {}

    def count_elements(self, case: Case) -> int:
        """Count the elements of a case's arguments on the meta device; 0 if that fails."""
        # The meta device allocates nothing, so a case too large to draw can be counted.
        try:
            with torch.device("meta"), torch.no_grad():
                return sum(tensor.numel() for tensor in tensors(self.program.arguments(pair_of_seeds(case)[0])))
        except Exception:  # noqa: BLE001 - whatever fails here is told by the draw with real tensors that follows
            return 0

    def draw_sample(self, trial: Trial) -> Sample:
        """Draw arguments and call forward; the first sample of a case decides its row limit."""
        arguments = self.program.arguments(trial)
        # One limit per case: samples of a case must have equal shapes to be compared.
        if trial.case.name in self._cuts:
            arguments = self._limit_rows(trial, arguments)
            return Sample(trial, arguments, self.call(arguments))
        for cut in self._row_limits(arguments):
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
        """Call forward without gradients on copies, because a task may work in place."""
        begun = time.monotonic()
        with torch.no_grad():
            found = self.program.forward(mapped(arguments, torch.clone))
        # The slowest call bounds the time of the filters that call often.
        self.clock.forward_s = max(self.clock.forward_s, time.monotonic() - begun)
        return tuple(part.detach() for part in found)

    def result_name(self, place: int) -> str:
        """Return the name of output number `place`."""
        names = self.signature.results
        return names[place] if place < len(names) else f"output {place}"

    def notes(self) -> tuple[str, ...]:
        """Return how inputs were made smaller."""
        cut = [(name, cut) for name, cut in self._cuts.items() if cut]
        return tuple(
            f"case '{name}' was looked at on {cut.rows} of {cut.of} rows of "
            f"{', '.join(self.signature.arguments[place].name for place in sorted(cut.places))}"
            for name, cut in cut
        )

    def _limit_rows(self, trial: Trial, arguments: Values) -> Values:
        """Return the arguments cut by the case's row limit."""
        cut = self._cuts[trial.case.name]
        return cut.apply(arguments) if cut else arguments

    # Which arguments share the leading axis is unknown, so cuts are tried from the widest to the narrowest.
    def _row_limits(self, arguments: Values) -> Iterable[RowLimit]:
        """Yield cuts to try: all tensors with the leading size, the inputs with it, the first input alone."""
        roles = [spec.role for spec in self.signature.arguments]
        data = [place for place, role in enumerate(roles) if role in (Role.INPUT, Role.FIXED)]
        inputs = [place for place in data if roles[place] is Role.INPUT] or data
        leading = next((_row_count(t) for t in tensors(arguments[place] for place in inputs)), 0)
        total = sum(t.numel() for t in tensors(arguments[place] for place in data))
        rows = max(ROWS, leading * ELEMENTS // max(total, 1))
        if total <= ELEMENTS or rows >= leading:
            return
        full = RowLimit(frozenset(data), rows, leading)
        for places in (data, inputs, inputs[:1]):
            yield replace(full, places=frozenset(p for p in places if _has_rows(arguments[p], leading)))


def _row_count(tensor: Tensor) -> int:
    """Return the leading size of a tensor."""
    return tensor.shape[0] if tensor.ndim else 0


def _has_rows(value: Value, rows: int) -> bool:
    """Whether a tensor of the value has this leading size."""
    return any(_row_count(tensor) == rows for tensor in tensors((value,)))
