"""Every seed declares what can be tuned about it, its structure too, and is right at points drawn from that space."""

import importlib.util
import random
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from warpsmith.languages.cuda.tunables import read_space
from warpsmith.tasks.suite import folders

ROOT = Path(__file__).parents[3]
# One of each kind in every run of the tests; all of them in the slow ones.
QUICK = ("softmax/backward", "linear/forward")
POINTS = 3  # of each seed in the slow tests; scripts/check_tunables.py runs all of them
FEWEST, MOST = 8, 64  # points of a space: something to find, and all of them can be timed


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_tunables", ROOT / "scripts" / "check_tunables.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


script = _script()
SEEDS = {seed.name: seed for seed in script.seeds()}
FILES = sorted(path for folder in folders().values() for path in folder.glob("seed_*.cu"))
each = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")


@each
def test_it_declares_its_structure_and_a_size(path: Path) -> None:
    space = read_space(path.read_text())
    names = {one.name for one in space.tunables}
    assert not space.bad
    assert "STRATEGY" in names and names & {"BLOCK", "TILE"}
    assert FEWEST <= space.size <= MOST


@each
def test_by_itself_it_is_the_simple_one_that_is_declared(path: Path) -> None:
    text = path.read_text()
    defined = dict(re.findall(r"^#ifndef (\w+)\n#define \1 (\S+)\n#endif$", text, re.MULTILINE))
    assert all(defined[one.name] == one.default for one in read_space(text).tunables)
    assert defined["STRATEGY"] == "0"


@pytest.mark.parametrize("name", QUICK)
def test_its_last_strategy_is_right(name: str) -> None:
    space = SEEDS[name].space
    last = next(one.choices[-1] for one in space.tunables if one.name == "STRATEGY")
    drawn = random.Random(name).choice([point for point in script.points(SEEDS[name]) if point.get("STRATEGY") == last])
    assert script.complaint(SEEDS[name], drawn) == "", drawn


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_it_is_right_at_drawn_points(name: str) -> None:
    for point in script.sampled(SEEDS[name], POINTS):
        assert script.complaint(SEEDS[name], point) == "", point


def test_a_small_part_stands_for_a_large_one() -> None:
    drawn = list(script.points(SEEDS["layernorm/forward"]))
    assert {point["SPLIT"] for point in drawn if "SPLIT" in point} == {script.SMALL["SPLIT"]}
    assert all(point["PART"] == script.SMALL["PART"] for point in script.points(SEEDS["group_norm_silu/forward"]))


def test_a_wrong_configuration_is_told() -> None:
    seed = SEEDS["max_pool/forward"]
    assert "compile_error" in script.complaint(seed, {"BLOCK": "none"})
