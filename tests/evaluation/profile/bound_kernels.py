"""The kernels that are built to be bound by a known resource, as their headers say, compiled and with arguments."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from warpsmith.languages.nvcc import CompileOptions, compile
from warpsmith.records import Binding, Candidate, Direction

FOLDER = Path(__file__).parent / "bound"
HAND = Path(__file__).parent / "hand"
LINE = re.compile(r"^// (cuda|vgpu): (\w+) (\d+)((?: \w+=\w+)*)$", re.MULTILINE)


@dataclass(frozen=True)
class BoundKernel:
    """One kernel for one device: what it is bound by there, and the size that makes it so."""

    name: str
    binding: Binding
    elements: int
    macros: Mapping[str, str]
    source: str

    def artifact(self) -> Path:
        """Compiled, or the compiler's words."""
        candidate = Candidate(task="bound", direction=Direction.FORWARD, source=self.source, macros=self.macros)
        made = compile(candidate, None, CompileOptions())
        assert made.artifact is not None, made.result.detail
        return made.artifact

    def argument(self) -> torch.Tensor:
        """Its input."""
        return torch.rand(self.elements, generator=torch.Generator().manual_seed(1))


def bound_kernels(device: str) -> Iterator[BoundKernel]:
    """Those that say what binds them on a device."""
    for path in sorted(FOLDER.glob("*.cu")):
        text = path.read_text()
        for where, binding, elements, macros in LINE.findall(text):
            if where == device:
                named = dict(pair.split("=") for pair in macros.split())
                yield BoundKernel(path.stem, Binding(binding), int(elements), named, text)


def hand_kernel(name: str) -> BoundKernel:
    """A kernel whose bytes and operations a hand can count; the copy is the one that memory binds."""
    path = FOLDER / "dram.cu" if name == "copy" else HAND / f"{name}.cu"
    return BoundKernel(name, Binding.DRAM, 0, {}, path.read_text())
