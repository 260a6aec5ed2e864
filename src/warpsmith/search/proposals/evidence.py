"""Records in a few words for whoever repairs or improves a kernel: what is wrong, what binds. Judges nothing."""

from collections.abc import Iterator

from warpsmith.evaluation.profile import describe_losses, explain_metric, share, short_name
from warpsmith.records import (
    CheckFacts,
    CompileFacts,
    Finding,
    MeasuredTime,
    ModelledTime,
    Record,
    SanitizerFacts,
    StageResult,
)
from warpsmith.search.selection import slowest
from warpsmith.search.selection.fitness import fitness

MOST_FINDINGS = 5
MOST_LINES = 30


def evidence(record: Record) -> str:
    """What is wrong with a kernel, trimmed for a model to read: never a seed."""
    result = record.ended
    if result is None:
        return "Nothing was found to be wrong."
    lines = [f"Stage {result.stage}: {result.reason}. {result.detail}".rstrip()]
    lines += [f"- {line}" for line in _findings(result)]
    if isinstance(result.facts, CheckFacts) and result.facts.failed is not None:
        trial = result.facts.failed
        lines.append(f"It failed at {trial.case.shape}, {trial.family} inputs.")
    return "\n".join(lines[:MOST_LINES])


def _findings(result: StageResult) -> Iterator[str]:
    facts = result.facts
    found: tuple[Finding, ...] = facts.findings if isinstance(facts, CompileFacts | CheckFacts | SanitizerFacts) else ()
    for one in found[:MOST_FINDINGS]:
        place = f"line {one.place.line}: " if one.place else ""
        who = f" (kernel {short_name(one.kernel)}, block {one.block}, thread {one.thread})" if one.block else ""
        yield f"{place}{one.checker}: {one.message}{who}"


def digest_profile(record: Record) -> str:
    """The profile in numbers: times and roofline a case, registers, shared memory, losses, what binds and shows it."""
    lines = list(dict.fromkeys((*_times(record), *_resources(record))))  # types of one template
    found = fitness(record)
    if found and found.binding:
        lines.append(f"- bound by: {found.binding}")
    lines += _metrics(record)
    return "\n".join(lines) or "- no profile"


def _times(record: Record) -> Iterator[str]:
    if record.timing is None:
        return
    for case in record.timing.cases[:8]:
        share = f", {case.roofline:.0%} of what the memory allows" if case.roofline else ""
        launches = f", {case.launches} {'launch' if case.launches == 1 else 'launches'}" if case.launches else ""
        yield f"- {case.case.name}: {_time(case.time)}{share}{launches}"


def _metrics(record: Record) -> Iterator[str]:
    """The metrics that matter, of the longest kernel of the slowest case; nothing where nobody counted."""
    case = slowest(record.timing.seen) if record.timing and record.timing.seen else None
    kernel = case.longest if case else None
    if case is None or kernel is None or kernel.place is None:
        return
    kind = "modelled" if isinstance(kernel.time, ModelledTime) else "measured"
    floor = f", at {share(kernel.place.fraction)} of its own floor" if kernel.place.fraction is not None else ""
    yield f"- {short_name(kernel.name)}, the longest kernel of {case.case.name}{floor}; {kind}, for one launch:"
    yield from (f"  - {explain_metric(one)}" for one in kernel.place.shown_by)


def _time(time: MeasuredTime | ModelledTime) -> str:
    if isinstance(time, MeasuredTime):
        return f"{time.us:.1f} µs measured"
    return f"{time.us:.1f} µs modelled" + (f", bound by {time.binding}" if time.binding else "")


def _resources(record: Record) -> Iterator[str]:
    if record.compiled is None:
        return
    for kernel in record.compiled.kernels[:4]:
        yield f"- {short_name(kernel.name)}: {kernel.registers} registers, {kernel.shared_bytes} bytes of shared memory"
    yield from (f"- {loss}" for loss in describe_losses(record.compiled))
