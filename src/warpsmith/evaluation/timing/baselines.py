"""Baselines: the best of torch's modes on a case, from a process of their own, kept for one hardware, driver, torch."""

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
DRIFT = 0.05  # of the judge's own flush, past which kept baselines are of another day
OUT_OF_MEMORY = "out of memory"  # is of one hour, with what others kept in it
NEAR = 1.15  # times the best kept mode: what took longer is not measured again for a claim


class Baseline(Model):
    """One mode's event times in microseconds."""

    mode: str
    idle_us: tuple[float, ...]
    queued_us: tuple[float, ...]

    @property
    def us(self) -> float:
        """Its device time."""
        return median(self.queued_us)

    def joined(self, other: "Baseline") -> "Baseline":
        """Two windows of one mode."""
        return Baseline(
            mode=self.mode, idle_us=self.idle_us + other.idle_us, queued_us=self.queued_us + other.queued_us
        )


class Baselines(Model):
    """The modes that ran on a case, those that did not and why, and the flush that tells one day from another."""

    modes: tuple[Baseline, ...]
    failed: Mapping[str, str] = Field(default_factory=dict)
    flush_us: float = 0.0
    kept: tuple[str, ...] = ()  # of the modes: those of an earlier day among times of now

    @property
    def best(self) -> Baseline:
        """The fastest by device time: what a candidate is held against."""
        return min(self.modes, key=lambda baseline: baseline.us)

    def joined(self, other: "Baselines") -> "Baselines":
        """Two windows of each mode that ran in both."""
        again = {baseline.mode: baseline for baseline in other.modes}
        both = tuple(one.joined(again[one.mode]) for one in self.modes if one.mode in again)
        return Baselines(modes=both, failed={**self.failed, **other.failed}, flush_us=self.flush_us)

    def drifted(self, flush_us: float) -> bool:
        """Whether this GPU's memory is faster or slower now than when they were measured."""
        return bool(self.flush_us and flush_us) and abs(flush_us / self.flush_us - 1) > DRIFT

    def lacking(self, modes: Sequence[str]) -> tuple[str, ...]:
        """Of some modes those that nobody has tried here, and those that had no memory left when they were."""
        failed = (mode for mode, why in self.failed.items() if OUT_OF_MEMORY not in why.lower())
        tried = {*(one.mode for one in self.modes), *failed}
        return tuple(mode for mode in modes if mode not in tried)

    def only(self, modes: Sequence[str]) -> "Baselines":
        """Of these modes what there is."""
        chosen = tuple(one for one in self.modes if one.mode in modes)
        failed = {mode: why for mode, why in self.failed.items() if mode in modes}
        return self.model_copy(update={"modes": chosen, "failed": failed})

    def near(self) -> tuple[str, ...]:
        """The modes that may be the best another time: within reach of the best one, or without a time so far."""
        reach_us = NEAR * self.best.us
        return (*(one.mode for one in self.modes if one.us <= reach_us), *self.failed)

    def beside(self, kept: "Baselines") -> "Baselines":
        """These, and of an earlier day the modes that were not asked now."""
        asked = {*(one.mode for one in self.modes), *self.failed}
        others = tuple(one for one in kept.modes if one.mode not in asked)
        failed = {mode: why for mode, why in kept.failed.items() if mode not in asked}
        return self.model_copy(
            update={
                "modes": (*self.modes, *others),
                "failed": {**failed, **self.failed},
                "kept": tuple(one.mode for one in others),
                "flush_us": kept.flush_us,
            }
        )

    def notes(self) -> tuple[str, ...]:
        """A sentence for each mode that gave no time, and one for those that were not measured again."""
        without = tuple(f"torch's {mode} gave no time: {why}" for mode, why in self.failed.items())
        if not self.kept:
            return without
        slower = f"more than {NEAR - 1:.0%} slower than the best when all were measured"
        return (*without, f"not measured again, since {slower}: torch's {', '.join(self.kept)}")


def store(
    hardware: str,
    torch_version: str,
    task: Task,
    direction: Direction,
    case: Case,
    cold: bool = True,
) -> Path:
    """Where the baselines of a case lie: what they depend on is in the name, and the driver is part of that."""
    drivers = [gpu.driver for gpu in gpus()]
    known = [hardware, drivers, torch_version, task.version, direction, case.model_dump(mode="json"), cold]
    key = digest_json([*known, 4])
    return Home.locate().data / "baselines" / f"{key}.json"


def load(path: Path) -> Baselines | None:
    """What was measured before, if anything; a file that is damaged is none, and is written anew."""
    found = Baselines.read(path.read_text(errors="replace")) if path.exists() else None
    return found if isinstance(found, Baselines) else None


def believed(path: Path, flush_us: float) -> Baselines | None:
    """What was measured before, unless the GPU has drifted since."""
    found = load(path)
    return None if found is None or found.drifted(flush_us) else found


def asked(target: str, task: Task, direction: Direction, case: Case, cold: bool = True) -> TorchRequest:
    """The question for a case; the mode is named when it is asked. Torch's process works in a folder of its own."""
    return TorchRequest(
        target=find(target).label,
        direction=direction,
        case=case,
        mode=TorchMode.EAGER,
        samples=SAMPLES,
        tf32=task.precision.tf32,
        cold=cold,
    )


def uncompiled(modes: Sequence[str]) -> tuple[str, ...]:
    """Of some modes those that compile nothing; all of them when there is none."""
    return tuple(mode for mode in modes if not TorchMode.from_name(mode).compiler) or tuple(modes)


def measure(host: BaselineHost, request: TorchRequest, modes: Sequence[str] = MODES) -> Baselines:
    """Time every mode on the request's case."""
    return running(_window(host, request, modes), request)


def completed(
    host: BaselineHost, request: TorchRequest, kept: Baselines | None, modes: Sequence[str], flush_us: float
) -> Baselines:
    """What is kept, and of the modes that are asked for those that are not, measured now."""
    lacking = tuple(modes) if kept is None else kept.lacking(modes)
    now = _window(host, request, lacking).model_copy(update={"flush_us": flush_us})
    found = now.beside(kept).model_copy(update={"kept": ()}) if kept else now
    running(found.only(modes), request)
    return found


def running(found: Baselines, request: TorchRequest) -> Baselines:
    """These, if there is one among them."""
    if not found.modes:
        raise HarnessError(
            f"No mode of torch runs {request.target} {request.direction} on case {request.case.name}: "
            f"{dict(found.failed)}"
        )
    return found


def measure_again(host: BaselineHost, request: TorchRequest, kept: Baselines) -> Baselines:
    """Two windows now of the modes that came near the best when all were kept, beside the others of then.

    Should one of the others be the best after all, every mode is measured: nobody is held against a time of then.
    """
    near = kept.near()
    now = _window(host, request, near).joined(_window(host, request, near))
    found = now.beside(kept)
    if found.modes and found.best.mode not in found.kept:
        return found
    every = (*(one.mode for one in kept.modes), *kept.failed)
    return measure(host, request, every).joined(measure(host, request, every))


def _window(host: BaselineHost, request: TorchRequest, modes: Sequence[str]) -> Baselines:
    replies = {mode: host.time(request.model_copy(update={"mode": TorchMode.from_name(mode)})) for mode in modes}
    found = tuple(
        Baseline(mode=mode, idle_us=reply.idle_us, queued_us=reply.queued_us)
        for mode, reply in replies.items()
        if reply.queued_us
    )
    failed = {mode: reply.error for mode, reply in replies.items() if not reply.queued_us}
    flushes = [flush for reply in replies.values() for flush in reply.flush_us]
    return Baselines(modes=found, failed=failed, flush_us=median(flushes) if flushes else 0.0)


def keep(path: Path, baselines: Baselines) -> None:
    """Keep them for the next candidate."""
    write_atomic(path, baselines.text())
