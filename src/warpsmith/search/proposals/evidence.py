"""Text for prompts: the GPU, the failure or the profile of a kernel, lessons."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from warpsmith.base import UsageError
from warpsmith.evaluation.profile import describe_losses, explain_metric, share, short_name
from warpsmith.machines.hardware import gpus
from warpsmith.machines.virtual import Description, describe
from warpsmith.records import (
    HELPED,
    HURT,
    CheckFacts,
    CompileFacts,
    Finding,
    Lesson,
    MeasuredTime,
    ModelledTime,
    Record,
    SanitizerFacts,
    StageResult,
)
from warpsmith.search.selection.population import find_fitness, slowest_case


def describe_gpu(device: str, modelled: str) -> str:
    """Return the name, limits and rates of the GPU for a prompt."""
    here = gpus() if device == "cuda" else ()
    if not here:
        gpu = describe(modelled)
        rates = "" if gpu.measured else " Its rates are from a data sheet, not measured."
        return f"{_facts(gpu)}\nTimes are modelled for it, not measured.{rates}"
    name = here[0].name
    try:
        known = _facts(describe(_short(name)))
    except UsageError:
        known = f"{name}, compute capability {here[0].capability}, {here[0].memory_mib / 1024:.0f} GiB of memory."
    return f"{known}\nTimes are measured on it."


def _short(name: str) -> str:
    """Return the model's short name: `H200` for `NVIDIA H200 NVL`."""
    words = [word for word in name.replace("-", " ").split() if word.upper() not in ("NVIDIA", "GEFORCE", "TESLA")]
    return words[0] if words else name


def _facts(gpu: Description) -> str:
    """Return the limits and rates of a described GPU."""
    limits, rates = gpu.limits, gpu.rates
    major, minor = gpu.capability
    return (
        f"{gpu.name}, compute capability {major}.{minor} (sm_{major}{minor}): {gpu.sm_count} SMs at "
        f"{gpu.clock_mhz:.0f} MHz, {gpu.l2_bytes >> 20} MiB of L2; {limits.threads_per_sm} threads and "
        f"{limits.registers_per_sm} registers an SM, {limits.shared_per_block_optin_bytes >> 10} KiB of shared "
        f"memory a block at most ({limits.shared_per_block_bytes >> 10} KiB without opting in).\n"
        f"Memory copies at {rates.copy_bytes_per_s / 1e12:.1f} TB/s (read plus written); a launch costs about "
        f"{rates.launch_us:.1f} µs."
    )


MOST_FINDINGS = 5
MOST_LINES = 30


def describe_failure(record: Record) -> str:
    """Return a kernel's failure for a prompt, without any seed."""
    result = record.ended
    if result is None:
        return "Nothing was found to be wrong."
    lines = [f"Stage {result.stage}: {result.reason}. {result.detail}".rstrip()]
    lines += [f"- {line}" for line in _findings(result)]
    if isinstance(result.facts, CheckFacts) and result.facts.failed is not None:
        trial = result.facts.failed
        # Shape and family only: a seed would let a model write a kernel for the checked inputs.
        lines.append(f"It failed at {trial.case.shape}, {trial.family} inputs.")
    return "\n".join(lines[:MOST_LINES])


def _findings(result: StageResult) -> Iterator[str]:
    """Yield one line for each finding."""
    facts = result.facts
    found: tuple[Finding, ...] = facts.findings if isinstance(facts, CompileFacts | CheckFacts | SanitizerFacts) else ()
    for one in found[:MOST_FINDINGS]:
        place = f"line {one.place.line}: " if one.place else ""
        who = f" (kernel {short_name(one.kernel)}, block {one.block}, thread {one.thread})" if one.block else ""
        yield f"{place}{one.checker}: {one.message}{who}"


def describe_profile(record: Record) -> str:
    """Return times, resources, losses and the binding metrics of a kernel."""
    lines = list(dict.fromkeys((*_times(record), *_resources(record))))  # types of one template
    found = find_fitness(record)
    if found and found.binding:
        lines.append(f"- bound by: {found.binding}")
    lines += _metrics(record)
    return "\n".join(lines) or "- no profile"


def _times(record: Record) -> Iterator[str]:
    """Yield one line for each timed case."""
    if record.timing is None:
        return
    for case in record.timing.cases[:8]:
        share = f", {case.roofline:.0%} of what the memory allows" if case.roofline else ""
        launches = f", {case.launches} {'launch' if case.launches == 1 else 'launches'}" if case.launches else ""
        yield f"- {case.case.name}: {_time(case.time)}{share}{launches}"


def _metrics(record: Record) -> Iterator[str]:
    """Yield the binding metrics of the longest kernel of the slowest case, if they were counted."""
    case = slowest_case(record.timing.seen) if record.timing and record.timing.seen else None
    kernel = case.longest if case else None
    if case is None or kernel is None or kernel.place is None:
        return
    kind = "modelled" if isinstance(kernel.time, ModelledTime) else "measured"
    floor = f", at {share(kernel.place.fraction)} of its own floor" if kernel.place.fraction is not None else ""
    yield f"- {short_name(kernel.name)}, the longest kernel of {case.case.name}{floor}; {kind}, for one launch:"
    yield from (f"  - {explain_metric(one)}" for one in kernel.place.shown_by)


def _time(time: MeasuredTime | ModelledTime) -> str:
    """Return a time with its unit and kind."""
    if isinstance(time, MeasuredTime):
        return f"{time.us:.1f} µs measured"
    return f"{time.us:.1f} µs modelled" + (f", bound by {time.binding}" if time.binding else "")


def _resources(record: Record) -> Iterator[str]:
    """Yield registers, shared memory and losses."""
    if record.compiled is None:
        return
    for kernel in record.compiled.kernels[:4]:
        yield f"- {short_name(kernel.name)}: {kernel.registers} registers, {kernel.shared_bytes} bytes of shared memory"
    yield from (f"- {loss}" for loss in describe_losses(record.compiled))


MOST = 10  # lines in a prompt
MOST_KEPT = 200  # of a run


def make_lesson(task: str, what: str, record: Record, gain: float | None) -> Lesson | None:
    """Return a record's lesson, or None after faults."""
    if gain is not None:
        return Lesson(task=task, what=what[:160], gain=gain)
    result = record.ended
    if result is None or result.reason is None or result.blameless:
        return None
    return Lesson(task=task, what=what[:160], fault=f"{result.reason}: {' '.join(result.detail.split())[:160]}")


def lesson_lines(lessons: Sequence[Lesson], task: str, most: int = MOST) -> list[str]:
    """Return the lines for a prompt: best, worst and commonest faults of this task, then gains on other tasks."""
    own = [one for one in lessons if one.task == task]
    # Best gains first; the worst ones are the most instructive warnings.
    timed = sorted((one for one in own if one.gain is not None), key=lambda one: -(one.gain or 0))
    helped = [one for one in timed if (one.gain or 0) >= HELPED][:4]
    hurt = [one for one in reversed(timed) if (one.gain or 0) <= HURT][:2]
    elsewhere = sorted((one for one in lessons if one.task != task and (one.gain or 0) >= 1.1), key=_by_gain)[:3]
    lines = [*(one.line() for one in helped), *(one.line() for one in hurt), *_faults(own)]
    # Gains on other tasks come last, and only from 10 % on.
    lines += [one.line(foreign=True) for one in elsewhere]
    return list(dict.fromkeys(lines))[:most]


def latest_lessons(lessons: Iterable[Lesson]) -> list[Lesson]:
    """Return the latest lessons."""
    return list(lessons)[-MOST_KEPT:]


def _faults(own: Sequence[Lesson]) -> list[str]:
    """Return the commonest faults with their counts and latest examples."""
    failed = [one for one in own if one.gain is None]
    counts = Counter(one.fault.partition(":")[0] for one in failed)
    lines = []
    for reason, count in counts.most_common(3):
        last = next(one for one in reversed(failed) if one.fault.startswith(reason))
        lines.append(f"failed {'once' if count == 1 else f'{count} times'} with {last.fault}")
    return lines


def _by_gain(one: Lesson) -> float:
    return -(one.gain or 0.0)
