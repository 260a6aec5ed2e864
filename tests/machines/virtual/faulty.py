"""The faulty kernels as data: one file a checker, each fault with its lines and its repaired twin."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from warpsmith.records import Checker

FAULTS = Path(__file__).parent / "faults"
MARK = re.compile(r"// fault: (\w+)")
INPUT = (torch.arange(1024, dtype=torch.float32) % 64,)  # what every faulty kernel is called with


@dataclass(frozen=True)
class FrameFault:
    """One faulty kernel. `lines` are those a finding may name; none where the fault is in no line of device code."""

    checker: Checker
    name: str
    lines: frozenset[int]

    @property
    def twin(self) -> str:
        """The entry of the repaired kernel."""
        return f"{self.name}_fixed"


@cache
def faults() -> tuple[FrameFault, ...]:
    """All of them, in the order of their files."""
    return tuple(fault for path in sorted(FAULTS.glob("*.cu")) for fault in _read(path))


def _read(path: Path) -> list[FrameFault]:
    lines: dict[str, set[int]] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for name in MARK.findall(line):
            # A mark on a line of its own names a fault that no line of the kernel has.
            lines.setdefault(name, set()).update(() if line.startswith("//") else (number,))
    return [FrameFault(Checker(path.stem), name, frozenset(found)) for name, found in lines.items()]


@cache
def text(checker: Checker) -> str:
    """One file with its header in front, so that it is whole; the lines keep their numbers."""
    body = (FAULTS / f"{checker}.cu").read_text().replace('#include "fault.h"', "")
    return f'{(FAULTS / "fault.h").read_text()}\n#line 1 "{checker}.cu"\n{body}'
