"""Profiles from the compiler's facts alone."""

import re
from collections.abc import Iterator, Sequence

from warpsmith.evaluation.profile.words import plain_name, short_name
from warpsmith.machines.hardware import SM_LIMITS, SmLimits, capability_of
from warpsmith.records import CompileFacts, KernelProfile, KernelResources

THREADS = 256  # of a block, where nobody knows how it will be launched
# ptxas of a kernel's matrix instructions and registers; the kernel's name may be cut, or not be told.
LOSS = re.compile(
    r"Potential Performance Loss: (?P<what>.*?)"
    r"(?:(?: for the wgmma pipeline)? (?:in|for) the function '(?P<kernel>[^']*).*)?$"
)
MOST_SPILLING = 3


def kernels(compiled: CompileFacts) -> tuple[KernelProfile, ...]:
    """Return profiles without times, from the compiler's facts."""
    limits = SM_LIMITS.get(capability_of(compiled.arch))
    return tuple(_kernel(one, limits) for one in compiled.kernels)


def _kernel(one: KernelResources, limits: SmLimits | None) -> KernelProfile:
    """Return one kernel's profile; occupancy for known capabilities only."""
    profile = KernelProfile(
        name=plain_name(one.name),
        launches=1,
        registers=one.registers,
        spill_bytes=one.spilled_bytes,
        shared_bytes=one.shared_bytes,
    )
    if limits is None:
        return profile
    blocks = limits.blocks(THREADS, one.registers, one.shared_bytes)
    limiter = min(blocks, key=blocks.__getitem__)
    share = blocks[limiter] * THREADS / limits.threads_per_sm
    return profile.model_copy(update={"limiter": limiter, "occupancy_limit": share})


def add_compiler_facts(
    profiles: Sequence[KernelProfile], found: Sequence[KernelResources]
) -> tuple[KernelProfile, ...]:
    """Return profiles with spills and registers added."""
    # Profiler and compiler print template arguments differently, so kernels are matched by the name
    # before them.
    known = {plain_name(one.name).partition("<")[0]: one for one in found}
    return tuple(_enriched(profile, known.get(profile.name.partition("<")[0])) for profile in profiles)


def describe_losses(facts: CompileFacts) -> Iterator[str]:
    """Yield the compiler's performance warnings."""
    found = [match for one in facts.findings if (match := LOSS.match(one.message))]
    for what in dict.fromkeys(match["what"] for match in found):
        names = dict.fromkeys(
            short_name(match["kernel"]) for match in found if match["what"] == what and match["kernel"]
        )
        yield f"{', '.join(names)}: {what}" if names else what
    worst: dict[str, int] = {}  # of one template's kernels the worst
    for one in facts.kernels:
        name = short_name(one.name)
        worst[name] = max(one.spilled_bytes, worst.get(name, 0))
    most = sorted(worst, key=worst.__getitem__, reverse=True)[:MOST_SPILLING]
    if shown := [f"{name} {worst[name]} bytes" for name in most if worst[name]]:
        yield f"spilled: {', '.join(shown)}"


def _enriched(profile: KernelProfile, one: KernelResources | None) -> KernelProfile:
    """Return a profile with missing facts of the compiler."""
    if one is None:
        return profile
    known = {
        "spill_bytes": one.spilled_bytes,
        "registers": profile.registers or one.registers,
        "shared_bytes": one.shared_bytes if profile.shared_bytes is None else profile.shared_bytes,
    }
    return profile.model_copy(update=known)
