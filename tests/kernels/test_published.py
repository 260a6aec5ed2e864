"""The published kernels: each stands where its task and direction say, compiles, and is right on the virtual GPU."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from warpsmith.app import kernel_candidate
from warpsmith.evaluation import EvaluationConfig, grade
from warpsmith.evaluation.check.fault import check_call
from warpsmith.languages.nvcc import CompileOptions, compile
from warpsmith.machines.virtual import describe
from warpsmith.machines.virtual.session import VirtualSession
from warpsmith.records import Case, Direction, Dtype, Group, Trial, Verdict
from warpsmith.tasks.host import open_task
from warpsmith.tasks.suite import folders, suite

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "kernels"
PATHS = sorted(KERNELS.rglob("*.cu"))
QUICK = ("cross_entropy/forward.cu", "rope/backward.cu")  # of these every `make test` sees that they compile and run


def name_of(path: Path) -> str:
    """How a test names a kernel."""
    return path.relative_to(KERNELS).as_posix()


def test_every_task_and_direction_has_one() -> None:
    every = {f"{task.name}/{direction}.cu" for task in suite() for direction in task.directions}
    assert set(map(name_of, PATHS)) == every >= set(QUICK)


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_its_place_names_a_task_of_the_suite_and_a_direction(path: Path) -> None:
    task, file = path.relative_to(KERNELS).parts
    assert task in folders() and file in {f"{direction}.cu" for direction in Direction}
    target, candidate = kernel_candidate(path, "", {})
    assert (target, candidate.task, f"{candidate.direction}.cu") == (task, task, file)


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_its_text_begins_with_what_it_does(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("// ") and text.endswith("\n")
    assert not re.search(r"\bTODO\b|\bFIXME\b|https?://", text)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if name_of(path) in QUICK else pytest.mark.slow, id=name_of(path)) for path in PATHS],
)
def test_it_compiles_and_is_right_on_the_virtual_gpu(path: Path) -> None:
    _, candidate = kernel_candidate(path, "", {})
    record = grade(candidate, EvaluationConfig(device="vgpu", cases=(Group.SMOKE,), until="check"))
    compiled, checked = record.result("compile"), record.result("check")
    assert compiled is not None and compiled.verdict is Verdict.PASS, record.results[-1].detail
    assert checked is not None
    if checked.verdict is Verdict.SKIP:  # an instruction that the virtual GPU does not have
        pytest.skip(checked.detail)
    assert checked.verdict is Verdict.PASS, f"{checked.reason}: {checked.detail}"


# Sizes that leave a part of a box of results outside on both sides, for kernels that send such boxes.
EDGES = {
    "linear": {"rows": 304, "inner": 144, "cols": 336},
    "llama_ffw": {"rows": 304, "hidden": 336, "inner": 208},
    "unet_linear": {"batch": 2, "tokens": 152, "inner": 144, "cols": 336},
}


@pytest.mark.slow
@pytest.mark.parametrize("width", ["MIDDLE", "256"])
@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("name", EDGES)
def test_warp_groups_are_right_where_tiles_stand_over(name: str, direction: Direction, width: str) -> None:
    path = KERNELS / name / f"{direction}.cu"
    macros = {"GROUP_STEPS": "1", "WIDTH": width}
    assert all(f"#ifndef {macro}\n" in path.read_text() for macro in macros)
    _, candidate = kernel_candidate(path, "", macros)
    task = open_task(name)
    made = compile(candidate, task.describe().signature(direction), CompileOptions.of(task.describe()))
    assert made.artifact is not None, made.result.detail
    trial = Trial(case=Case(name="edges", group=Group.DEV, axes=EDGES[name], dtype=Dtype.FLOAT16))
    problem = task.problem(direction, trial)
    with VirtualSession(
        made.artifact, direction.value, task.describe().signature(direction), describe("H200")
    ) as session:
        shown = session.call(problem.arguments)
    assert shown.facts is not None and any("product_groups" in row.kernel for row in shown.facts.kernels)
    assert check_call(shown, problem, task.describe(), direction, trial).failure is None


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scripts_join_kernels", ROOT / "scripts" / "join_kernels.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_published_matrix_products_are_joined_from_their_parts() -> None:
    found = script().published()
    assert {name_of(path).split("/")[0] for path in found} == {"linear", "linear_relu", "llama_ffw", "unet_linear"}
    assert len(found) == 8
    for path, text in found.items():
        assert path.read_text() == text, f"{path} is out of date: run python scripts/join_kernels.py"


def test_every_part_of_the_matrix_product_is_used() -> None:
    folder = KERNELS / "matrix_product"
    texts = [path.read_text() for path in folder.rglob("*.cuh")]
    named = {name for text in texts for name in re.findall(r"^//: (?:part|let \w+) ([a-z]\w*)$", text, re.MULTILINE)}
    composed = {"wgmma_160", "wgmma_192", "helper_sums_of_two", "helper_sums_of_eight"}
    parts = {path.stem for path in (folder / "parts").iterdir()}
    assert parts <= named | composed and composed <= parts
