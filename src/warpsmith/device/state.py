"""What the first GPU is doing at this moment: clocks, what holds them back, who computes on it."""

import re
from dataclasses import dataclass

from warpsmith.device.gpu import asked

# nvml.h, nvmlClocksEventReason…: those that make times worth nothing, and those that are only told.
SLOWED = {0x8: "hardware slowdown", 0x20: "heat", 0x40: "heat in hardware", 0x80: "the power brake"}
TOLD = {0x4: "the power cap", 0x10: "a sync boost group"}
STATE_QUERY = "clocks.sm,clocks.mem,clocks_event_reasons.active"


@dataclass(frozen=True)
class GpuState:
    """What the GPU is doing at this moment: its clocks, what holds them back, and how many processes compute on it."""

    clocks_mhz: tuple[int, int] | None = None  # SM and memory
    reasons: int = 0
    processes: int = 0

    @property
    def slowed(self) -> tuple[str, ...]:
        """What slows it down beyond its usual governing."""
        return tuple(name for bit, name in SLOWED.items() if self.reasons & bit)

    @property
    def told(self) -> tuple[str, ...]:
        """All that holds its clocks back."""
        return tuple(name for bit, name in {**SLOWED, **TOLD}.items() if self.reasons & bit)


def state() -> GpuState:
    """Of the first GPU; empty where nothing answers."""
    clocks = asked(f"--query-gpu={STATE_QUERY}")
    apps = asked("--query-compute-apps=pid")
    return parse_state(clocks.splitlines()[0] if clocks else "", apps)


def parse_state(line: str, apps: str) -> GpuState:
    """nvidia-smi's two answers; what it does not know is left out."""
    parts = [part.strip() for part in line.split(",")]
    pids = [pid for pid in apps.split() if pid.isdigit()]
    if len(parts) != STATE_QUERY.count(",") + 1:
        return GpuState(processes=len(pids))
    clocks = (int(parts[0]), int(parts[1])) if parts[0].isdigit() and parts[1].isdigit() else None
    reasons = int(parts[2], 16) if re.fullmatch(r"0x[0-9a-fA-F]+", parts[2]) else 0
    return GpuState(clocks, reasons, len(pids))
