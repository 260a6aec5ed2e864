"""`warpsmith run-virtual`: one kernel on the virtual GPU: verdict, findings, counters, modelled time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from warpsmith import app
from warpsmith.app import KernelRequest
from warpsmith.cli._options import Json, Kernel, Pass, Style
from warpsmith.cli._output import console, print_json, print_table
from warpsmith.cli._verdict import EXIT
from warpsmith.evaluation import profile
from warpsmith.records import Finding, KernelCounters, StageResult, VirtualFacts

SHOWN_FINDINGS = 20


def command(
    kernel: Kernel,
    task: Annotated[str, typer.Option(help="The task it implements: a suite task, or a path as `tasks show` takes.")],
    case: Annotated[str | None, typer.Option(help="A case by name; all smoke cases by default.")] = None,
    direction: Pass = None,
    language: Style = None,
    gpu: Annotated[str, typer.Option(help="The GPU to model, or a .toml file that describes one.")] = "H200",
    seed: Annotated[int, typer.Option(help="The seed of the inputs.")] = 0,
    as_json: Json = False,
) -> None:
    """Compile a kernel, run it without a GPU on a task's small cases, and print its findings."""
    request = KernelRequest(kernel, task, direction, language, gpu=gpu, case=case)
    results = app.run_virtual(request, seed)
    print_json(results) if as_json else _print(kernel, results)
    raise typer.Exit(max(EXIT[result.verdict] for result in results))


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
    place = f"{finding.place.file}:{finding.place.line}" if finding.place else "-"
    return finding.checker, place, profile.plain_name(finding.kernel) or "-", str(finding.count), finding.message


def _counters(row: KernelCounters) -> tuple[str, ...]:
    sectors = row.global_load_sectors + row.global_store_sectors
    modelled = row.modelled
    return (
        profile.plain_name(row.name),
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
