"""How long the seeds take to compile: alone, from the cache, eight at once, and with torch's own headers.

    python benchmarks/compile.py [--torch 3] [--files 12] [--all]

Prints ratios of one run. The torch side is `torch.utils.cpp_extension.load` on the same files with the same code
generation flags; a torch without CUDA compiles the file and then cannot link, which costs it less, and is said. Where
the toolkit lacks the headers of cuBLAS and its kin, torch gets empty ones with the few types it names: cheaper too.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from warpsmith.base import Home, median
from warpsmith.languages.nvcc import CompileOptions, Toolchain, compile, compile_many
from warpsmith.records import Candidate, Direction

SUITE = Path(__file__).parents[1] / "src" / "warpsmith" / "tasks" / "suite"
AT_ONCE = 8
LOAD = """
import os, sys, time
from pathlib import Path
from torch.utils import cpp_extension
folder, source = sys.argv[1:]
cpp_extension.CUDA_HOME = os.environ["CUDA_HOME"]  # a torch without CUDA does not look for it
flags = ["-O3", "-lineinfo", "-std=c++17", "-DC10_USING_CUSTOM_GENERATED_MACROS"]
started = time.perf_counter()
linked = True
try:
    cpp_extension.load("kernel", [source], build_directory=folder, extra_cuda_cflags=flags, with_cuda=True)
except (RuntimeError, ImportError):
    linked = False
    if not list(Path(folder).glob("*.o")):
        raise
print(time.perf_counter() - started, linked)
"""


STAND_INS = {
    "cublas_v2.h": "typedef struct cublasContext* cublasHandle_t; typedef int cublasStatus_t;",
    "cublasLt.h": "typedef void* cublasLtHandle_t;",
    "cusparse.h": "typedef struct cusparseContext* cusparseHandle_t; typedef int cusparseStatus_t;\n"
    "inline const char* cusparseGetErrorString(cusparseStatus_t) { return 0; }",
    "cusolverDn.h": "typedef struct cusolverDnContext* cusolverDnHandle_t;",
    "cusolver_common.h": "typedef int cusolverStatus_t;",
}


def fresh_home() -> str:
    """An empty cache that shares the built native parts."""
    native = Home.locate().cache / "native"
    native.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="warpsmith-bench-")
    Path(folder, "cache").mkdir()
    Path(folder, "cache", "native").symlink_to(native)
    return folder


def candidate(path: Path) -> Candidate:
    direction = Direction.BACKWARD if "backward" in path.stem else Direction.FORWARD
    return Candidate(task=path.parent.name, direction=direction, source=path.read_text())


def timed(one: Candidate) -> float:
    started = time.perf_counter()
    made = compile(one)
    assert made.ok, f"{one.task} {one.direction}: {made.result.detail}"
    return time.perf_counter() - started


def serial(paths: list[Path]) -> list[float]:
    """Each file alone into an empty cache."""
    os.environ["WARPSMITH_HOME"] = fresh_home()
    seconds = []
    for path in paths:
        seconds.append(timed(candidate(path)))
        print(f"  {seconds[-1]:6.2f} s  {path.parent.name}/{path.name}", flush=True)
    return seconds


def with_torch(path: Path) -> float:
    """One file through torch's own loader, in a process of its own."""
    toolchain = Toolchain.find()
    arch = CompileOptions().arch.removeprefix("sm_")
    environment = {
        **os.environ,
        "CUDA_HOME": str(toolchain.root),
        "TORCH_CUDA_ARCH_LIST": f"{arch[:-2]}.{arch[-2:]}",
        "MAX_JOBS": "2",
    }
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as stand_ins:
        for name, text in STAND_INS.items():
            if toolchain.header(name) is None:
                Path(stand_ins, name).write_text(f"#pragma once\n{text}\n")
        environment["CPATH"] = stand_ins
        done = subprocess.run(
            [sys.executable, "-c", LOAD, folder, str(path)], capture_output=True, text=True, env=environment
        )
    if done.returncode:
        raise SystemExit(f"torch's loader compiled nothing:\n{(done.stdout + done.stderr)[-2000:]}")
    seconds, linked = done.stdout.split()[-2:]
    print(
        f"  {float(seconds):6.1f} s  {path.parent.name}/{path.name}{'' if linked == 'True' else ' (no link)'}",
        flush=True,
    )
    return float(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--torch", type=int, default=3, help="how many files through torch's loader")
    parser.add_argument("--all", action="store_true", help="every seed")
    chosen = parser.parse_args()
    seeds = sorted(path for path in SUITE.glob("*/seed_*.cu") if "plain" not in path.name)
    count = len(seeds) if chosen.all else min(chosen.files, len(seeds))
    paths = [seeds[i * len(seeds) // count] for i in range(count)]
    timed(candidate(seeds[0]).model_copy(update={"macros": {"WARM": "1"}}))  # builds the launcher once
    print(f"{Toolchain.find().version}, {os.cpu_count()} cores, {len(paths)} of {len(seeds)} seeds, one at a time")
    alone = serial(paths)
    hits = [timed(candidate(path)) for path in paths]
    eight = paths[:AT_ONCE]
    print(f"{AT_ONCE} of them, one after the other")
    in_turn = sum(serial(eight))
    os.environ["WARPSMITH_HOME"] = fresh_home()
    started = time.perf_counter()
    compile_many([candidate(path) for path in eight], workers=2)
    together = time.perf_counter() - started
    print(f"median {median(alone):.2f} s each, largest {max(alone):.2f} s")
    print(f"cache hit median {1000 * median(hits):.1f} ms, largest {1000 * max(hits):.1f} ms")
    print(f"{AT_ONCE} at once {together:.1f} s, in turn {in_turn:.1f} s: ratio {together / in_turn:.2f}")
    if chosen.torch:
        print("torch.utils.cpp_extension.load")
        some = paths[: chosen.torch]
        ratios = [with_torch(path) / alone[paths.index(path)] for path in some]
        print(f"against torch: median {median(ratios):.1f} times faster, smallest {min(ratios):.1f}")


if __name__ == "__main__":
    main()
