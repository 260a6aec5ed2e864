"""`warpsmith eval`: the verdict on one kernel with its evidence and its times."""

from typing import Annotated

import typer

from warpsmith import app
from warpsmith.base import pluralize
from warpsmith.cli._archive import archive_or_warn
from warpsmith.cli._options import (
    Baselines,
    Cases,
    Claim,
    Device,
    Gpu,
    Json,
    Kernel,
    Macros,
    Pass,
    Pool,
    Style,
    Target,
    Trust,
    Warm,
    read_macros,
    read_modes,
    warn_of_unmeasured,
)
from warpsmith.cli._output import console, print_json, print_table
from warpsmith.cli._verdict import EXIT, headline
from warpsmith.evaluation import EvaluationConfig, profile
from warpsmith.records import (
    CaseTiming,
    CheckFacts,
    CompileFacts,
    Finding,
    MeasuredTime,
    Record,
    StageResult,
    StaticFacts,
    TimingFacts,
)

SHOWN_FINDINGS = 10


def command(
    target: Target,
    kernel: Kernel,
    direction: Pass = None,
    language: Style = None,
    macro: Macros = None,
    device: Device = "auto",
    cases: Cases = None,
    gpu: Gpu = "H200",
    claim: Claim = False,
    warm: Warm = False,
    baselines: Baselines = "",
    trust: Trust = False,
    archive: Annotated[bool, typer.Option(help="Save the record in the archive.")] = True,
    pool: Pool = True,
    as_json: Json = False,
) -> int:
    """Compile, check and time one kernel; exit code 0 pass, 1 fail, 3 fault of warpsmith, 4 no verdict."""
    config = EvaluationConfig(
        device=device,
        cases=(cases,) if cases else (),
        gpu=gpu,
        trust=trust,
        effort="thorough" if claim else "usual",
        cache="warm" if warm else "cold",
        baselines=read_modes(baselines),
    )
    # A warning and no error: scripts pass the same options for both kinds of machine.
    warn_of_unmeasured(device, {"--warm": warm, "--baselines": baselines})
    candidate = app.read_kernel(kernel, target, direction, language, read_macros(macro or []))
    record = app.evaluate_kernel(candidate, config, pool)
    if as_json:
        print_json(record)
    else:
        _print(kernel.name, record)
    if archive:
        # After printing: a failing archive must not hide the verdict.
        archive_or_warn([record])
    return EXIT[record.concluded]


def _print(kernel: str, record: Record) -> None:
    out, verdict = console(), record.concluded
    candidate = record.candidate
    out.print(f"{verdict.upper()}  {kernel} for {candidate.task}, {candidate.direction}", style="bold")
    for result in record.results:
        out.print(f"  {headline(result)}")
        if result.detail:
            out.print(f"    {result.detail}")
        _print_facts(result)
    out.print(f"  on {record.environment.device}; seed {record.options.seeds[0]}")


def _print_facts(result: StageResult) -> None:
    match result.facts:
        case StaticFacts() as facts:
            # Static findings are signs and never fail a kernel, so they are printed for a pass too.
            _print_findings(facts.findings)
        case CompileFacts() as facts:
            _print_compiled(facts, failed=result.reason is not None)
        case CheckFacts() as facts:
            _print_check(facts)
        case TimingFacts() as facts if facts.cases:
            _print_times(facts)


def _print_compiled(facts: CompileFacts, failed: bool) -> None:
    if failed:
        _print_findings(facts.findings)
    else:
        console().print("".join(f"    {loss}\n" for loss in profile.describe_losses(facts)), end="")


def _print_check(facts: CheckFacts) -> None:
    worst = max((case.worst for case in facts.cases if case.worst is not None), default=None)
    near = f"; the largest error is {worst:.2g} of its bound" if worst is not None else ""
    counted = f"{pluralize(facts.calls, 'call')} on {pluralize(len(facts.cases), 'case')}"
    console().print(f"    {counted} were right{near}")
    _print_findings(facts.findings)
    if facts.failed is not None:
        console().print(f"    failed at {facts.failed.case.shape}, seed {facts.failed.seed}")


def _print_findings(findings: tuple[Finding, ...]) -> None:
    for finding in findings[:SHOWN_FINDINGS]:
        place = f"{finding.place.file}:{finding.place.line}: " if finding.place else ""
        times = f" ({finding.count} times)" if finding.count > 1 else ""
        console().print(f"    {place}{finding.checker}: {finding.message}{times}")


def _print_times(facts: TimingFacts) -> None:
    if facts.tier == "modelled":
        rows = [(case.case.name, _time(case), _bound(case), _share(case), _launches(case)) for case in facts.cases]
        print_table(("case", "modelled time", "bound by", "of the roofline", "launches"), rows)
        # A modelled time must not be read as a measurement.
        console().print("    modelled, not measured: good for ranking kernels of one case, not as a clock")
        return
    rows = [(case.case.name, _time(case), _call(case), _against(case), _share(case)) for case in facts.cases]
    print_table(("case", "device time", "call", "against", "of the roofline"), rows)


def _time(case: CaseTiming) -> str:
    time = case.time
    if isinstance(time, MeasuredTime):
        return f"{time.us:.2f} µs ({time.low_us:.2f}–{time.high_us:.2f}, {time.samples} calls)"
    return f"{time.us:.1f} µs on {time.gpu}"


def _call(case: CaseTiming) -> str:
    return f"{case.call.us:.1f} µs" if case.call else "-"


def _against(case: CaseTiming) -> str:
    """Return the ratio to the best baseline with its interval, then the time of every baseline."""
    # Every mode is shown, so that the best one can be compared with the others.
    parts = [f"{name} {time.us:.2f} µs" for name, time in case.baselines.items()]
    if case.speedup is not None:
        ratio = f"{case.speedup.value:.3f}× ({case.speedup.low:.3f}–{case.speedup.high:.3f}) {case.best}"
        parts.insert(0, f"{ratio}: {case.claim}")
    return "; ".join(parts) or "-"


def _bound(case: CaseTiming) -> str:
    return getattr(case.time, "binding", "") or "-"


def _share(case: CaseTiming) -> str:
    return f"{case.roofline:.0%}" if case.roofline is not None else "-"


def _launches(case: CaseTiming) -> str:
    return str(case.launches) if case.launches is not None else "-"
