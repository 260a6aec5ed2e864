"""The modes of torch on the timing cases, measured once."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith import evaluation
from warpsmith.app.jobs import Watch, ignore
from warpsmith.base import MachineError
from warpsmith.evaluation import (
    BaselineRow,
    BaselineScope,
    Prepared,
    Wanted,
    measure_each,
    preparable,
    prepare,
    timing,
    wanted,
)
from warpsmith.machines import hardware
from warpsmith.machines.hardware import Need, lease
from warpsmith.records import MODES, Direction
from warpsmith.tasks.suite import folders

CORES = os.cpu_count() or 1
USUAL_JOBS = max(1, min(8, CORES // 2))


@dataclass(frozen=True)
class BaselineRequest:
    """The tasks, directions and modes of torch to measure."""

    tasks: Sequence[str] = ()  # empty: the whole suite
    direction: Direction | None = None  # None: both
    modes: tuple[str, ...] = ()  # empty: all
    again: bool = False  # measure stored baselines too
    jobs: int = USUAL_JOBS  # processes that compile at once


@dataclass(frozen=True)
class BaselineCompiled:
    """Event: a case was compiled before the measurements."""

    case: Prepared
    done: int
    total: int


def measure_baselines(request: BaselineRequest, watch: Watch = ignore) -> list[BaselineRow]:
    """Measure the modes of torch. Events: BaselineCompiled, then BaselineRow."""
    modes, cases = request.modes or MODES, wanted(list(request.tasks), request.direction)
    if not hardware.gpus():
        raise MachineError("Baselines are torch's times on a GPU; this machine has none that this process may use.")
    scope = BaselineScope.here(modes)
    # The clock is compared with stored baselines by the time of a flush, alone on the GPU.
    with lease(Need.ALONE):
        flush_us = evaluation.measure_flush_us()
    stored = {one.name for one in cases if not request.again and scope.whole(one, flush_us)}
    # Compiling needs no time of the GPU, so many cases are compiled side by side before the first measurement.
    _compile([one for one in cases if one.name not in stored], modes, request.jobs, watch)
    rows = []
    for row in measure_each(cases, scope, None if request.again else flush_us, evaluation.measure_flush_us):
        rows.append(row)
        watch(row)
    return rows


def _compile(cases: Sequence[Wanted], modes: tuple[str, ...], jobs: int, watch: Watch) -> None:
    """Compile in parallel what can be compiled beside others; a failure is compiled again when it is timed."""
    some = [one for one in cases if preparable(one, modes)]
    first, compilers = next(iter(folders())), max(2, CORES // jobs)
    processes = prepare(some, modes, lambda: timing.BaselineProcess(first, compilers), jobs)
    for number, found in enumerate(processes, 1):
        watch(BaselineCompiled(found, number, len(some)))
