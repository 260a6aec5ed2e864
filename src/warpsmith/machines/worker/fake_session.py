"""A session without a worker: answers every call with a function, for tests of what comes after."""

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
    """Calls `answer` with the arguments, and keeps the slots it was called with, and how many calls were timed."""

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
