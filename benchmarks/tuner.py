"""What the tuner picks without a model and without a GPU, and how good the pick is on one.

    python benchmarks/tuner.py pick picks.jsonl [TASK ...]        the search on the virtual GPU, one line a task
    python benchmarks/tuner.py requests picks.jsonl all.jsonl     every point of those kernels, for a GPU machine:
        warpsmith eval-batch all.jsonl --device cuda --cases timing > measured.jsonl
    python benchmarks/tuner.py compare picks.jsonl measured.jsonl the pick's measured time over the best point's

A pick counts as good within 1.15 of the best point that was timed.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from warpsmith.archive import Archive
from warpsmith.cli._search import open_session
from warpsmith.cli._wishes import Wishes
from warpsmith.evolve.start import first_candidate
from warpsmith.evolve.tune import read_space, said, tuned
from warpsmith.records import Candidate, Direction, Model, Record, TimingFacts, score
from warpsmith.tasks.suite import suite

GOOD = 1.15
MOST_POINTS = 24  # of a kernel that are timed on a GPU: the pick, the defaults, and others by chance


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
    with tempfile.TemporaryDirectory() as folder, Archive.open(f"sqlite:///{folder}/archive.sqlite") as archive:
        wishes = Wishes(target=task, direction=direction, device="vgpu", run="pick")
        session = open_session(archive, wishes, lambda view: None)
        ending = session.search.run()
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
    print(f"{one.task:16s} {one.gain:6.2f}× modelled  {said(one.macros):44s} {where}", flush=True)


def read(path: Path) -> list[Pick]:
    return [Pick.parse(line) for line in path.read_text().splitlines() if line.strip()]


def points(one: Pick) -> Iterator[Candidate]:
    """The pick, the defaults, and others of its kernel's space."""
    first = first_candidate(one.task, one.direction)
    assert first is not None
    others = [dict(point) for point in read_space(first.source).points()]
    chosen = [one.macros, *([{}] if one.macros else [])]
    rest = [point for point in others if point not in chosen]
    chosen += random.Random(one.task).sample(rest, min(len(rest), MOST_POINTS - len(chosen)))
    return (tuned(first, point) for point in chosen)


def requests(picks: Path, out: Path) -> None:
    lines = [candidate.text() for one in read(picks) for candidate in points(one)]
    out.write_text("".join(f"{line}\n" for line in lines))
    print(f"{len(lines)} points in {out}")


def compare(picks: Path, measured: Path) -> None:
    records = [Record.parse(line) for line in measured.read_text().splitlines() if '"candidate"' in line]
    good = 0
    for one in read(picks):
        own = [record for record in records if record.candidate.task == one.task]
        times = {tuple(sorted(record.candidate.macros.items())): us for record in own if (us := geomean_us(record))}
        picked = times.get(tuple(sorted(one.macros.items())))
        if picked is None:
            print(f"{one.task:16s} the pick was not timed")
            continue
        best = min(times, key=lambda point: times[point])
        ratio, gained = picked / times[best], times.get((), float("nan")) / picked
        good += ratio <= GOOD
        print(
            f"{one.task:16s} pick {picked:9.2f} µs, {ratio:5.2f} × the best ({said(dict(best))}); "
            f"{gained:5.2f}× over the defaults measured, {one.gain:5.2f}× modelled; {len(times)} points"
        )
    print(f"{good} of {len(read(picks))} within {GOOD}")


def geomean_us(record: Record) -> float | None:
    """The geometric mean of the device times; None where it did not pass."""
    timing = record.result("timing")
    if score(record) is None or timing is None or not isinstance(timing.facts, TimingFacts):
        return None
    product = 1.0
    for case in timing.facts.cases:
        product *= case.time.us ** (1 / len(timing.facts.cases))
    return product


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("pick", "requests", "compare", "show"))
    parser.add_argument("picks", type=Path)
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--direction", type=Direction, default=Direction.FORWARD)
    given = parser.parse_args()
    match given.step:
        case "pick":
            pick(given.picks, given.rest, given.direction)
        case "requests":
            requests(given.picks, Path(given.rest[0]))
        case "compare":
            compare(given.picks, Path(given.rest[0]))
        case _:
            for one in read(given.picks):
                show(one)


if __name__ == "__main__":
    main()
