"""Measurement of torch's modes for later evaluations."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from warpsmith.base import HarnessError
from warpsmith.evaluation.environment import environment
from warpsmith.evaluation.timing import (
    BaselineHost,
    Baselines,
    LongLivedHost,
    ResidentHost,
    baseline_path,
    baseline_request,
    load_baselines,
    measure_missing_modes,
    open_baseline_host,
    require_any_mode,
    store_baselines,
)
from warpsmith.machines.cuda import CudaMachine
from warpsmith.machines.hardware import Need, lease
from warpsmith.records import MODES, Case, Direction, Group, Model, Task, TorchMode
from warpsmith.tasks.formats import TaskFormat, find
from warpsmith.tasks.host import open_task
from warpsmith.tasks.suite import folders

# The lower quartile of the flush times is used, which needs a few dozen of them.
FLUSHES = 25
INTENSE = 8.0  # operations a byte: norms and gates stay below, products of matrices and convolutions do not

Start = Callable[[], AbstractContextManager[LongLivedHost]]
HostFor = Callable[[str, ExitStack], BaselineHost]


@dataclass(frozen=True)
class Wanted:
    """A case whose baselines are to be measured."""

    target: str
    task: Task
    direction: Direction
    case: Case

    @property
    def name(self) -> str:
        """The task, direction and case as one text."""
        return f"{self.task.name} {self.direction} {self.case.name}"


@dataclass(frozen=True)
class BaselineScope:
    """The hardware, torch version and modes that baselines are measured for."""

    hardware: str
    torch_version: str
    modes: tuple[str, ...] = MODES

    @classmethod
    def here(cls, modes: tuple[str, ...] = MODES) -> "BaselineScope":
        """Return the scope of this GPU and this torch."""
        now = environment(CudaMachine.first())
        return cls(now.hardware, now.torch, modes)

    def path(self, one: Wanted) -> Path:
        """Return the file of a case's baselines."""
        return baseline_path(self.hardware, self.torch_version, one.task, one.direction, one.case)

    def kept(self, one: Wanted, flush_us: float) -> Baselines | None:
        """Return stored baselines, or None if missing or drifted."""
        return load_baselines(self.path(one), flush_us)

    def whole(self, one: Wanted, flush_us: float) -> bool:
        """Return whether every mode is stored and has not drifted."""
        found = self.kept(one, flush_us)
        return found is not None and not found.missing_modes(self.modes)


@dataclass(frozen=True)
class Prepared:
    """A case with its compiled modes, and errors."""

    one: Wanted
    seconds: float
    failed: Mapping[str, str]


class BaselineRow(Model):
    """A case with its stored or measured baselines, or the error."""

    task: str
    direction: Direction
    case: str
    baselines: Baselines | None = None
    left: bool = False
    error: str = ""


def wanted(targets: Sequence[str], direction: Direction | None = None) -> list[Wanted]:
    """Return the timing cases of tasks, or of the suite."""
    found: list[Wanted] = []
    for target in targets or folders():
        with open_task(target) as opened:
            task = opened.describe()
        if direction is not None:
            task.signature(direction)  # one that the task lacks is refused
        ways = task.directions if direction is None else (direction,)
        found += [Wanted(target, task, way, case) for way in ways for case in task.group_or_first(Group.TIMING)]
    return found


def preparable(one: Wanted, modes: Sequence[str]) -> tuple[str, ...]:
    """Return the modes that can be compiled beside other GPU work."""
    # A mode under a CUDA graph compiles the same code as the mode without. Compiled code of foreign tasks
    # is not stored: a later process would run code that foreign code wrote. With max-autotune torch picks
    # the kernel of a product by timing; on a shared GPU it would pick, and store, a wrong one.
    if find(one.target).form is not TaskFormat.SUITE:
        return ()
    compilers = {TorchMode.from_name(mode).compiler for mode in modes}
    ahead = [mode for mode in TorchMode if mode.prepared and mode.compiler in compilers]
    return tuple(mode for mode in ahead if not (mode.picks_by_timing and multiplies(one.task)))


def multiplies(task: Task) -> bool:
    """Return whether a task may be a product or convolution."""
    if not task.forward.is_product:
        return False
    cases = task.group_or_first(Group.TIMING)
    return any(_intensity(task, way, case) > INTENSE for way in task.directions for case in cases)


def prepare(every: Sequence[Wanted], modes: Sequence[str], start: Start, jobs: int) -> Iterator[Prepared]:
    """Compile each case in one of `jobs` processes."""
    # The threads are daemons: an interrupt does not wait for a compiler of minutes, and the processes end
    # with this one. A None for each thread ends the queue.
    waiting: SimpleQueue[Wanted | None] = SimpleQueue()
    done: SimpleQueue[Prepared | None] = SimpleQueue()
    working = min(jobs, len(every))
    for one in (*every, *[None] * working):
        waiting.put(one)
    for _ in range(working):
        Thread(target=_work, args=(modes, start, waiting, done), daemon=True).start()
    while working:
        if (found := done.get()) is None:
            working -= 1
        else:
            yield found


def measure_each(
    every: Sequence[Wanted],
    place: BaselineScope,
    believed_us: float | None,
    flush_us: Callable[[], float],
    hosts: HostFor = open_baseline_host,
) -> Iterator[BaselineRow]:
    """Time each case alone on the GPU; yield a row each."""
    # With `believed_us`, the flush time of now in microseconds, stored baselines that have not drifted
    # are not measured again. Cases of one task follow each other, so that a foreign task's process is
    # started once.
    for target, cases in groupby(every, key=lambda one: one.target):
        with _released() as until:
            host = hosts(target, until)
            for one in cases:
                kept = None if believed_us is None else place.kept(one, believed_us)
                yield _measured(one, place, host, kept, flush_us)


@contextmanager
def _released() -> Iterator[ExitStack]:
    """Yield a stack that closes under a shared lease."""
    # Freeing GPU memory synchronizes the device, which would disturb a kernel that another process times.
    until = ExitStack()
    try:
        yield until
    finally:
        with lease(Need.SHARED):
            until.close()


def measure_flush_us() -> float:
    """Return the typical flush time in microseconds."""
    from warpsmith.evaluation.timing import typical_flush_us
    from warpsmith.machines.cuda.flush import flush

    return typical_flush_us([flush() for _ in range(FLUSHES)])


def _intensity(task: Task, direction: Direction, case: Case) -> float:
    """Return operations a byte; infinity without formulas."""
    flops, moved = task.flops(direction, case), task.bytes(direction, case)
    return float("inf") if flops is None or moved is None else flops / moved


def _work(
    modes: Sequence[str], start: Start, waiting: "SimpleQueue[Wanted | None]", done: "SimpleQueue[Prepared | None]"
) -> None:
    """Compile waiting cases; put None at the end."""
    # The None comes after an error too, else the caller would wait for this thread for ever.
    try:
        with closing(ResidentHost(start)) as host:
            for one in iter(waiting.get, None):
                done.put(_prepared(one, host, modes))
    finally:
        done.put(None)


def _prepared(one: Wanted, host: BaselineHost, modes: Sequence[str]) -> Prepared:
    """Compile every preparable mode of one case."""
    request = baseline_request(one.target, one.task, one.direction, one.case).model_copy(update={"samples": 0})
    failed: dict[str, str] = {}
    with lease(Need.SHARED):
        begin = time.monotonic()
        for mode in preparable(one, modes):
            try:
                error = host.time(request.model_copy(update={"mode": mode})).error
            except HarnessError as fault:  # a process that died is begun again; the case is compiled when it is timed
                error = str(fault)
            if error:
                failed[mode] = error
    return Prepared(one, time.monotonic() - begin, failed)


def _measured(
    one: Wanted, place: BaselineScope, host: BaselineHost, kept: Baselines | None, flush_us: Callable[[], float]
) -> BaselineRow:
    """Return a case's baselines, stored or measured now."""
    request = baseline_request(one.target, one.task, one.direction, one.case)
    try:
        if kept and not kept.missing_modes(place.modes):
            return _row(one, require_any_mode(kept.restricted_to(place.modes), request))
        with lease(Need.ALONE):
            found = measure_missing_modes(host, request, kept, place.modes, flush_us())
    except HarnessError as fault:  # the next case has its own chance
        return _row(one, error=str(fault))
    store_baselines(place.path(one), found)
    return _row(one, found.restricted_to(place.modes), left=False)


def _row(one: Wanted, baselines: Baselines | None = None, left: bool = True, error: str = "") -> BaselineRow:
    """Return a row; `left` means that stored times were kept."""
    return BaselineRow(
        task=one.task.name,
        direction=one.direction,
        case=one.case.name,
        baselines=baselines,
        left=left and not error,
        error=error,
    )
