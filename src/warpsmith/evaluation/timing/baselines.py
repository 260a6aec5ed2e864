"""Stored and measured times of torch's modes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from warpsmith.base import HarnessError, Home, digest_json, median, write_atomic
from warpsmith.evaluation.timing.baseline_process import BaselineHost
from warpsmith.evaluation.timing.baseline_server import TorchRequest
from warpsmith.machines.hardware import gpus
from warpsmith.records import MODES, Case, Direction, Model, Task, TorchMode
from warpsmith.tasks.formats import find

SAMPLES = 25
MOST_DRIFT = 0.05  # of the time of a flush: beyond it, stored baselines do not describe the GPU of now
OUT_OF_MEMORY = "out of memory"  # an error that may not come again: other programs held the memory
NEAR_BEST = 1.15  # times the best stored mode: slower modes are not measured again for a claim
# Part of the stored file's name: after a change of the method, old times must never be compared with new
# ones.
KEY_VERSION = 4  # of the way that times are measured: another number makes stored baselines unused


class Baseline(Model):
    """Event times of one mode in microseconds."""

    mode: str
    idle_us: tuple[float, ...]
    queued_us: tuple[float, ...]

    @property
    def us(self) -> float:
        """The device time: the queued calls' median."""
        return median(self.queued_us)

    def merge(self, other: "Baseline") -> "Baseline":
        """Return the calls of two windows together."""
        return Baseline(
            mode=self.mode, idle_us=self.idle_us + other.idle_us, queued_us=self.queued_us + other.queued_us
        )


class Baselines(Model):
    """Times of the modes that ran, and the others' errors."""

    # The flush time is stored with them. A flush moves a fixed number of bytes, so a change of its time
    # shows that the memory of the GPU became faster or slower.

    modes: tuple[Baseline, ...]
    failed: Mapping[str, str] = Field(default_factory=dict)
    flush_us: float = 0.0
    kept: tuple[str, ...] = ()  # names of modes whose times are stored ones, among times of this session

    @property
    def best(self) -> Baseline:
        """The mode with the shortest device time."""
        # A candidate is compared with the best mode, so that a mode that is slow on a case cannot make
        # the candidate look fast.
        return min(self.modes, key=lambda baseline: baseline.us)

    def merge(self, other: "Baselines") -> "Baselines":
        """Return both windows of the modes that ran twice."""
        # A mode that failed in one window is left out: it would have times of one window only.
        again = {baseline.mode: baseline for baseline in other.modes}
        both = tuple(baseline.merge(again[baseline.mode]) for baseline in self.modes if baseline.mode in again)
        return Baselines(modes=both, failed={**self.failed, **other.failed}, flush_us=self.flush_us)

    def has_drifted(self, flush_us: float) -> bool:
        """Return whether the GPU's speed changed by 5 %."""
        return bool(self.flush_us and flush_us) and abs(flush_us / self.flush_us - 1) > MOST_DRIFT

    def missing_modes(self, modes: Sequence[str]) -> tuple[str, ...]:
        """Return the modes without a time or a lasting error."""
        # A lack of memory is no lasting error: other programs held the memory, and the mode is tried
        # again.
        failed = (mode for mode, error in self.failed.items() if OUT_OF_MEMORY not in error.lower())
        tried = {*(baseline.mode for baseline in self.modes), *failed}
        return tuple(mode for mode in modes if mode not in tried)

    def restricted_to(self, modes: Sequence[str]) -> "Baselines":
        """Return the times and errors of these modes."""
        chosen = tuple(baseline for baseline in self.modes if baseline.mode in modes)
        failed = {mode: error for mode, error in self.failed.items() if mode in modes}
        return self.model_copy(update={"modes": chosen, "failed": failed})

    def within_15_percent(self) -> tuple[str, ...]:
        """Return the modes within 15 % of the best."""
        # Modes without a time belong to them: their failure may not come again, and one of them could be
        # the best.
        most_us = NEAR_BEST * self.best.us
        return (*(baseline.mode for baseline in self.modes if baseline.us <= most_us), *self.failed)

    def merged_with_stored(self, stored: "Baselines") -> "Baselines":
        """Return these times, completed by stored ones."""
        measured = {*(baseline.mode for baseline in self.modes), *self.failed}
        others = tuple(baseline for baseline in stored.modes if baseline.mode not in measured)
        failed = {mode: error for mode, error in stored.failed.items() if mode not in measured}
        return self.model_copy(
            update={
                "modes": (*self.modes, *others),
                "failed": {**failed, **self.failed},
                "kept": tuple(baseline.mode for baseline in others),
                "flush_us": stored.flush_us,
            }
        )

    def notes(self) -> tuple[str, ...]:
        """Return sentences on modes without a fresh time."""
        without = tuple(f"torch's {mode} gave no time: {error}" for mode, error in self.failed.items())
        if not self.kept:
            return without
        slower = f"more than {NEAR_BEST - 1:.0%} slower than the best when all were measured"
        return (*without, f"not measured again, since {slower}: torch's {', '.join(self.kept)}")


def baseline_path(
    hardware: str,
    torch_version: str,
    task: Task,
    direction: Direction,
    case: Case,
    cold: bool = True,
) -> Path:
    """Return the file of a case's baselines."""
    # The name is a hash of everything that the times depend on: hardware, drivers, torch, the task's
    # version, the case and the L2's state. A change of any of them finds no file.
    drivers = [gpu.driver for gpu in gpus()]
    known = [hardware, drivers, torch_version, task.version, direction, case.model_dump(mode="json"), cold]
    key = digest_json([*known, KEY_VERSION])
    return Home.locate().data / "baselines" / f"{key}.json"


def read_baselines(path: Path) -> Baselines | None:
    """Return stored baselines, or None if missing or damaged."""
    found = Baselines.read(path.read_text(errors="replace")) if path.exists() else None
    return found if isinstance(found, Baselines) else None


def load_baselines(path: Path, flush_us: float) -> Baselines | None:
    """Return stored baselines, or None if missing or drifted."""
    found = read_baselines(path)
    return None if found is None or found.has_drifted(flush_us) else found


def store_baselines(path: Path, baselines: Baselines) -> None:
    """Write baselines atomically to their file."""
    write_atomic(path, baselines.text())


def baseline_request(target: str, task: Task, direction: Direction, case: Case, cold: bool = True) -> TorchRequest:
    """Return the request for a case, in mode `eager`."""
    return TorchRequest(
        target=find(target).label,  # an absolute path: the baseline process has another working folder
        direction=direction,
        case=case,
        mode=TorchMode.EAGER,
        samples=SAMPLES,
        tf32=task.precision.tf32,
        cold=cold,
    )


def select_eager_modes(modes: Sequence[str]) -> tuple[str, ...]:
    """Return the modes that compile nothing, else all."""
    return tuple(mode for mode in modes if not TorchMode.from_name(mode).compiler) or tuple(modes)


def require_any_mode(baselines: Baselines, request: TorchRequest) -> Baselines:
    """Return the baselines; raise HarnessError if no mode ran."""
    # Without any time there is no ratio. That is a fault of the task or the machine and not of the
    # candidate.
    if not baselines.modes:
        raise HarnessError(
            f"No mode of torch runs {request.target} {request.direction} on case {request.case.name}: "
            f"{dict(baselines.failed)}"
        )
    return baselines


def measure_baselines(host: BaselineHost, request: TorchRequest, modes: Sequence[str] = MODES) -> Baselines:
    """Time every mode; raise HarnessError if none ran."""
    return require_any_mode(_measure_window(host, request, modes), request)


def measure_missing_modes(
    host: BaselineHost, request: TorchRequest, stored: Baselines | None, modes: Sequence[str], flush_us: float
) -> Baselines:
    """Return stored times, completed by new ones."""
    # Raises HarnessError if none of the requested modes has a time then.
    missing = tuple(modes) if stored is None else stored.missing_modes(modes)
    now = _measure_window(host, request, missing).model_copy(update={"flush_us": flush_us})
    found = now.merged_with_stored(stored).model_copy(update={"kept": ()}) if stored else now
    require_any_mode(found.restricted_to(modes), request)
    return found


def remeasure_near_best(host: BaselineHost, request: TorchRequest, stored: Baselines) -> Baselines:
    """Measure the modes near the best again, in two windows."""
    # If a stored time is the shortest after all, every mode is measured: a claim is never against a
    # stored time, since the GPU of that day may have been slower.
    near = stored.within_15_percent()
    now = _measure_window(host, request, near).merge(_measure_window(host, request, near))
    found = now.merged_with_stored(stored)
    if found.modes and found.best.mode not in found.kept:
        return found
    every = (*(baseline.mode for baseline in stored.modes), *stored.failed)
    return measure_baselines(host, request, every).merge(measure_baselines(host, request, every))


def _measure_window(host: BaselineHost, request: TorchRequest, modes: Sequence[str]) -> Baselines:
    """Time each mode once; collect errors of the others."""
    replies = {mode: host.time(request.model_copy(update={"mode": TorchMode.from_name(mode)})) for mode in modes}
    found = tuple(
        Baseline(mode=mode, idle_us=reply.idle_us, queued_us=reply.queued_us)
        for mode, reply in replies.items()
        if reply.queued_us
    )
    failed = {mode: reply.error for mode, reply in replies.items() if not reply.queued_us}
    flushes_us = [flush_us for reply in replies.values() for flush_us in reply.flush_us]
    return Baselines(modes=found, failed=failed, flush_us=median(flushes_us) if flushes_us else 0.0)
