"""Measured records to lines for vgpu_model.py: what the virtual GPU counts for each kernel, beside its measured times.

    python benchmarks/suite_rows.py RECORDS.jsonl ... > benchmarks/measurements/h200_suite.jsonl

A line a kernel and timing case: `measured_us` from the last record that has it (one in quarantine too), `kernels` and
`transfers` as a sketch carries them over to the full size, so that a change of the cost model needs no run. A change of
what is counted or of the siblings does need one: ten minutes for the suite. Cases are all that can be cut small
enough, of every type of element, not only the three of a search; only those that two kernels have are written. A kernel
is `seed`, or numbered as the records come, with its macros; a number in a comment at the end of a source makes no other
kernel. What has no modelled time is named on standard error.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpsmith.app import first_candidate
from warpsmith.base import read_text
from warpsmith.evaluation.check import PlannedCall
from warpsmith.evaluation.check.run import CheckSubject, check
from warpsmith.evaluation.profile.words import plain_name
from warpsmith.evaluation.stages.probe import Probe, timed
from warpsmith.evaluation.stages.sketch import full_call
from warpsmith.languages.nvcc import CompileOptions, compile
from warpsmith.machines.virtual import Facts, LaunchRow, describe
from warpsmith.machines.virtual.machine import LIMITS
from warpsmith.machines.virtual.session import VirtualSession
from warpsmith.records import Candidate, Record, Trial
from warpsmith.tasks.host import open_task

NUMBERED = re.compile(r"\n// \d+\s*\Z")  # how a source is told from others of its kind, for a new evaluation
ORDER = ("first", "second", "third", "fourth", "fifth")
SEED = 5


@dataclass
class Kernel:
    """One candidate, and its measured times by case."""

    candidate: Candidate
    name: str
    times: dict[str, float] = field(default_factory=dict)


def kernels_of(records: Sequence[Record]) -> list[Kernel]:
    """The kernels that were timed; the last time of a case wins."""
    found: dict[tuple[str, str, str, str], Kernel] = {}
    sources: dict[tuple[str, str], list[str]] = {}
    for record in records:
        candidate, timing = record.candidate, record.timing
        if timing is None or timing.tier == "modelled":
            continue
        source = NUMBERED.sub("\n", candidate.source).strip()
        key = (candidate.task, candidate.direction.value, source, json.dumps(dict(candidate.macros), sort_keys=True))
        if key not in found:
            known = sources.setdefault(key[:2], [_seed(candidate)])
            known += [source] if source not in known else []
            name = " ".join((("seed", *ORDER)[known.index(source)], *(f"{k}={v}" for k, v in candidate.macros.items())))
            found[key] = Kernel(candidate.model_copy(update={"source": source + "\n"}), name)
        found[key].times |= {case.case.name: case.time.us for case in timing.cases if case.time is not None}
    return sorted(found.values(), key=lambda kernel: (kernel.candidate.task, kernel.candidate.direction.value))


def _seed(candidate: Candidate) -> str:
    seed = first_candidate(candidate.task, candidate.direction)
    return seed.source.strip() if seed else ""


def lines(kernel: Kernel, seconds: float) -> Iterator[dict[str, Any]]:
    """A line for each case that the virtual GPU can tell of, until the time is over."""
    candidate, started = kernel.candidate, time.monotonic()
    gpu = describe("H200")
    with open_task(candidate.task) as opened:
        task = opened.describe()
        signature = task.signature(candidate.direction)
        made = compile(candidate, signature, CompileOptions.of(task))
        if made.artifact is None:
            print(f"{kernel.name} of {candidate.task} does not compile: {made.result.detail}", file=sys.stderr)
            return
        subject = CheckSubject(task, candidate.direction, opened.problem, candidate.language)
        for probe in timed(task, candidate.direction):
            if probe.case.name not in kernel.times:
                continue
            if time.monotonic() - started > seconds:
                print(f"{kernel.name} of {candidate.task} ran out of time at {probe.case.name}", file=sys.stderr)
                return
            steps = [PlannedCall(Trial(case=case, seed=SEED)) for case in probe.siblings()]
            with VirtualSession(made.artifact, candidate.direction.value, signature, gpu) as session:
                checked = check(subject, steps, session, LIMITS)
            facts = [seen.facts for seen in checked.seen if seen.facts and seen.facts.kernels]
            if len(facts) == len(steps):
                yield line(kernel, probe, facts)
            else:
                print(f"{kernel.name} of {candidate.task}, {probe.case.name}: {checked.result.detail}", file=sys.stderr)


def line(kernel: Kernel, probe: Probe, facts: Sequence[Facts]) -> dict[str, Any]:
    """One line of the file."""
    candidate, (rows, transfers) = kernel.candidate, full_call(probe, facts)
    head: dict[str, Any] = {"task": candidate.task, "direction": candidate.direction.value, "case": probe.case.name}
    head |= {"kernel": kernel.name, "measured_us": round(kernel.times[probe.case.name], 2)}
    return head | {"kernels": [short(row) for row in rows], "transfers": [transfers.count, transfers.bytes]}


def short(row: LaunchRow) -> Mapping[str, Any]:
    """A row without what is as usual."""
    named = row.model_copy(update={"kernel": plain_name(row.kernel)})
    return named.model_dump(mode="json", exclude_defaults=True)


def main() -> None:
    """Read the records, write the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=60.0, help="for a kernel, beside compiling it")
    options = parser.parse_args()
    texts = [text for path in options.records for text in read_text(path, limit_bytes=1 << 30).splitlines()]
    kernels = kernels_of([Record.parse(text) for text in texts if text.strip()])
    found = [one for kernel in kernels for one in lines(kernel, options.seconds)]
    shared = Counter((one["task"], one["direction"], one["case"]) for one in found)
    for one in found:
        if shared[(one["task"], one["direction"], one["case"])] > 1:
            print(json.dumps(one, separators=(",", ":")))


if __name__ == "__main__":
    main()
