"""Measured ceilings of this GPU, stored by GPU and driver."""

import os
import subprocess
import tempfile
from pathlib import Path

from warpsmith.base import HarnessError, Home, digest, hold_lock
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.hardware import Gpu, load_ceilings, save_ceilings
from warpsmith.records import Ceilings

SOURCE = Path(__file__).parent / "native" / "ceilings.cu"
SIDE = 8192  # of a square product: large enough that every tile is busy
TRIES = 5
BUILD_S, RUN_S = 120, 60
MATMULS = ("float32", "tf32", "float16", "bfloat16")


def find_ceilings(gpu: Gpu, toolchain: Toolchain) -> Ceilings:
    """Return stored ceilings; measure them if missing."""
    found = load_ceilings(gpu.name, gpu.driver, probe())
    if found is None:
        found = measure(gpu, toolchain)
        save_ceilings(found, gpu.driver, probe())
    return found


def probe() -> str:
    """Return the memory probe's version, a hash."""
    # Another probe measures other ceilings, so the hash of its source is part of the stored file's name.
    return digest(SOURCE.read_bytes())[:8]


def measure(gpu: Gpu, toolchain: Toolchain) -> Ceilings:
    """Measure memory rates and matrix product rates."""
    memory = parse(_run(_built(gpu, toolchain), toolchain))
    matmuls = {name: _matmul_flops_per_s(name) for name in MATMULS}
    return Ceilings(gpu=gpu.name, measured=True, matmul_flops_per_s=matmuls, **memory)


def parse(said: str) -> dict[str, float]:
    """Parse the probe's output; raise HarnessError if unreadable."""
    try:
        return {name: float(value) for name, value in (line.split() for line in said.splitlines() if line.strip())}
    except ValueError:
        raise HarnessError(f"The probe of the memory's ceilings printed {said[:200]!r}.") from None


def _built(gpu: Gpu, toolchain: Toolchain) -> Path:
    """Build the probe once, under a lock."""
    # The lock serves processes that start at the same time; the rename makes the program appear complete
    # or not at all.
    target = Home.locate().cache / "native" / digest(SOURCE.read_bytes(), toolchain.key, gpu.arch) / "ceilings"
    with hold_lock(target.parent.with_suffix(".lock")):
        if target.exists():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            made = Path(scratch) / "ceilings"
            _compile(gpu, toolchain, made)
            made.rename(target)
    return target


def _compile(gpu: Gpu, toolchain: Toolchain, made: Path) -> None:
    """Compile the probe; raise HarnessError if that fails."""
    # The shared runtime is linked by its full path: CUDA wheels for Python contain no static runtime.
    flags = ["-O3", "-std=c++17", f"-arch={gpu.arch}", "--cudart=none", f"-ccbin={toolchain.host}"]
    command = [str(toolchain.nvcc), *flags, str(SOURCE), f"-Xlinker={toolchain.runtime}", "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=BUILD_S)
    if done.returncode != 0:
        raise HarnessError(f"The probe of the memory's ceilings does not compile: {done.stderr[-2000:]}")


def _run(program: Path, toolchain: Toolchain) -> str:
    """Run the probe; return its output or raise HarnessError."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(toolchain.runtime.parent)}
    done = subprocess.run([program], capture_output=True, text=True, errors="replace", timeout=RUN_S, env=env)
    if done.returncode != 0:
        raise HarnessError(f"The probe of the memory's ceilings does not run: {done.stderr[-2000:]}")
    return done.stdout


def _matmul_flops_per_s(name: str) -> float:
    """Return the best measured rate of a matrix product."""
    # The best of five: a disturbance only makes a product slower, and a ceiling is the highest rate.
    import torch

    from warpsmith.machines.cuda import events_us

    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    try:
        dtype: torch.dtype = getattr(torch, "float32" if name == "tf32" else name)
        a, b = (torch.randn(SIDE, SIDE, device="cuda").to(dtype) for _ in range(2))
        torch.matmul(a, b)
        torch.cuda.synchronize()
        return 2.0 * SIDE**3 / (min(events_us(lambda: torch.matmul(a, b)) for _ in range(TRIES)) / 1e6)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
