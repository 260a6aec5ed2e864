"""How well modelled times rank kernels: Spearman's correlation with measured times within each task and shape.

    python benchmarks/vgpu_model.py MEASUREMENTS.jsonl [--gpu H200] [--least 3] [--noise 0.02]

One JSON object a line: `task`, `case`, `direction` (forward when absent), `measured_us`, and one of
`modelled_us`; `kernels` (rows of counters as the executor writes them, with `transfers`, a count and bytes: modelled
anew as a search does, no run needed); or `source` (the path of a kernel, beside the file or absolute: compiled and run
on the virtual GPU). With `--noise`, measured times that differ by less than that share count as equal: which of them is
lower is chance.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsmith.base import UsageError, median, read_text, spearman
from warpsmith.evaluation.stages.sketch import together
from warpsmith.machines.virtual import Description, ExecutorSettings, LaunchRow, describe
from warpsmith.machines.virtual.cost import Transfers
from warpsmith.records import Direction

CALL_S = 120.0  # of one call: a case may be a large one


@dataclass(frozen=True)
class Pair:
    """One kernel on one case of a task: what the model says and what a clock said."""

    group: tuple[str, str, str]
    modelled_us: float
    measured_us: float


@dataclass(frozen=True)
class Line:
    """The correlation over the kernels of one task, direction and case."""

    group: tuple[str, str, str]
    kernels: int
    rank: float


def pairs(path: Path, gpu: Description) -> Iterator[Pair]:
    """The pairs of a file; a kernel that does not pass on the virtual GPU has no modelled time and is left out."""
    for number, text in enumerate(read_text(path, limit_bytes=1 << 30).splitlines(), 1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
            group = (row["task"], row.get("direction", "forward"), row["case"])
            modelled = modelled_us(row, path.parent, gpu)
            measured = float(row["measured_us"])
        except (KeyError, ValueError) as error:
            raise UsageError(f"{path}:{number} is no measurement: {error!r}.") from None
        if modelled is not None:
            yield Pair(group, modelled, measured)


def modelled_us(row: dict[str, Any], folder: Path, gpu: Description) -> float | None:
    """What the row says, or what the model says of its counters, or of a run."""
    if "modelled_us" in row:
        return float(row["modelled_us"])
    if "kernels" in row:
        rows = [LaunchRow.model_validate(kernel) for kernel in row["kernels"]]
        return together(rows, gpu, Transfers(*row.get("transfers", (0, 0)))).us
    return run_us(row, folder / row["source"], gpu)


def run_us(row: dict[str, Any], source: Path, gpu: Description) -> float | None:
    """The modelled time of a run on the virtual GPU, on the case of the row."""
    from warpsmith.evaluation.check.run import CheckSubject
    from warpsmith.evaluation.verify.virtual import run_virtual
    from warpsmith.languages.nvcc import CompileOptions, compile
    from warpsmith.machines.virtual.session import VirtualSession
    from warpsmith.records import Candidate, Trial, VirtualFacts
    from warpsmith.tasks.host import open_task

    direction = Direction(row.get("direction", "forward"))
    with open_task(row["task"]) as opened:
        task = opened.describe()
        case = next(case for case in task.cases if case.name == row["case"])
        candidate = Candidate(task=task.name, direction=direction, source=read_text(source))
        compiled = compile(candidate, task.signature(direction), CompileOptions.of(task))
        if compiled.artifact is None:
            return None
        subject, signature = CheckSubject(task, direction, opened.problem), task.signature(direction)
        with VirtualSession(
            compiled.artifact, direction.value, signature, gpu, ExecutorSettings(), call_s=CALL_S
        ) as session:
            facts = run_virtual(subject, Trial(case=case), session, gpu).facts
    if not isinstance(facts, VirtualFacts) or facts.modelled is None:
        return None
    return facts.modelled.us


def lines(found: Iterable[Pair], least: int, noise: float = 0.0) -> list[Line]:
    """One line for each group of at least `least` kernels."""
    groups: dict[tuple[str, str, str], list[Pair]] = defaultdict(list)
    for pair in found:
        groups[pair.group].append(pair)
    return [
        Line(
            group,
            len(members),
            spearman([p.modelled_us for p in members], steps([p.measured_us for p in members], noise)),
        )
        for group, members in sorted(groups.items())
        if len(members) >= least
    ]


def steps(times: Sequence[float], noise: float) -> list[float]:
    """The times, each as low as the lowest that it is no more than noise away from, one after the other."""
    lowest: dict[float, float] = {}
    before = -math.inf
    for time in sorted(times):
        lowest[time] = lowest[before] if time <= before * (1.0 + noise) else time
        before = time
    return [lowest[time] for time in times]


def summary(found: Sequence[Line]) -> str:
    """The median over groups, and the mean weighted by their kernels; groups without variation count for nothing."""
    known = [line for line in found if not math.isnan(line.rank)]
    if not known:
        return "no group has enough kernels whose times differ"
    kernels = sum(line.kernels for line in known)
    mean = sum(line.rank * line.kernels for line in known) / kernels
    return (
        f"{len(known)} groups, {kernels} kernels: Spearman median {median([line.rank for line in known]):.3f}, "
        f"weighted mean {mean:.3f}, lowest {min(line.rank for line in known):.3f}"
    )


def pairs_of_two(found: Sequence[Line]) -> str:
    """Groups of two kernels, where a rank says only whether their order is right."""
    two = [line for line in found if line.kernels == 2 and not math.isnan(line.rank)]
    return f"{len(two)} groups of two: {sum(line.rank > 0 for line in two)} in the right order"


def main() -> None:
    """Read the file, print the table and the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", type=Path)
    parser.add_argument("--gpu", default="H200")
    parser.add_argument("--least", type=int, default=3, help="kernels a group must have")
    parser.add_argument("--noise", type=float, default=0.0, help="share by which measured times must differ")
    options = parser.parse_args()
    measured = list(pairs(options.measurements, describe(options.gpu)))
    found = lines(measured, options.least, options.noise)
    print(f"{'task':<20} {'direction':<9} {'case':<24} {'kernels':>7} {'Spearman':>8}")
    for line in found:
        task, direction, case = line.group
        print(f"{task:<20} {direction:<9} {case:<24} {line.kernels:>7} {line.rank:>8.3f}")
    print(summary(found))
    print(pairs_of_two(lines(measured, 2, options.noise)))


if __name__ == "__main__":
    main()
