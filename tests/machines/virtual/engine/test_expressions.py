"""Random expressions: what nvcc makes of them, run on the engine, against what g++ makes of them."""

import subprocess
from ctypes import CDLL, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from expressions import inputs, program
from numpy.typing import NDArray

from warpsmith.languages.nvcc import Toolchain

THREADS, FUNCTIONS = 64, 40
HOST_FLAGS = ("-x", "c++", "-std=c++17", "-O1", "-fwrapv", "-ffp-contract=off", "-w", "-shared", "-fPIC")


def on_host(folder: Path, text: str, given: NDArray[Any]) -> NDArray[Any]:
    source, library = folder / "host.txt", folder / "host.so"
    source.write_text(text)
    subprocess.run([Toolchain.find().host, *HOST_FLAGS, source, "-o", library], check=True)
    found = np.zeros((THREADS, FUNCTIONS), np.uint64)
    CDLL(str(library)).host(c_void_p(given.ctypes.data), c_void_p(found.ctypes.data), THREADS)
    return found


def meaning(bits: NDArray[Any], kind: str) -> NDArray[Any]:
    """One NaN for all of them; the sign of zero counts."""
    if kind[0] != "f":
        return bits
    values = bits.astype(f"u{kind[1]}").view(kind)
    return np.where(np.isnan(values), np.uint64(2**64 - 1), bits)


def compare(gpu: Any, nvcc: Any, folder: Path, seed: int) -> None:
    text, kinds = program(seed, FUNCTIONS)
    given, found = inputs(seed, THREADS), gpu.empty((THREADS, FUNCTIONS), np.uint64)
    expected = on_host(folder, text, given)
    module = gpu.load(nvcc(text, flags=("-fmad=false", "-w")))
    outcome = gpu.launch(module, "k", THREADS // 32, 32, gpu.array(given.view(np.uint8)), found)
    assert (outcome.status, outcome.findings) == ("done", [])
    have = found.numpy()
    for n, kind in enumerate(kinds):
        line = next(line for line in text.splitlines() if f" f{n}(" in line)
        np.testing.assert_array_equal(meaning(have[:, n], kind), meaning(expected[:, n], kind), line)


@pytest.mark.parametrize("seed", range(4))
def test_the_engine_agrees_with_the_host(gpu: Any, nvcc: Any, tmp_path: Path, seed: int) -> None:
    compare(gpu, nvcc, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 180))
def test_the_engine_agrees_with_the_host_at_length(gpu: Any, nvcc: Any, tmp_path: Path, seed: int) -> None:
    compare(gpu, nvcc, tmp_path, seed)
