"""Faulty kernels and their repaired twins: the fault is found in its line, the twin has no finding.

In the source, `FAULT` marks the line where the finding must lie; each kernel takes `bad`, a template argument.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

SOURCE = (Path(__file__).parent / "faulty.cu").read_text()

CASES = {
    "out_of_bounds": ["past_end", "before_start", "shared_over", "null_pointer", "vector_over"],
    "misaligned": ["odd_vector", "odd_store", "odd_shared", "odd_byte", "odd_atomic"],
    "uninitialized": ["fresh_shared", "half_shared", "fresh_global", "fresh_atomic", "fresh_dynamic"],
    "race": [
        "no_barrier",
        "no_warp_barrier",
        "reuse",
        "neighbour_block",
        "read_by_two",
        "read_by_all",
        "everyone_adds",
        "unfenced_last",
        "forgotten_wait",
        "reused_tile",
    ],
    "barrier": ["half_block", "two_barriers", "diverged", "odd_count"],
    "shuffle": ["absent_lane", "own_bit", "diverged_mask"],
    "endless": ["for_ever"],
    "trap": ["asserting", "trapping"],
}
STATUS = {"out_of_bounds": "faulted", "misaligned": "faulted", "endless": "budget"}
FRESH = {"fresh_global", "fresh_atomic"}


def lines_of(name: str) -> set[int]:
    """The lines one of which must be named: a fault between two places may be told at either."""
    return {i for i, text in enumerate(SOURCE.splitlines(), 1) if text.endswith(f"// FAULT {name}")}


def launch(gpu: Any, nvcc: Any, name: str, suffix: str) -> Any:
    x = gpu.array(np.arange(128, dtype=np.float32))
    y = gpu.empty(64, np.float32) if name in FRESH else gpu.array(np.zeros(64, np.float32))
    blocks = 2 if name in ("past_end", "neighbour_block", "unfenced_last") else 1
    n = 128 if name == "neighbour_block" else 64
    return gpu.launch(
        gpu.load(nvcc(SOURCE)), f"{name}_{suffix}", blocks, 64, x, y, n, shared=256 if name == "fresh_dynamic" else 0
    )


@pytest.mark.parametrize(("checker", "name"), [(checker, name) for checker, names in CASES.items() for name in names])
def test_fault(make_gpu: Any, nvcc: Any, checker: str, name: str) -> None:
    gpu = make_gpu(budget=3_000_000)
    outcome = launch(gpu, nvcc, name, "bad")
    found = [f for f in outcome.findings if f["checker"] == checker]
    assert found, outcome
    assert {f["line"] for f in found} & lines_of(name), found
    assert found[0]["kernel"] == f"{name}_bad"
    assert outcome.status == STATUS.get(checker, outcome.status)
    gpu.close()


@pytest.mark.parametrize("name", [name for names in CASES.values() for name in names])
def test_twin(gpu: Any, nvcc: Any, name: str) -> None:
    outcome = launch(gpu, nvcc, name, "good")
    assert (outcome.status, outcome.findings) == ("done", [])
