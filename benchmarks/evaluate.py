"""From a kernel's text to a verdict with times, on a GPU: one at a time, many at once, and each against itself.

Run: python benchmarks/evaluate.py [--parts latency,batch,scale,aa] [--tasks a,b] [--prepared] [--out FOLDER]
Every text is compiled cold; baselines are measured before the clock starts. FOLDER gets what is printed, and the
records as JSON lines.
`aa` takes the published kernels, all else the seeds.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from warpsmith.app import kernel_candidate
from warpsmith.base import median
from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.batch import BatchLine, run_batch
from warpsmith.evaluation.environment import environment
from warpsmith.evaluation.run import grade
from warpsmith.evaluation.stages.cuda import timer_for
from warpsmith.evaluation.timing import rules
from warpsmith.evaluation.timing.capture import capture_alone
from warpsmith.evaluation.timing.rules import StopRule
from warpsmith.evaluation.timing.sample import SamplingOptions, TimedCall, sample
from warpsmith.evaluation.timing.session import TimingSession
from warpsmith.evaluation.timing.stage import FEWER, MORE, SHORT_US
from warpsmith.evaluation.timing.subject import TimingSubject
from warpsmith.languages.nvcc import CompileOptions, compile
from warpsmith.machines.cuda.machine import CudaMachine
from warpsmith.machines.cuda.session import RepeatableCall
from warpsmith.machines.worker.session import Shown
from warpsmith.records import Candidate, Direction, Failure, Group, Record, SpeedComparison, Verdict
from warpsmith.tasks.host import open_task
from warpsmith.tasks.reference.program import Problem
from warpsmith.tasks.suite import suite, suite_folder

KERNELS = Path(__file__).parents[1] / "kernels"
EIGHT = ("softmax", "layernorm", "llama_rmsnorm", "swiglu", "rope", "cross_entropy", "max_pool", "linear_relu")
CHOICES = EvaluationConfig(device="cuda", baselines=("eager",))  # kept ones: which they are does not matter here
MOST_S, BATCH_S = 8.0, 20.0  # the aims: median of one kernel, eight at once
SAME = StopRule(width=0.005, least=15, most=51, seconds=0.3)  # A/A: less than a claim has, for 95 cases in four windows
CALLS = 3  # A/A: different inputs, which take turns
TINY_US, SHARE, TINY_BY_US = 10.0, 0.01, 0.1  # A/A: within 1 %, and within 100 ns below 10 µs


@dataclass(frozen=True)
class Part:
    """One measurement: what it prints, and the records behind it."""

    lines: list[str]
    records: list[str]


def fresh(task: str, direction: Direction = Direction.FORWARD) -> Candidate:
    """The seed of a task with a text that nobody compiled before."""
    source = (suite_folder(task) / f"seed_{direction}.cu").read_text()
    return Candidate(task=task, direction=direction, source=f"{source}\n// {time.time_ns()}\n", origin="seed")


def requests(tasks: Sequence[str]) -> list[BatchLine]:
    """A batch of their seeds."""
    return [BatchLine(number, "", fresh(task)) for number, task in enumerate(tasks, 1)]


def latency(tasks: Sequence[str]) -> Part:
    """Seconds from text to verdict, one kernel after the other."""
    seconds, records = [], []
    for task in tasks:
        candidate, begin = fresh(task), time.perf_counter()
        record = grade(candidate, CHOICES)
        seconds.append(time.perf_counter() - begin)
        records.append(record)
    lines = [_row(record, one) for record, one in zip(records, seconds, strict=True)]
    lines.append(f"median {median(seconds):.2f} s a kernel (aim {MOST_S:g} s)")
    return Part(lines, [record.text() for record in records])


def batch(tasks: Sequence[str], jobs: int) -> Part:
    """Seconds for all of them at once."""
    asked = requests(tasks)
    begin, lines, records = time.perf_counter(), list[str](), list[str]()
    for line in run_batch(asked, CHOICES, jobs):
        lines.append(_row(Record.parse(line), time.perf_counter() - begin))
        records.append(line)
    seconds = time.perf_counter() - begin
    lines.append(f"{len(tasks)} kernels at once: {seconds:.1f} s (aim {BATCH_S:g} s for eight)")
    return Part(lines, records)


def scale(tasks: Sequence[str], jobs: int) -> Part:
    """Kernels an hour against how many there are."""
    lines = []
    for count in (1, 2, 4, 8, 16):
        chosen = [tasks[place % len(tasks)] for place in range(count)]
        begin = time.perf_counter()
        list(run_batch(requests(chosen), CHOICES, jobs))
        seconds = time.perf_counter() - begin
        lines.append(f"{count:3} kernels {seconds:6.1f} s, {3600 * count / seconds:6.0f} an hour")
    return Part(lines, [])


def against_itself(tasks: Sequence[str]) -> Part:
    """The same kernel as two candidates in their own processes, A B B A as a claim does: the ratio of their times."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = [row for subject in pool.map(_published, tasks) for row in _pairs(subject)]
    good = [row for row in rows if row["within"]]
    lines = [
        f"{row['task']:16}{row['case']:36}{row['first_us']:10.2f} {row['second_us']:10.2f} µs  {row['ratio']:.4f}"
        for row in rows
    ]
    lines.append(
        f"A/A: {len(good)} of {len(rows)} within 1 % (100 ns below 10 µs): {len(good) / max(1, len(rows)):.1%}; "
        f"called faster: {sum(row['claim'] == SpeedComparison.FASTER for row in rows)}"
    )
    return Part(lines, [json.dumps(row) for row in rows])


def _published(task: str) -> TimingSubject:
    (_, candidate), opened = kernel_candidate(KERNELS / task / "forward.cu", "", {}), open_task(task)
    described = opened.describe()
    made = compile(candidate, described.forward, CompileOptions.of(described))
    assert made.artifact is not None, made.result.detail
    return TimingSubject(opened, task, described, Direction.FORWARD, made.artifact, candidate.language, 1)


def _unseen(_call: Problem, _shown: Shown) -> None:
    """Nobody looks at results here."""


def _pairs(subject: TimingSubject) -> Iterator[dict[str, object]]:
    machine, cases = CudaMachine.first(), subject.task.group(Group.TIMING)
    timer = timer_for(machine, environment(machine).torch, CHOICES)
    runtime = timer.empty_kernels.toolchain.runtime.parent
    recorded = capture_alone(subject, runtime, cases, lambda _case: _unseen, CHOICES.call_s)
    assert not isinstance(recorded, Failure), recorded
    with TimingSession(subject, machine, recorded.arenas, CHOICES.call_s) as timing_session:
        for case in cases:
            drawn, one = [call for _, call in islice(subject.calls(case), CALLS)], recorded.calls[case.name]
            windows = [_window(timing_session, one, drawn, number) for number in range(4)]
            times = [window for window in windows if window]
            if len(times) < 4:
                print(f"{subject.target} {case.name} cannot be repeated", flush=True)
                continue
            once, other = [*times[0], *times[3]], [*times[1], *times[2]]
            found, first, second = rules.speed_ratio(once, other), median(once), median(other)
            each = [first / median(window) for window in (times[1], times[2])]
            within = abs(first - second) <= (TINY_BY_US if first < TINY_US else SHARE * second)
            yield {
                "task": subject.target,
                "case": case.name,
                "first_us": first,
                "second_us": second,
                "windows_us": [median(window) for window in times],
                "ratio": found.value,
                "within": within,
                "claim": rules.compare_speeds(found, each, abs(first - second)).value,
            }


def _window(
    timing_session: TimingSession, recorded: RepeatableCall, drawn: Sequence[Problem], number: int
) -> list[float]:
    """The times of one window, of several processes where the kernel is short; none where it went wrong."""
    times: list[list[float]] = []
    players = 1 + len(MORE[0])
    for place in range(players):
        player = timing_session.replayer(number * players + place, recorded)
        found = sample(
            player, (TimedCall(call, _unseen) for call in cycle(drawn)), SamplingOptions(FEWER if place else SAME)
        )
        if isinstance(found, Failure):
            return []
        times.append([clocks.event_us for clocks in found.drop_disturbed().queued])
        if median(times[0]) >= SHORT_US:
            break
    return rules.take_equally(times)


def _row(record: Record, seconds: float) -> str:
    return f"{record.candidate.task:16}{seconds:7.2f} s  {_stages(record)}"


def _stages(record: Record) -> str:
    said = "  ".join(f"{result.stage} {result.seconds:.2f}" for result in record.results)
    return f"{record.verdict}  {said}" + ("" if record.verdict is Verdict.PASS else f"  {_why(record)}")


def _why(record: Record) -> str:
    return f"{record.ended.reason}: {record.ended.detail}" if record.ended else ""


def prepare(tasks: Sequence[str], jobs: int) -> None:
    """Everything that is measured once a machine: native parts, the null candidate, ceilings, baselines."""
    for record in map(Record.parse, run_batch(requests(tasks), CHOICES, jobs)):
        cases = len(record.timing.cases) if record.timing else 0
        print(f"prepared {record.candidate.task}: {_stages(record)}, {cases} cases", flush=True)


def main() -> None:
    """Measure the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="latency,batch")
    parser.add_argument("--tasks", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--prepared", action="store_true", help="what is measured once a machine is there already")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    tasks = tuple(given.tasks.split(",")) if given.tasks else EIGHT
    parts: dict[str, Callable[[], Part]] = {
        "latency": lambda: latency(tasks),
        "batch": lambda: batch(tasks, given.jobs),
        "scale": lambda: scale(tasks, given.jobs),
        "aa": lambda: against_itself(
            tuple(given.tasks.split(",")) if given.tasks else tuple(task.name for task in suite())
        ),
    }
    chosen = given.parts.split(",")
    if {"latency", "batch", "scale"} & set(chosen) and not given.prepared:
        prepare(tasks, given.jobs)
    for name in chosen:
        part = parts[name]()
        print("\n".join(part.lines), flush=True)
        if given.out:
            given.out.mkdir(parents=True, exist_ok=True)
            (given.out / f"{name}.txt").write_text("".join(f"{line}\n" for line in part.lines))
            if part.records:
                (given.out / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in part.records))


if __name__ == "__main__":
    main()
