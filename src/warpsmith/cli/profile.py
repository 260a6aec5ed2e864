"""`warpsmith profile`: the binding resource of a kernel in numbers, and its place under the roofline."""

from pathlib import Path
from typing import Annotated

import typer

from warpsmith import app
from warpsmith.app import KernelRequest
from warpsmith.cli._options import Device, Gpu, Json, Kernel, Macros, Pass, Style, Target, Trust, read_macros
from warpsmith.cli._output import console, print_json, print_table
from warpsmith.cli._verdict import EXIT, headline
from warpsmith.evaluation import profile
from warpsmith.evaluation.profile import ceilings_text, hot_lines, metric, microseconds, scaled, share, short_name
from warpsmith.records import KernelProfile, ProfileFacts, Record

CASE_HELP = "A case by name; by default the first timing case, or on the virtual GPU the largest of some seconds."


def command(
    target: Target,
    kernel: Kernel,
    direction: Pass = None,
    language: Style = None,
    macro: Macros = None,
    device: Device = "auto",
    case: Annotated[str | None, typer.Option(help=CASE_HELP)] = None,
    gpu: Gpu = "H200",
    short: Annotated[bool, typer.Option("--digest", help="Print a summary of 1500 characters.")] = False,
    trust: Trust = False,
    as_json: Json = False,
) -> int:
    """Profile a correct kernel: counters, occupancy, stalls, lines, and its place under the roofline."""
    request = KernelRequest(kernel, target, direction, language, read_macros(macro or []), device, gpu, case, trust)
    found = app.profile(request)
    if found.facts is None:
        return _print_unprofiled(kernel, found.record, as_json)
    if as_json:
        print_json(found.facts)
    elif short:
        console().print(profile.profile_digest(found.facts))
    else:
        _print(kernel.name, found.record, found.facts)
    return 0


def _print_unprofiled(kernel: Path, record: Record, as_json: bool) -> int:
    if as_json:
        print_json(record)
    else:
        last = record.results[-1]
        console().print(f"{kernel.name} is not profiled: {headline(last)}")
        console().print(f"  {last.detail}")
    return EXIT[record.concluded]


def _print(kernel: str, record: Record, facts: ProfileFacts) -> None:
    out, place = console(), facts.place
    candidate = record.candidate
    headed = f"{kernel} for {candidate.task}, {candidate.direction}, case {facts.case} on {facts.gpu}"
    out.print(f"{headed} ({profile.WORDS[facts.source]})", style="bold")
    if facts.time is not None and place is not None and place.floor_us is not None:
        said = f"{microseconds(facts.time.us)}, {share(place.fraction)} of the roofline"
        out.print(f"  the call: {said}: its floor is {microseconds(place.floor_us)}")
    for passed in facts.passed_over:
        out.print(f"  no {passed.source}: {passed.why}")
    columns = ("kernel", "launches", "time", "bound by", "of its floor", "DRAM", "occupancy", "issue", "registers")
    print_table(columns, [_row(one) for one in facts.kernels])
    for one in facts.kernels:
        _print_kernel(one)
    if facts.ceilings is not None:
        out.print(f"  ceilings, {ceilings_text(facts.ceilings)}")
    for note in (*(finding.message for finding in facts.findings), *facts.notes):
        out.print(f"  {note}")


def _row(one: KernelProfile) -> tuple[str, ...]:
    place, moved = one.place, (one.dram_read_bytes, one.dram_written_bytes)
    return (
        short_name(one.name),
        str(one.launches),
        microseconds(one.time.us) if one.time else "-",
        place.binding if place and place.binding else "-",
        share(place.fraction) if place else "-",
        scaled(sum(part or 0.0 for part in moved), "B") if None not in moved else "-",
        share(one.occupancy if one.occupancy is not None else one.occupancy_limit),
        share(one.issue_active),
        f"{one.registers}" + (f" ({one.spill_bytes} B spilled)" if one.spill_bytes else ""),
    )


def _print_kernel(one: KernelProfile) -> None:
    """Print the metrics of the binding resource, the stalls, and the hot lines."""
    out = console()
    if one.place is not None and one.place.shown_by:
        shown = "; ".join(metric(part) for part in one.place.shown_by)
        out.print(f"  {short_name(one.name)} is bound by {one.place.binding}: {shown}")
    if one.stalls:
        out.print(f"    warps wait: {'; '.join(metric(part) for part in one.stalls)}")
    for line in hot_lines(one):
        out.print(f"    {line}")
