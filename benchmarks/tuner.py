"""What the tuner picks without a model and without a GPU, and how good the pick is on one.

    python benchmarks/tuner.py pick picks.jsonl [TASK ...]        the search on the virtual GPU, one line a task
    python benchmarks/tuner.py time picks.jsonl timed.jsonl       on a GPU: every point of those kernels, a line each
    python benchmarks/tuner.py compare picks.jsonl timed.jsonl    the pick's measured time over the best point's

A pick counts as good within 1.15 of the best point. `time` compiles all points at once, then takes the median of a few
queued calls with a cold cache for each timing case, one point at a time; a point far behind the best has one call, and
one with a wrong result is said to be wrong and not timed.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from math import inf
from pathlib import Path
from threading import Lock

from pydantic import Field

from warpsmith.app import SearchConfig, first_candidate, open_session
from warpsmith.archive import Archive
from warpsmith.base import geomean, median
from warpsmith.evaluation.check.fault import check_call
from warpsmith.languages.cuda.tunables import format_macros, read_space, with_macros
from warpsmith.languages.nvcc import CompileOptions, Toolchain, compile
from warpsmith.machines.cuda.room import room_for_all
from warpsmith.machines.cuda.session import CudaSession
from warpsmith.machines.worker.session import Mode
from warpsmith.records import Candidate, Direction, Group, Model, Task, Trial
from warpsmith.tasks.host import open_task
from warpsmith.tasks.reference.fresh import problems
from warpsmith.tasks.reference.program import Problem
from warpsmith.tasks.suite import suite

GOOD = 1.15
LEAST_CALLS, MOST_CALLS, CALLS_S = 2, 9, 0.05  # of a case of a point
LOST, LONG_US = 1.5, 500.0  # times the best so far: a long call this far behind is timed once
SESSIONS = 4  # are begun at once; one at a time is on the clock


class Pick(Model):
    """What a search on the virtual GPU picked."""

    task: str
    direction: Direction
    macros: dict[str, str]
    gain: float  # modelled, over the defaults
    points: int
    tried: int
    seconds: float


def search(task: str, direction: Direction) -> Pick:
    """One search in an archive of its own."""
    started = time.perf_counter()
    with ExitStack() as until:
        folder = until.enter_context(tempfile.TemporaryDirectory())
        archive = until.enter_context(Archive.open(f"sqlite:///{folder}/archive.sqlite"))
        config = SearchConfig(target=task, direction=direction, device="vgpu", run="pick")
        ending = open_session(archive, config, lambda view: None, until).search.run()
    assert ending.best is not None
    candidate = ending.best.record.candidate
    return Pick(
        task=task,
        direction=direction,
        macros=dict(candidate.macros),
        gain=ending.best.gain,
        points=read_space(candidate.source).size,
        tried=ending.evaluations,
        seconds=time.perf_counter() - started,
    )


def pick(out: Path, tasks: list[str], direction: Direction) -> None:
    done = {one.task for one in read(out)} if out.exists() else set()
    for name in tasks or [task.name for task in suite()]:
        if name not in done:
            found = search(name, direction)
            with out.open("a") as file:
                file.write(found.text() + "\n")
            show(found)


def show(one: Pick) -> None:
    where = f"{one.tried} of {one.points} points in {one.seconds:.0f} s"
    print(f"{one.task:16s} {one.gain:6.2f}× modelled  {format_macros(one.macros):44s} {where}", flush=True)


def read(path: Path) -> list[Pick]:
    return [Pick.parse(line) for line in path.read_text().splitlines() if line.strip()]


def points(one: Pick) -> list[Candidate]:
    """All of the kernel's space, the pick among them."""
    first = first_candidate(one.task, one.direction)
    assert first is not None
    return [with_macros(first, point) for point in read_space(first.source).points()]


class Timed(Model):
    """A point on a GPU: its time a timing case in µs, or why there is none."""

    task: str
    macros: dict[str, str]
    us: dict[str, float] = Field(default_factory=dict)
    wrong: str = ""


def time_all(picks: Path, out: Path) -> None:
    done = {one.task for one in timed(out)} if out.exists() else set()
    with ThreadPoolExecutor(os.cpu_count()) as pool, out.open("a") as file:
        left = [one for one in read(picks) if one.task not in done]
        jobs = [[pool.submit(built, point) for point in points(one)] for one in left]
        for one, building in zip(left, jobs, strict=True):
            started = time.perf_counter()
            lines = [found.text() for found in on_gpu(one, [job.result() for job in building])]
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            print(f"{one.task:16s} {len(lines)} points in {time.perf_counter() - started:.1f} s", flush=True)


def built(candidate: Candidate) -> tuple[Candidate, Path | None]:
    with open_task(candidate.task) as opened:
        described = opened.describe()
    return candidate, compile(candidate, described.forward, CompileOptions.of(described)).artifact


def on_gpu(one: Pick, made: list[tuple[Candidate, Path | None]]) -> Iterator[Timed]:
    with open_task(one.task) as opened, ThreadPoolExecutor(SESSIONS) as pool:
        task = opened.describe()
        trials = [Trial(case=case) for case in task.group(Group.TIMING)]
        calls = {trial.case.name: next(problems(opened, one.direction, trial, 1, "cuda")) for trial in trials}
        room, clock, best = room_for_all(calls.values()), Lock(), dict[str, float]()

        def on_clock(candidate: Candidate, artifact: Path | None) -> Timed:
            found = Timed(task=one.task, macros=dict(candidate.macros), wrong="" if artifact else "does not compile")
            if artifact is None:
                return found
            with CudaSession(artifact, one.direction.value, Toolchain.find().runtime.parent, room) as session, clock:
                for trial in trials:
                    name = trial.case.name
                    lost_us = LOST * best.get(name, inf)
                    us = median_us(session, calls[name], task, one.direction, trial, lost_us)
                    found = added(found, name, us)
                    if isinstance(us, str):
                        break
                    best[name] = min(best.get(name, inf), us)
            return found

        yield from pool.map(on_clock, *zip(*made, strict=True))


def added(found: Timed, case: str, us: float | str) -> Timed:
    if isinstance(us, str):
        return found.model_copy(update={"us": {}, "wrong": f"{case}: {us}"})
    return found.model_copy(update={"us": {**found.us, case: us}})


def median_us(
    session: CudaSession, call: Problem, task: Task, direction: Direction, trial: Trial, lost_us: float
) -> float | str:
    """The median of a few queued calls, after one that is looked at; what is wrong with that one otherwise."""
    shown = session.call(call.arguments, mode=Mode.QUEUED)
    if shown.failure:
        return shown.failure.detail
    if fault := check_call(shown, call, task, direction, trial).failure:
        return fault.detail
    if shown.clocks is not None and shown.clocks.event_us > max(lost_us, LONG_US):
        return shown.clocks.event_us
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < LEAST_CALLS or (len(times) < MOST_CALLS and time.perf_counter() - begin < CALLS_S):
        again = session.call(call.arguments, slot=len(times) + 1, mode=Mode.QUEUED)
        if again.clocks is None:
            return "no answer"
        times.append(again.clocks.event_us)
    return median(times)


def timed(path: Path) -> list[Timed]:
    return [Timed.parse(line) for line in path.read_text().splitlines() if line.strip()]


def compare(picks: Path, measured: Path) -> None:
    every, good = timed(measured), 0
    for one in read(picks):
        own = [point for point in every if point.task == one.task]
        times = {tuple(sorted(point.macros.items())): geomean(point.us.values()) for point in own if point.us}
        picked = times.get(tuple(sorted(one.macros.items())))
        if picked is None:
            print(f"{one.task:16s} the pick was not timed")
            continue
        best = min(times, key=lambda point: times[point])
        ratio, gained = picked / times[best], times.get((), float("nan")) / picked
        good += ratio <= GOOD
        print(
            f"{one.task:16s} pick {picked:9.2f} µs, {ratio:5.2f} × the best ({format_macros(dict(best))}); "
            f"{gained:5.2f}× over the defaults measured, {one.gain:5.2f}× modelled; {len(times)} of {len(own)} points"
        )
    print(f"{good} of {len(read(picks))} within {GOOD}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("pick", "time", "compare", "show"))
    parser.add_argument("picks", type=Path)
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--direction", type=Direction, default=Direction.FORWARD)
    given = parser.parse_args()
    match given.step:
        case "pick":
            pick(given.picks, given.rest, given.direction)
        case "time":
            time_all(given.picks, Path(given.rest[0]))
        case "compare":
            compare(given.picks, Path(given.rest[0]))
        case _:
            for one in read(given.picks):
                show(one)


if __name__ == "__main__":
    main()
