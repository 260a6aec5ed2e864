"""`warpsmith profile`: what binds a kernel, in numbers; its place under the roofline."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.app import read_kernel
from warpsmith.base import UsageError, find_nearest
from warpsmith.cli._options import Device, Gpu, Json, Kernel, Macros, Pass, Style, Target, Trust, read_macros
from warpsmith.cli._output import console, print_json, print_table
from warpsmith.cli._verdict import EXIT, headline
from warpsmith.records import (
    Candidate,
    Case,
    CompileFacts,
    Direction,
    Group,
    KernelProfile,
    ProfileFacts,
    Record,
    Task,
    Trial,
    Verdict,
)

if TYPE_CHECKING:
    from warpsmith.evaluation import EvaluationConfig
    from warpsmith.evaluation.profile import ProfileJob
    from warpsmith.tasks.host import OpenTask

CASE_HELP = "A case by name; by default the first timing case, or on the virtual GPU the largest of some seconds."
VIRTUAL_FLOPS = 1e8  # of a case that the virtual GPU runs in seconds


def command(
    target: Target,
    kernel: Kernel,
    direction: Pass = None,
    language: Style = None,
    macro: Macros = None,
    device: Device = "auto",
    case: Annotated[str | None, typer.Option(help=CASE_HELP)] = None,
    gpu: Gpu = "H200",
    short: Annotated[bool, typer.Option("--digest", help="Print the 1500 characters that a prompt gets.")] = False,
    trust: Trust = False,
    as_json: Json = False,
) -> int:
    """Say what binds a kernel that is right: counters, occupancy, stalls, lines, and its place under the roofline."""
    from warpsmith.evaluation import EvaluationConfig, grade, settle_device
    from warpsmith.evaluation.profile import profile_digest

    choices = EvaluationConfig(device=settle_device(device), gpu=gpu, trust=trust, until="check")
    record = grade(read_kernel(kernel, target, direction, language, read_macros(macro or [])), choices)
    if record.concluded is not Verdict.PASS:
        return _refuse(kernel, record, as_json)
    facts = profile_record(target, record, choices.device, gpu, case, trust)
    if as_json:
        print_json(facts)
    else:
        console().print(profile_digest(facts)) if short else _print(kernel.name, record, facts)
    return 0


def _refuse(kernel: Path, record: Record, as_json: bool) -> int:
    """Only what is right is profiled: a wrong kernel's numbers mean nothing, and untested code gets no counters."""
    if as_json:
        print_json(record)
    else:
        last = record.results[-1]
        console().print(f"{kernel.name} is not profiled: {headline(last)}")
        console().print(f"  {last.detail}")
    return EXIT[record.concluded]


def profile_record(target: str, record: Record, device: str, gpu: str, name: str | None, trust: bool) -> ProfileFacts:
    """Return the profile of a kernel that passed its check."""
    from warpsmith.evaluation import EvaluationConfig
    from warpsmith.tasks.host import OpenOptions, open_task

    with open_task(target, OpenOptions(trust=trust)) as opened:
        task = opened.describe()
        job = _job(opened, task, record.candidate, _case(task, device, name), EvaluationConfig(device=device, gpu=gpu))
    if device == "vgpu":
        from warpsmith.evaluation.profile import profile_virtual
        from warpsmith.machines.virtual import SETTINGS, describe
        from warpsmith.machines.worker import VirtualSandbox

        return profile_virtual(job, describe(gpu), VirtualSandbox(describe(gpu), SETTINGS))
    return _on_gpu(job, trust)


def _on_gpu(job: "ProfileJob", trust: bool) -> ProfileFacts:
    from warpsmith.evaluation.profile import find_ceilings, profile_cuda
    from warpsmith.languages.nvcc import Toolchain
    from warpsmith.machines.hardware import Need, gpus, lease

    toolchain = Toolchain.find()
    with lease(Need.ALONE):
        return profile_cuda(job, toolchain, find_ceilings(gpus()[0], toolchain), trust)


def _job(opened: "OpenTask", task: Task, candidate: Candidate, case: Case, choices: "EvaluationConfig") -> "ProfileJob":
    from warpsmith.evaluation import machine_for
    from warpsmith.evaluation.profile import ProfileJob
    from warpsmith.languages import compile_candidate
    from warpsmith.languages.nvcc import CompileOptions

    arch = machine_for(choices).arch
    made = compile_candidate(candidate, task.signature(candidate.direction), CompileOptions.of(task, arch))
    assert made.artifact is not None, made.result.detail  # it passed a moment ago
    assert isinstance(made.result.facts, CompileFacts)
    trial = Trial(case=case)
    problem = opened.problem(candidate.direction, trial)
    source, language = candidate.source, candidate.language
    return ProfileJob(task, candidate.direction, trial, problem, made.artifact, source, made.result.facts, language)


def _case(task: Task, device: str, name: str | None) -> Case:
    if name is None:
        return _largest(task) if device == "vgpu" else task.group_or_first(Group.TIMING)[0]
    known = [case.name for case in task.cases]
    if name not in known:
        near = ", ".join(find_nearest(name, known) or known)
        raise UsageError(f"Task {task.name} has no case {name}; it has {near}.")
    return task.cases[known.index(name)]


def _largest(task: Task) -> Case:
    """The case with most work that the virtual GPU can do in seconds: small ones show little but launches."""
    work = [(task.flops(Direction.FORWARD, case), case) for case in task.cases]
    able = [(flops, case) for flops, case in work if flops is not None and flops <= VIRTUAL_FLOPS]
    return max(able, key=lambda pair: pair[0])[1] if able else task.group_or_first(Group.SMOKE)[0]


def _print(kernel: str, record: Record, facts: ProfileFacts) -> None:
    from warpsmith.evaluation.profile import WORDS, ceilings_text, microseconds, share

    out, place = console(), facts.place
    candidate = record.candidate
    headed = f"{kernel} for {candidate.task}, {candidate.direction}, case {facts.case} on {facts.gpu}"
    out.print(f"{headed} ({WORDS[facts.source]})", style="bold")
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
    from warpsmith.evaluation.profile import microseconds, scaled, share, short_name

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
    """What shows the binding, why warps wait, and where."""
    from warpsmith.evaluation.profile import hot_lines, metric, short_name

    out = console()
    if one.place is not None and one.place.shown_by:
        shown = "; ".join(metric(part) for part in one.place.shown_by)
        out.print(f"  {short_name(one.name)} is bound by {one.place.binding}: {shown}")
    if one.stalls:
        out.print(f"    warps wait: {'; '.join(metric(part) for part in one.stalls)}")
    for line in hot_lines(one):
        out.print(f"    {line}")
