"""A session without a worker, for tests of its callers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from warpsmith.machines.worker.session import Mode, Shown
from warpsmith.records import Confined

if TYPE_CHECKING:
    from torch import Tensor

    from warpsmith.tasks.inputs import Values


@dataclass
class FakeSession:
    """A session that answers with a function."""

    answer: Callable[["Values"], Shown]
    device: str = "fake"
    confined: Confined = field(default_factory=Confined)
    slots: list[int] = field(default_factory=list)
    clocked: int = 0

    def call(
        self,
        arguments: "Values",
        given: "Sequence[Tensor]" = (),
        slot: int = 0,
        mode: Mode = Mode.IDLE,
        cold: bool = True,
        timed: bool = True,
    ) -> Shown:
        """Return the function's answer."""
        self.slots.append(slot)
        self.clocked += timed
        return self.answer(arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: there is no worker."""
