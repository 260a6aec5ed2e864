"""A running virtual GPU: one confined executor process."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from warpsmith.isolation import Child, ChildOutcome, Policy, ProcessLimits, library_paths, spawn
from warpsmith.machines.virtual.control import Control
from warpsmith.machines.virtual.description import Description
from warpsmith.machines.virtual.native import executor

# The descriptors that `spawn` gives to what follows its own channel.
CLIENT_FD, CONTROL_FD, LENT_FD = 5, 6, 7
GIB = 1 << 30


@dataclass(frozen=True)
class ExecutorSettings:
    """Limits of a kernel on the virtual GPU."""

    instruction_budget: int = 20_000_000_000  # thread instructions a launch
    memory_bytes: int = 4 * GIB  # device memory
    print_limit_bytes: int = 1 << 20
    wall_s: float = 300.0
    answer_s: float = 120.0  # to a request of the judge's: a candidate's own work is over by then

    def words(self) -> tuple[str, ...]:
        """Return the executor's arguments for these settings."""
        return (
            f"instruction_budget={self.instruction_budget}",
            f"memory_bytes={self.memory_bytes}",
            f"print_limit_bytes={self.print_limit_bytes}",
        )


class VirtualGpu:
    """One executor process, ended by the `with` block."""

    # `client` is the worker's end of the executor's socket: the caller passes the descriptor to a worker
    # and then closes it, else the executor would never see the worker's end. `lent` are descriptors of
    # memory that a worker can import; the evaluator process writes it directly, so nothing in it is
    # checked.

    def __init__(
        self,
        gpu: Description,
        settings: ExecutorSettings | None = None,
        program: Path | None = None,
        lent: Sequence[int] = (),
    ) -> None:
        """Start an executor with two sockets and lent memory."""
        # Two sockets: the worker gets one end of the first, the evaluator process one end of the second.
        # Both other ends are closed here at once, so that a dead executor is seen as a closed socket.
        path, settings = program or executor(), settings or ExecutorSettings()
        self.gpu, self.settings = gpu, settings
        self.client, theirs = socket.socketpair()
        mine, other = socket.socketpair()
        words = [str(path), str(CLIENT_FD), str(CONTROL_FD), *gpu.settings(), *settings.words(), *_lending(len(lent))]
        self.policy = Policy(read=(*library_paths(), path.parent), limits=_limits(settings))
        try:
            self._child: Child = spawn(words, self.policy, pass_fds=[theirs.fileno(), other.fileno(), *lent])
        finally:
            theirs.close()
            other.close()
        self._line = mine
        self.control = Control(mine, timeout_s=min(settings.answer_s, settings.wall_s))

    def end(self) -> ChildOutcome:
        """Close the connection; return the executor's outcome."""
        self._line.close()
        return self._child.wait()

    def kill(self) -> None:
        """Kill the executor at once."""
        self._child.kill()

    def __enter__(self) -> "VirtualGpu":
        self._child.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.close()
        self.client.close()
        self._child.__exit__(kind, error, trace)


def _lending(count: int) -> tuple[str, ...]:
    """Return the executor's arguments for lent memory."""
    # Without checks, as on a real GPU: shadow memory knows only bytes that passed the executor.
    return (f"lent_from={LENT_FD}", f"lent_count={count}", "check=0") if count else ()


def _limits(settings: ExecutorSettings) -> ProcessLimits:
    """Return process limits with room for the engine's tables."""
    # Device memory, shadow memory of up to the same size, and two GiB for the engine's own tables.
    return ProcessLimits(
        wall_s=settings.wall_s,
        cpu_s=int(settings.wall_s) + 1,
        memory_bytes=2 * settings.memory_bytes + 2 * GIB,
        processes=32,
        address_space=False,
    )
