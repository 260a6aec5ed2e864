"""Baselines: the best of torch's modes on a case, from a process of their own, kept for the same hardware and torch."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from warpsmith.base import HarnessError, Home, digest_json, median, write_atomic
from warpsmith.records import Case, Direction, Task
from warpsmith.timing.torch_host import Reply, Request

MODES = ("eager", "compile", "max-autotune", "eager-graph", "compile-graph")
SAMPLES = 25


@dataclass(frozen=True)
class Baseline:
    """One mode's event times in microseconds."""

    mode: str
    idle_us: tuple[float, ...]
    queued_us: tuple[float, ...]

    @property
    def us(self) -> float:
        """Its device time."""
        return median(self.queued_us)


class TorchHost:
    """The baseline process, resident until closed."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "warpsmith.timing.torch_host"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def time(self, request: Request) -> Reply:
        """One mode on one case."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(request.text() + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise HarnessError(f"The baseline process ended with {self._process.wait()}.")
        return Reply.parse(line)


def store(hardware: str, torch_version: str, task: Task, direction: Direction, case: Case) -> Path:
    """Where the baselines of a case lie: what they depend on is in the name."""
    key = digest_json([hardware, torch_version, task.version, direction, case.model_dump(mode="json"), MODES])
    return Home.here().data / "baselines" / f"{key}.json"


def load(path: Path) -> tuple[Baseline, ...]:
    """What was measured before, if anything."""
    if not path.exists():
        return ()
    return tuple(
        Baseline(row["mode"], tuple(row["idle_us"]), tuple(row["queued_us"])) for row in json.loads(path.read_text())
    )


def measure(
    host: TorchHost, target: str, task: Task, direction: Direction, case: Case, modes: Sequence[str] = MODES
) -> tuple[Baseline, ...]:
    """Time every mode that works; one that does not is left out."""
    found = []
    for mode in modes:
        request = Request(
            target=target, direction=direction, case=case, mode=mode, samples=SAMPLES, tf32=task.precision.tf32
        )
        reply = host.time(request)
        if reply.queued_us:
            found.append(Baseline(mode, reply.idle_us, reply.queued_us))
    if not found:
        raise HarnessError(f"No mode of torch runs {task.name} {direction} on case {case.name}.")
    return tuple(found)


def keep(path: Path, baselines: Sequence[Baseline]) -> None:
    """Keep them for the next candidate."""
    rows: list[Mapping[str, object]] = [
        {"mode": b.mode, "idle_us": b.idle_us, "queued_us": b.queued_us} for b in baselines
    ]
    write_atomic(path, json.dumps(rows))


def best(baselines: Sequence[Baseline]) -> Baseline:
    """The fastest by device time: what a candidate is held against."""
    return min(baselines, key=lambda baseline: baseline.us)


def joined(one: Sequence[Baseline], two: Sequence[Baseline]) -> tuple[Baseline, ...]:
    """Two windows of each mode that ran in both."""
    again = {baseline.mode: baseline for baseline in two}
    return tuple(
        Baseline(b.mode, b.idle_us + again[b.mode].idle_us, b.queued_us + again[b.mode].queued_us)
        for b in one
        if b.mode in again
    )
