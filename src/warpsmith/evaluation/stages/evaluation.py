"""The evaluation as frozen data, and the typed products of stages."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from warpsmith.base import HarnessError
from warpsmith.evaluation.check import PassedCall
from warpsmith.evaluation.config import EvaluationConfig
from warpsmith.machines import Machine
from warpsmith.machines.hardware import Need
from warpsmith.records import Candidate, Record, Signature, StageResult, Task
from warpsmith.tasks.host import OpenTask

T = TypeVar("T")


@dataclass(frozen=True)
class Evaluation:
    """One candidate under evaluation, with its record so far."""

    # Frozen: a stage returns a result and products, and cannot change the evaluation that another stage
    # sees.

    target: str  # the task as the user named it
    opened: OpenTask
    task: Task
    candidate: Candidate
    config: EvaluationConfig
    machine: Machine
    seed: int
    record: Record

    @property
    def signature(self) -> Signature:
        """The direction's signature."""
        return self.task.signature(self.candidate.direction)

    def with_result(self, result: StageResult) -> "Evaluation":
        """Return the evaluation with one more stage result."""
        return replace(self, record=self.record.with_result(result))


@dataclass(frozen=True)
class Artifact:
    """The compiled candidate."""

    path: Path


@dataclass(frozen=True)
class PassedCalls:
    """Calls of the virtual GPU that passed, with counters."""

    calls: tuple[PassedCall, ...]


@dataclass(frozen=True)
class LaunchCount:
    """The largest number of launches in a call."""

    launches: int


@runtime_checkable
class Closable(Protocol):
    """A product that holds processes or GPU memory."""

    @property
    def is_open(self) -> bool:
        """Whether the product still holds them."""
        ...

    def close(self) -> None:
        """Release the processes or the memory."""
        ...


@dataclass(frozen=True)
class StageOutcome:
    """The result and products of a stage."""

    result: StageResult
    products: tuple[object, ...] = ()


@dataclass(frozen=True)
class Stage:
    """One stage: its function, products and GPU need."""

    # `run` takes the evaluation, then the products in the order of `needs` and `uses`; a missing product
    # of `uses` is None. `prepare` takes the same arguments and waits for slow work before the GPU is
    # leased. An `early` stage needs neither torch nor a GPU.

    name: str
    run: Callable[..., StageOutcome]
    needs: tuple[type, ...] = ()
    uses: tuple[type, ...] = ()
    gpu: Need = Need.NONE
    early: bool = False
    prepare: Callable[..., None] | None = None


@dataclass
class Products:
    """The products of an evaluation, one of each type."""

    _found: dict[type, object] = field(default_factory=dict)

    def add(self, products: Iterable[object]) -> None:
        """Store the products of one stage."""
        self._found |= {type(product): product for product in products}

    def get(self, kind: type[T]) -> T | None:
        """Return the product of a type, or None."""
        found = self._found.get(kind)
        return found if isinstance(found, kind) else None

    def arguments(self, stage: Stage) -> tuple[Any, ...]:
        """Return a stage's products; raise HarnessError if one is missing."""
        for kind in stage.needs:
            if self.get(kind) is None:
                raise HarnessError(f"Stage {stage.name} needs {kind.__name__}, which no earlier stage has returned.")
        return (*(self.get(kind) for kind in stage.needs), *(self.get(kind) for kind in stage.uses))

    def open(self) -> Iterator[Closable]:
        """Yield the products that hold processes or memory."""
        yield from (one for one in self._found.values() if isinstance(one, Closable) and one.is_open)
