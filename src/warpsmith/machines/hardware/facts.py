"""Facts about GPUs and the limits of compute capabilities."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pydantic import NonNegativeInt, PositiveInt

from warpsmith.base import UsageError
from warpsmith.records import Model

# Reasons of nvml.h, nvmlClocksEventReason…: those that make times worthless, and those that are only reported.
SLOWED = {0x8: "hardware slowdown", 0x20: "heat", 0x40: "heat in hardware", 0x80: "the power brake"}
TOLD = {0x4: "the power cap", 0x10: "a sync boost group"}
WARP = 32
ACCELERATED = 9  # from this major version on, `wgmma` and `tcgen05` need the architecture's own variant


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU as the driver describes it."""

    name: str
    driver: str
    memory_mib: int
    capability: str
    uuid: str = ""
    number: int = 0

    @property
    def arch(self) -> str:
        """The architecture to compile for."""
        return arch_of(self.capability)


@dataclass(frozen=True)
class MemoryUse:
    """The memory of a GPU at one moment."""

    free_bytes: int
    total_bytes: int
    by_process: Mapping[int, int] = field(default_factory=dict)

    def held_by(self, processes: Collection[int]) -> int | None:
        """Return the bytes of these processes, or None if unknown."""
        # None differs from 0: a driver inside a container names no process at all, which must not look
        # like a worker that holds nothing.
        known = [size for process, size in self.by_process.items() if process in processes]
        return sum(known) if known else None


@dataclass(frozen=True)
class GpuState:
    """Clocks, throttle reasons and load at one moment."""

    clocks_mhz: tuple[int, int] | None = None  # SM and memory
    reasons: int = 0
    processes: int = 0
    busy_percent: int | None = None

    @property
    def slowed(self) -> tuple[str, ...]:
        """The reasons that make times worthless."""
        # A power cap is not among them: data-centre GPUs run at their cap under load as a matter of
        # course.
        return tuple(name for bit, name in SLOWED.items() if self.reasons & bit)

    @property
    def told(self) -> tuple[str, ...]:
        """All reasons that hold the clocks back."""
        return tuple(name for bit, name in {**SLOWED, **TOLD}.items() if self.reasons & bit)


def arch_of(capability: str) -> str:
    """Return the architecture to compile for, such as `sm_90a`."""
    major, _, minor = capability.partition(".")
    return f"sm_{major}{minor}" + ("a" if major.isdigit() and int(major) >= ACCELERATED else "")


class SmLimits(Model):
    """Limits of one multiprocessor and of a block."""

    threads_per_sm: PositiveInt
    blocks_per_sm: PositiveInt
    shared_per_sm_bytes: PositiveInt
    shared_per_block_optin_bytes: PositiveInt
    shared_reserved_bytes: NonNegativeInt = 1 << 10  # of each block's shared memory, by the system
    threads_per_block: PositiveInt = 1024
    registers_per_sm: PositiveInt = 65536
    shared_per_block_bytes: PositiveInt = 48 << 10
    warp_grain: PositiveInt = 4  # warps of a block are allocated in this many
    register_grain: PositiveInt = 256  # registers of a warp are allocated in this many
    shared_grain_bytes: PositiveInt = 128

    def blocks(self, threads: int, registers: int, shared_bytes: int) -> Mapping[str, int]:
        """Return the blocks per multiprocessor that each limit allows."""
        # The rounding is that of cuda_occupancy.h: registers are allocated per warp in units of 256,
        # warps of a block in fours, shared memory with the part that the system reserves.
        warps = _whole(-(-threads // WARP), self.warp_grain)
        shared = _whole(shared_bytes + self.shared_reserved_bytes, self.shared_grain_bytes)
        return {
            "threads": self.threads_per_sm // threads,
            "registers": self.registers_per_sm // (warps * _whole(max(1, registers) * WARP, self.register_grain)),
            "shared memory": self.shared_per_sm_bytes // max(1, shared),
            "blocks": self.blocks_per_sm,
        }


def _whole(count: int, grain: int) -> int:
    """Return a count rounded up to a multiple."""
    return -(-count // grain) * grain


def _row(threads: int, blocks: int, shared_kib: int, reserved_kib: int = 1) -> SmLimits:
    """Return the limits of one compute capability."""
    # Since Ampere the system reserves 1 KiB of each block's shared memory, so the largest block is that
    # much smaller than the multiprocessor's memory.
    return SmLimits(
        threads_per_sm=threads,
        blocks_per_sm=blocks,
        shared_per_sm_bytes=shared_kib << 10,
        shared_per_block_optin_bytes=(shared_kib - reserved_kib) << 10,
        shared_reserved_bytes=reserved_kib << 10,
        shared_grain_bytes=128 if reserved_kib else 256,
    )


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": resident threads and blocks, and shared
# memory in KiB, of one multiprocessor. The granularities above are those of NVIDIA's cuda_occupancy.h.
SM_LIMITS: Mapping[str, SmLimits] = {
    "7.5": _row(1024, 16, 64, reserved_kib=0),
    "8.0": _row(2048, 32, 164),
    "8.6": _row(1536, 16, 100),
    "8.7": _row(1536, 16, 164),
    "8.9": _row(1536, 24, 100),
    "9.0": _row(2048, 32, 228),
    "10.0": _row(2048, 32, 228),
    "10.3": _row(2048, 32, 228),
    "11.0": _row(1536, 24, 228),
    "12.0": _row(1536, 24, 100),
    "12.1": _row(1536, 24, 100),
}


def sm_limits(capability: str) -> SmLimits:
    """Return a capability's limits; raise UsageError if unknown."""
    if capability not in SM_LIMITS:
        raise UsageError(
            f"Compute capability {capability} is not in the table of limits; it has {', '.join(SM_LIMITS)}."
        )
    return SM_LIMITS[capability]


def capability_of(arch: str) -> str:
    """Return the compute capability: `9.0` for `sm_90a`."""
    digits = arch.removeprefix("sm_").rstrip("af")
    return f"{digits[:-1]}.{digits[-1:]}"
