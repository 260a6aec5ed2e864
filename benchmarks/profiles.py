"""How long a profile takes, what it says of kernels bound by a known resource, and its fractions against a hand's.

    python benchmarks/profiles.py [--device auto|cuda|vgpu] [--out profiles.jsonl]

On a GPU it measures the ceilings first (once a machine) and profiles with ncu; without one the bindings come from the
virtual GPU and there is no hand to compare with.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

HERE = Path(__file__).parents[1] / "tests" / "evaluation" / "profile"
sys.path.insert(0, str(HERE))

from bound_kernels import BoundKernel, bound_kernels, hand_kernel  # noqa: E402

from warpsmith.evaluation import settle_device  # noqa: E402
from warpsmith.evaluation.profile import counted, virtual  # noqa: E402
from warpsmith.evaluation.profile.ceilings import find_ceilings  # noqa: E402
from warpsmith.evaluation.profile.ncu import Counted, ProfiledKernel, count  # noqa: E402
from warpsmith.languages.nvcc import Toolchain  # noqa: E402
from warpsmith.machines.cuda.profiled import Walls  # noqa: E402
from warpsmith.machines.hardware import gpus  # noqa: E402
from warpsmith.machines.virtual import describe  # noqa: E402
from warpsmith.machines.virtual.session import SETTINGS  # noqa: E402
from warpsmith.machines.worker import VirtualSandbox  # noqa: E402
from warpsmith.machines.worker.tensors import to_raw  # noqa: E402
from warpsmith.records import Ceilings, KernelProfile  # noqa: E402

ELEMENTS, SIDE = 1 << 26, 2048


@dataclass(frozen=True)
class Hand:
    """A kernel whose work a hand can count: bytes read and written, operations."""

    name: str
    x: torch.Tensor
    read: float
    written: float
    flops: float = 0.0


def hands() -> Iterator[Hand]:
    """Copy, reduction, product."""
    yield Hand("copy", torch.rand(ELEMENTS), 4.0 * ELEMENTS, 4.0 * ELEMENTS)
    yield Hand("reduction", torch.rand(ELEMENTS), 4.0 * ELEMENTS, 0.0)
    yield Hand("matmul", torch.rand(SIDE, SIDE), 0.0, 0.0, 2.0 * SIDE**3)


def profiled(kernel: BoundKernel, x: torch.Tensor, found: Ceilings, toolchain: Toolchain) -> KernelProfile:
    """One kernel under ncu; one that cannot be counted is told and has no place."""
    subject = ProfiledKernel(kernel.artifact(), kernel.source, "forward", (to_raw(x),), toolchain.runtime.parent)
    answer = count(subject, tuple(Walls))
    if not isinstance(answer, Counted):
        print(f"{kernel.name}: {answer.why}")
        return KernelProfile(name=kernel.name, launches=1)
    return counted.kernels(answer.launches, answer.lines, found)[0]


def by_hand(hand: Hand, us: float, found: Ceilings) -> float:
    """Bytes or operations over time, over the ceiling of that kind."""
    if hand.flops:
        return hand.flops / us * 1e6 / found.matmul_flops_per_s["float32"]
    ceiling = found.copy_bytes_per_s if hand.written else found.read_bytes_per_s
    return (hand.read + hand.written) / us * 1e6 / ceiling


def on_gpu() -> Iterator[KernelProfile]:
    """Seconds, bindings, fractions; the profiles for whoever keeps them."""
    toolchain = Toolchain.find()
    begin = time.perf_counter()
    found = find_ceilings(gpus()[0], toolchain)
    print(f"ceilings in {time.perf_counter() - begin:.1f} s: {found.text()}")
    right = 0
    kernels = list(bound_kernels("cuda"))
    for kernel in kernels:
        artifact = kernel.artifact()
        assert artifact.exists()
        begin = time.perf_counter()
        one = profiled(kernel, kernel.argument(), found, toolchain)
        seconds = time.perf_counter() - begin
        right += one.place is not None and one.place.binding is kernel.binding
        print(f"{kernel.name:<10} {seconds:5.1f} s  {line(kernel, one)}", flush=True)
        yield one
    print(f"{right} of {len(kernels)} bindings are right")
    for hand in hands():
        kernel = hand_kernel(hand.name)
        one = profiled(kernel, hand.x, found, toolchain)
        yield one
        if one.time is None or one.place is None or one.place.fraction is None:
            continue
        counted_by_hand = by_hand(hand, one.time.us, found)
        off = one.place.fraction / counted_by_hand - 1
        print(f"{hand.name:<10} fraction {one.place.fraction:.3f}, by hand {counted_by_hand:.3f}, {off:+.1%}")


def on_virtual() -> Iterator[KernelProfile]:
    """Bindings by the cost model; the profiles for whoever keeps them."""
    gpu = describe("H200")
    right, kernels = 0, list(bound_kernels("vgpu"))
    for kernel in kernels:
        artifact = kernel.artifact()
        begin = time.perf_counter()
        seen = VirtualSandbox(gpu, SETTINGS).run(artifact, "forward", (to_raw(kernel.argument()),))
        assert seen.facts is not None, seen.failure
        one = virtual.kernels(seen.facts.kernels, gpu)[0]
        right += one.place is not None and one.place.binding is kernel.binding
        print(f"{kernel.name:<10} {time.perf_counter() - begin:5.1f} s  {line(kernel, one)}", flush=True)
        yield one
    print(f"{right} of {len(kernels)} bindings are right")


def line(kernel: BoundKernel, one: KernelProfile) -> str:
    """What was expected and what was found."""
    place = one.place
    shown = "; ".join(f"{part.name} {part.value:.4g} {part.unit}" for part in place.shown_by) if place else ""
    us = f"{one.time.us:.1f} µs" if one.time else "-"
    return f"expected {kernel.binding:<10} found {place.binding if place else '-':<10} {us:>12}  {shown}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    profiles = list(on_gpu() if settle_device(chosen.device) == "cuda" else on_virtual())
    if chosen.out is not None:
        chosen.out.write_text("".join(one.text() + "\n" for one in profiles))
