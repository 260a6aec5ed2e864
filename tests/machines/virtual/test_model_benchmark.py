"""The command that judges the model: groups, ranks, counters modelled anew, files that are none."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from warpsmith.base import UsageError
from warpsmith.machines.virtual import describe

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "vgpu_model.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vgpu_model", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["vgpu_model"] = module
    spec.loader.exec_module(module)
    return module


def written(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_ranks_are_taken_within_a_task_and_case(script: ModuleType, tmp_path: Path) -> None:
    up = [{"task": "a", "case": "s", "measured_us": i, "modelled_us": 10 * i} for i in range(1, 5)]
    down = [{"task": "a", "case": "t", "measured_us": i, "modelled_us": -i} for i in range(1, 4)]
    found = script.lines(script.pairs(written(tmp_path / "m.jsonl", up + down), describe("H200")), 3)
    assert [(line.group[2], line.kernels, line.rank) for line in found] == [("s", 4, 1.0), ("t", 3, -1.0)]
    assert "2 groups, 7 kernels" in script.summary(found)


def test_counters_are_modelled_anew(script: ModuleType, tmp_path: Path) -> None:
    kernel = {"kernel": "k", "launches": 1, "grid": [1, 1, 1], "block": [32, 1, 1], "blocks_per_sm": 32}
    rows = [
        {
            "task": "a",
            "case": "s",
            "measured_us": i,
            "kernels": [kernel | {"counters": {"warp_instructions": i * 10**6}}],
        }
        for i in range(1, 5)
    ]
    found = script.lines(script.pairs(written(tmp_path / "m.jsonl", rows), describe("H200")), 3)
    assert found[0].rank == 1.0


def test_measured_times_within_the_noise_are_equal(script: ModuleType, tmp_path: Path) -> None:
    rows = [{"task": "a", "case": "s", "measured_us": m, "modelled_us": i} for i, m in ((2, 10), (1, 10.1), (3, 20))]
    found = list(script.pairs(written(tmp_path / "m.jsonl", rows), describe("H200")))
    assert script.steps([10.1, 20.0, 10.0], 0.02) == [10.0, 20.0, 10.0]
    assert script.lines(found, 3)[0].rank == 0.5
    assert script.lines(found, 3, 0.02)[0].rank > 0.8


def test_groups_of_two_are_said_apart(script: ModuleType) -> None:
    found = [
        script.Pair(("a", "forward", case), m, 10.0 * i)
        for case, *ms in (("s", 1, 2), ("t", 2, 1))
        for i, m in enumerate(ms, 1)
    ]
    assert script.pairs_of_two(script.lines(found, 2)) == "2 groups of two: 1 in the right order"


def test_too_few_kernels_are_no_group(script: ModuleType) -> None:
    assert script.lines([script.Pair(("a", "forward", "s"), 1.0, 1.0)], 3) == []
    assert "no group" in script.summary([])


def test_a_line_that_is_no_measurement_is_named(script: ModuleType, tmp_path: Path) -> None:
    path = written(tmp_path / "m.jsonl", [{"task": "a"}])
    with pytest.raises(UsageError, match=r"m\.jsonl:1"):
        list(script.pairs(path, describe("H200")))


def test_the_model_ranks_the_kernels_of_the_suite(script: ModuleType) -> None:
    measured = SCRIPT.parent / "measurements" / "h200_suite.jsonl"
    found = list(script.pairs(measured, describe("H200")))
    ranked = script.lines(found, 3, 0.02)
    two = [line for line in script.lines(found, 2, 0.02) if line.kernels == 2 and line.rank == line.rank]
    assert sum(line.rank >= 0.7 for line in ranked) / len(ranked) > 0.85
    assert sum(line.rank > 0 for line in two) / len(two) > 0.9


def test_the_model_ranks_the_shipped_measurements(script: ModuleType) -> None:
    measured = SCRIPT.parent / "measurements" / "h200_small_kernels.jsonl"
    found = script.lines(script.pairs(measured, describe("H200")), 3)
    assert len(found) == 6
    assert sum(line.rank * line.kernels for line in found) / sum(line.kernels for line in found) > 0.8
