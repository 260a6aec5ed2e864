"""What the compiler knows of each kernel: registers, spills, shared memory, and the occupancy that they allow."""

import re
from collections.abc import Iterator, Sequence

from warpsmith.evaluation.profile.names import plain_name, short_name
from warpsmith.records import CompileFacts, KernelProfile, KernelResources

THREADS = 256  # of a block, where nobody knows how it will be launched
THREADS_PER_SM, REGISTERS_PER_SM, SHARED_PER_SM = 2048, 65536, 233472  # of compute capability 8.0 to 9.0
REGISTER_GRAIN = 8
# ptxas of a kernel's matrix instructions and registers; the kernel's name may be cut, or not be told.
LOSS = re.compile(
    r"Potential Performance Loss: (?P<what>.*?)"
    r"(?:(?: for the wgmma pipeline)? (?:in|for) the function '(?P<kernel>[^']*).*)?$"
)
MOST_SPILLING = 3


def kernels(found: Sequence[KernelResources]) -> tuple[KernelProfile, ...]:
    """A profile without times; the occupancy is for blocks of 256 threads."""
    return tuple(
        KernelProfile(
            name=plain_name(one.name),
            launches=1,
            occupancy_limit=occupancy(one),
            limiter=limiter(one),
            registers=one.registers,
            spill_bytes=one.spilled_bytes,
            shared_bytes=one.shared_bytes,
        )
        for one in found
    )


def enriched(profiles: Sequence[KernelProfile], found: Sequence[KernelResources]) -> tuple[KernelProfile, ...]:
    """Profiles of another source with what only the compiler knows: spills, and registers where those are absent."""
    known = {plain_name(one.name).partition("<")[0]: one for one in found}
    return tuple(_enriched(profile, known.get(profile.name.partition("<")[0])) for profile in profiles)


def losses(facts: CompileFacts) -> Iterator[str]:
    """What the compiler says costs speed: matrix instructions that wait for each other, registers that spill."""
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


def occupancy(one: KernelResources) -> float:
    """Threads that fit on an SM over those it can hold."""
    return min(_blocks(one).values()) * THREADS / THREADS_PER_SM


def limiter(one: KernelResources) -> str:
    """What keeps more blocks from an SM."""
    blocks = _blocks(one)
    return min(blocks, key=blocks.__getitem__)


def _enriched(profile: KernelProfile, one: KernelResources | None) -> KernelProfile:
    if one is None:
        return profile
    known = {
        "spill_bytes": one.spilled_bytes,
        "registers": profile.registers or one.registers,
        "shared_bytes": one.shared_bytes if profile.shared_bytes is None else profile.shared_bytes,
    }
    return profile.model_copy(update=known)


def _blocks(one: KernelResources) -> dict[str, int]:
    registers = -(-max(1, one.registers) // REGISTER_GRAIN) * REGISTER_GRAIN
    return {
        "threads": THREADS_PER_SM // THREADS,
        "registers": REGISTERS_PER_SM // (registers * THREADS),
        "shared memory": SHARED_PER_SM // max(1, one.shared_bytes),
    }
