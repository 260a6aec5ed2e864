"""`warpsmith run-virtual`: one kernel on the virtual GPU: verdict, findings, counters, modelled time."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.app import read_kernel
from warpsmith.base import UsageError, find_nearest
from warpsmith.cli._options import Json, Kernel, Pass, Style
from warpsmith.cli._output import console, print_json, print_table
from warpsmith.cli._verdict import EXIT
from warpsmith.records import (
    Case,
    Finding,
    Group,
    KernelCounters,
    StageResult,
    Task,
    Trial,
    VirtualFacts,
)

if TYPE_CHECKING:
    from warpsmith.evaluation.check import CheckSubject

SHOWN_FINDINGS = 20
CALL_S = 120.0  # of one call: a case that is named may be a large one


def command(
    kernel: Kernel,
    task: Annotated[str, typer.Option(help="The task it implements: a suite task, or a path as `tasks show` takes.")],
    case: Annotated[str | None, typer.Option(help="A case by name; all smoke cases when not given.")] = None,
    direction: Pass = None,
    language: Style = None,
    gpu: Annotated[str, typer.Option(help="The GPU to model, or a .toml file that describes one.")] = "H200",
    seed: Annotated[int, typer.Option(help="The seed of the inputs.")] = 0,
    as_json: Json = False,
) -> None:
    """Compile a kernel, run it without a GPU on a task's small cases, and say what is wrong with it."""
    from warpsmith.evaluation.check import CheckSubject
    from warpsmith.languages import compile_candidate
    from warpsmith.languages.nvcc import CompileOptions
    from warpsmith.machines.virtual import VirtualMachine
    from warpsmith.tasks.host import open_task

    arch = VirtualMachine.of(gpu).arch
    with open_task(task) as opened:
        described = opened.describe()
        trials = [Trial(case=one, seed=seed) for one in _cases(described, case)]
        candidate = read_kernel(kernel, described.name, direction, language)
        options = CompileOptions.of(described, arch)
        compiled = compile_candidate(candidate, described.signature(candidate.direction), options)
        results = [compiled.result]
        if compiled.artifact is not None:
            subject = CheckSubject(described, candidate.direction, opened.problem, candidate.language)
            results += [_run(subject, trial, compiled.artifact, gpu) for trial in trials]
    print_json(results) if as_json else _print(kernel, results)
    raise typer.Exit(max(EXIT[result.verdict] for result in results))


def _run(subject: "CheckSubject", trial: Trial, artifact: Path, gpu: str) -> StageResult:
    from warpsmith.evaluation.verify import run_virtual
    from warpsmith.machines.virtual import ExecutorSettings, VirtualSession, describe

    entry, signature, modelled = subject.direction.value, subject.task.signature(subject.direction), describe(gpu)
    with VirtualSession(artifact, entry, signature, modelled, ExecutorSettings(), call_s=CALL_S) as session:
        return run_virtual(subject, trial, session, modelled)


def _cases(task: Task, name: str | None) -> Sequence[Case]:
    if name is None:
        return task.group_or_first(Group.SMOKE)
    found = [case for case in task.cases if case.name == name]
    if not found:
        known = [case.name for case in task.cases]
        near = ", ".join(find_nearest(name, known) or known)
        raise UsageError(f"Task {task.name} has no case {name}; it has {near}.")
    return found


def _print(kernel: Path, results: Sequence[StageResult]) -> None:
    for result in results:
        facts = result.facts
        case = f" on {facts.case}" if isinstance(facts, VirtualFacts) and facts.case else ""
        reason = f" ({result.reason})" if result.reason else ""
        console().print(f"{kernel.name}: {result.stage}{case}: {result.verdict}{reason} in {result.seconds:.1f} s")
        if result.detail:
            console().print(f"  {result.detail}")
        if isinstance(facts, VirtualFacts):
            _print_facts(facts)


def _print_facts(facts: VirtualFacts) -> None:
    if facts.findings:
        print_table(("finding", "where", "kernel", "times", "what"), map(_finding, facts.findings[:SHOWN_FINDINGS]))
    if facts.kernels:
        columns = (
            "kernel",
            "launches",
            "grid",
            "block",
            "regs",
            "occupancy",
            "instructions",
            "sectors",
            "modelled",
            "bound by",
        )
        print_table(columns, map(_counters, facts.kernels))
    if facts.worst_error is not None:
        console().print(f"  largest error over its bound: {facts.worst_error:.3g}")
    if facts.modelled is not None:
        time = facts.modelled
        console().print(
            f"  modelled time of the call on {time.gpu}: {time.us:.1f} µs, mostly {time.binding} (a model, not a clock)"
        )


def _finding(finding: Finding) -> tuple[str, ...]:
    from warpsmith.evaluation.profile import plain_name

    place = f"{finding.place.file}:{finding.place.line}" if finding.place else "-"
    return finding.checker, place, plain_name(finding.kernel) or "-", str(finding.count), finding.message


def _counters(row: KernelCounters) -> tuple[str, ...]:
    from warpsmith.evaluation.profile import plain_name

    sectors = row.global_load_sectors + row.global_store_sectors
    modelled = row.modelled
    return (
        plain_name(row.name),
        str(row.launches),
        "x".join(map(str, row.grid)),
        "x".join(map(str, row.block)),
        str(row.registers),
        f"{row.occupancy:.0%}" if row.occupancy is not None else "-",
        f"{row.thread_instructions:,}",
        f"{sectors:,}",
        f"{modelled.us:.1f} µs" if modelled else "-",
        modelled.binding if modelled else "-",
    )
