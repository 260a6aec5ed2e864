"""The types that stages share: one evaluation as frozen data, and the typed products that stages return."""

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
    """One candidate under evaluation, with its record so far. A stage is a function of it."""

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
        """Return the evaluation with one more stage in its record."""
        return replace(self, record=self.record.with_result(result))


@dataclass(frozen=True)
class Artifact:
    """The compiled candidate."""

    path: Path


@dataclass(frozen=True)
class PassedCalls:
    """Calls of a check on the virtual GPU whose results were right, with the counters of each."""

    calls: tuple[PassedCall, ...]


@dataclass(frozen=True)
class LaunchCount:
    """The most launches of a call that the virtual GPU counted."""

    launches: int


@runtime_checkable
class Closable(Protocol):
    """A product that holds processes or GPU memory until it is closed."""

    @property
    def is_open(self) -> bool:
        """Whether it still holds them."""
        ...

    def close(self) -> None:
        """Release them."""
        ...


@dataclass(frozen=True)
class StageOutcome:
    """The result of a stage and its products for later stages."""

    result: StageResult
    products: tuple[object, ...] = ()


@dataclass(frozen=True)
class Stage:
    """One stage: its function, the products that it needs or uses where they exist, and how it needs the GPU.

    `run` takes the evaluation, then the products in the order of `needs` and `uses`; a missing one of `uses` is None.
    `prepare` takes the same arguments and waits for slow work of others before the GPU is leased.
    An `early` stage needs neither torch nor a GPU.
    """

    name: str
    run: Callable[..., StageOutcome]
    needs: tuple[type, ...] = ()
    uses: tuple[type, ...] = ()
    gpu: Need = Need.NONE
    early: bool = False
    prepare: Callable[..., None] | None = None


@dataclass
class Products:
    """Products of the stages of one evaluation so far, at most one of each type."""

    _found: dict[type, object] = field(default_factory=dict)

    def add(self, products: Iterable[object]) -> None:
        """Keep the products of one stage."""
        self._found |= {type(product): product for product in products}

    def get(self, kind: type[T]) -> T | None:
        """Return the product of a type, or None."""
        found = self._found.get(kind)
        return found if isinstance(found, kind) else None

    def arguments(self, stage: Stage) -> tuple[Any, ...]:
        """Return what a stage needs and uses. Raise if a stage that makes a needed product has not run."""
        for kind in stage.needs:
            if self.get(kind) is None:
                raise HarnessError(f"Stage {stage.name} needs {kind.__name__}, which no earlier stage has returned.")
        return (*(self.get(kind) for kind in stage.needs), *(self.get(kind) for kind in stage.uses))

    def open(self) -> Iterator[Closable]:
        """Yield the products that still hold processes or memory."""
        yield from (one for one in self._found.values() if isinstance(one, Closable) and one.is_open)
