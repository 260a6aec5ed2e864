"""A profile as text of at most 1500 characters, without advice."""
# The text goes into prompts. Advice is left to the model; numbers with units and the names of the limits
# are facts.

from collections.abc import Iterator

from warpsmith.evaluation.profile.words import metric, microseconds, scaled, share, short_name
from warpsmith.records import Ceilings, KernelProfile, ModelledTime, ProfileFacts, ProfileSource

MOST_CHARACTERS = 1500
SHOWN_KERNELS = 3
CODE_CHARACTERS = 60
WORDS = {
    ProfileSource.NCU: "hardware counters",
    ProfileSource.CUPTI: "kernel times, no counters",
    ProfileSource.PTXAS: "the compiler only",
    ProfileSource.VGPU: "virtual GPU, modelled",
}


def profile_digest(facts: ProfileFacts) -> str:
    """Return a profile as text, cut at whole lines."""
    text = ""
    for line in _lines(facts):
        if len(text) + len(line) + 1 > MOST_CHARACTERS:
            break
        text += line + "\n"
    return text.rstrip()


def _lines(facts: ProfileFacts) -> Iterator[str]:
    """Yield the lines, most important first."""
    yield f"Profile on {facts.gpu}, case {facts.case} ({WORDS[facts.source]})."
    if facts.time is not None:
        yield _call(facts)
    spent = sorted(facts.kernels, key=lambda kernel: kernel.spent_us, reverse=True)
    for number, kernel in enumerate(spent[:SHOWN_KERNELS], 1):
        yield f"{number}. {_kernel(kernel, facts)}"
        yield from (f"   hot: {line}" for line in hot_lines(kernel))
    if len(spent) > SHOWN_KERNELS:
        rest = sum(kernel.spent_us for kernel in spent[SHOWN_KERNELS:])
        yield f"{len(spent) - SHOWN_KERNELS} more kernels take {microseconds(rest)}."
    for finding in facts.findings[:2]:
        yield f"Compiler: {finding.message[:160]}"
    if facts.ceilings is not None:
        yield f"Ceilings, {ceilings_text(facts.ceilings)}."
    for passed in facts.passed_over:
        yield f"No {passed.source}: {passed.why[:200]}."
    yield from (f"Note: {note}." for note in facts.notes)


def _call(facts: ProfileFacts) -> str:
    """Return the line of the whole call."""
    assert facts.time is not None
    launches, place = sum(kernel.launches for kernel in facts.kernels), facts.place
    kind = "modelled " if isinstance(facts.time, ModelledTime) else ""
    text = f"Call: {kind}{microseconds(facts.time.us)} in {launches} launch{'es' if launches != 1 else ''}"
    if place is None or place.fraction is None or place.floor_us is None:
        return f"{text}."
    return f"{text}; {share(place.fraction)} of the roofline (floor {microseconds(place.floor_us)})."


def _kernel(kernel: KernelProfile, facts: ProfileFacts) -> str:
    """Return the line of one kernel."""
    parts = [part for part in (_time(kernel, facts), *_counters(kernel)) if part]
    return f"{short_name(kernel.name)}: {'; '.join(parts)}."


def _time(kernel: KernelProfile, facts: ProfileFacts) -> str:
    """Return a kernel's time and its share of the call."""
    if kernel.time is None:
        return ""
    times = f" × {kernel.launches}" if kernel.launches > 1 else ""
    part = f" ({share(kernel.spent_us / facts.time.us)} of the call)" if facts.time and facts.time.us else ""
    return f"{microseconds(kernel.time.us)}{times}{part}"


def _counters(kernel: KernelProfile) -> Iterator[str]:
    """Yield a kernel's counters as text."""
    place = kernel.place
    if place is not None and place.binding is not None:
        shown = ", ".join(metric(one) for one in place.shown_by)
        yield f"bound by {place.binding} ({shown})" if shown else f"bound by {place.binding}"
        yield f"{share(place.fraction)} of its own floor" if place.fraction is not None else ""
    if kernel.dram_read_bytes is not None and kernel.dram_written_bytes is not None:
        yield f"DRAM {scaled(kernel.dram_read_bytes, 'B')} read, {scaled(kernel.dram_written_bytes, 'B')} written"
    if kernel.sectors_per_request:
        yield f"{kernel.sectors_per_request:.3g} sectors a request"
    if kernel.bank_conflicts:
        yield f"{scaled(kernel.bank_conflicts, '')} bank conflicts".replace("  ", " ")
    if kernel.issue_active is not None:
        yield f"issue {share(kernel.issue_active)}, tensor {share(kernel.tensor_active)}"
    yield from _occupancy(kernel)


def _occupancy(kernel: KernelProfile) -> Iterator[str]:
    """Yield occupancy, registers and stalls as text."""
    if kernel.occupancy is not None or kernel.occupancy_limit is not None:
        achieved = f"{share(kernel.occupancy)} of " if kernel.occupancy is not None else "at most "
        limiter = f", limited by {kernel.limiter}" if kernel.limiter else ""
        yield f"occupancy {achieved}{share(kernel.occupancy_limit)}{limiter}"
    if kernel.registers is not None:
        spilled = f", {kernel.spill_bytes} B spilled" if kernel.spill_bytes else ""
        shared = f", {kernel.shared_bytes} B shared" if kernel.shared_bytes else ""
        yield f"{kernel.registers} registers{spilled}{shared}"
    if kernel.stalls:
        yield "stalls: " + ", ".join(metric(one) for one in kernel.stalls[:2])


def hot_lines(kernel: KernelProfile) -> Iterator[str]:
    """Yield a kernel's hottest source lines as text."""
    for line in kernel.lines:
        code = f" `{line.code[:CODE_CHARACTERS]}`" if line.code else ""
        yield f"{line.place.file}:{line.place.line} {share(line.share)} of {line.of}{code}"


def ceilings_text(found: Ceilings) -> str:
    """Return the ceilings in one line."""
    kind = "measured" if found.measured else "datasheet"
    rates = [("read", found.read_bytes_per_s), ("write", found.write_bytes_per_s), ("copy", found.copy_bytes_per_s)]
    rates += [("L2", found.l2_bytes_per_s)] if found.l2_bytes_per_s else []
    memory = ", ".join(f"{name} {scaled(rate, 'B/s')}" for name, rate in rates)
    products = ", ".join(f"{name} {scaled(rate, 'FLOP/s')}" for name, rate in found.matmul_flops_per_s.items())
    return f"{kind}: {memory}" + (f"; products: {products}" if products else "")
