"""Exported packages without a GPU: their files, their operators with torch on a CPU in the place of kernels, pip."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from exporting import BOTH, SUITE, package, passed, written

from warpsmith.base import UsageError
from warpsmith.records import Direction, Origin, Reason, Record, StageResult, Task, Verdict
from warpsmith.report.export.package import FORMS, Package, package_files
from warpsmith.report.export.reference import reference
from warpsmith.tasks.host import open_task
from warpsmith.tasks.suite import folders

ROOT = Path(__file__).parents[2]


def python(code: list[str], path: str) -> str:
    """What a Python of its own prints with a folder on its path; it must end well."""
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, *code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("name", sorted(folders()))
def test_every_task_of_the_suite_makes_python_that_can_be_read(name: str) -> None:
    with open_task(name) as opened:
        task = opened.describe()
    records = {Direction(d): passed(task, SUITE / name / f"seed_{d}.cu") for d in Direction}
    files = package_files(Package(name=f"{name}_kernel", task=task, records=records))
    for path, text in files.items():
        if path.endswith(".py"):
            ast.parse(text, path)
            assert "import warpsmith" not in text and "from warpsmith" not in text
    assert tomllib.loads(files["pyproject.toml"])["project"]["name"] == f"{name}_kernel"
    assert "register_autograd" in files[f"src/{name}_kernel/__init__.py"]


def test_a_package_holds_the_kernel_as_it_was_evaluated() -> None:
    one = package("layernorm", BOTH, {"BLOCK": "512"})
    files = package_files(one)
    inside = "src/layernorm_kernel"
    assert files[f"{inside}/kernels/forward.cu"] == (SUITE / "layernorm" / "seed_forward.cu").read_text()
    unit = files[f"{inside}/kernels/forward_unit.cu"]
    assert unit.index("torch/all.h") < unit.index("#define BLOCK 512") < unit.index('#include "forward.cu"')
    assert Record.parse(files[f"{inside}/record_backward.json"]) == one.records[Direction.BACKWARD]
    assert files["LICENSE"] == (ROOT / "LICENSE").read_text()
    assert "(mean, rstd) is computed by torch's operators" in files["README.md"] and "BLOCK=512" in files["README.md"]
    given = json.loads(files["tests/examples.json"])
    assert given["differentiable"] == [True, True, True, False] and given["norm_floor"]["float32"] == 4e-06


def test_one_direction_has_no_gradient() -> None:
    files = package_files(package("softmax", ("seed_forward.cu",)))
    text = files["src/softmax_kernel/__init__.py"]
    assert "register_fake" in text and "register_autograd" not in text and "def backward" not in text
    assert "forward direction alone" in files["README.md"]


def test_a_plain_kernel_gets_the_memory_of_its_results() -> None:
    files = package_files(package("max_pool", ("seed_forward.plain.cu",)))
    inside = "src/max_pool_kernel/kernels"
    assert "warpsmith_fill" in files[f"{inside}/forward_unit.cu"]
    assert "WARPSMITH_ABI" in files[f"{inside}/include/warpsmith/abi.h"]
    assert "_building.empty(_reference.forward, _given)" in files["src/max_pool_kernel/__init__.py"]


def test_only_what_passed_leaves() -> None:
    one = package("softmax", ("seed_forward.cu",))
    record = one.records[Direction.FORWARD]
    wrong = StageResult(stage="check", verdict=Verdict.FAIL, reason=Reason.WRONG_VALUE, detail="3 elements")
    for bad, complaint in (
        (record.model_copy(update={"results": (wrong,)}), "only a kernel that passed"),
        (record.model_copy(update={"results": ()}), "only a kernel that passed"),
        (record.model_copy(update={"task_version": "older"}), "has changed since"),
    ):
        with pytest.raises(UsageError, match=complaint):
            replace(one, records={Direction.FORWARD: bad})
    with pytest.raises(UsageError, match="expected softmax, backward"):
        replace(one, records={Direction.BACKWARD: record})
    with pytest.raises(UsageError, match="Package name 'No-Name'"):
        replace(one, name="No-Name")


def described(target: Path | str) -> Task:
    from warpsmith.tasks.host import OpenOptions

    with open_task(str(target), OpenOptions(trust=True)) as opened:
        return opened.describe()


def test_a_module_s_reference_takes_its_state_as_arguments(tmp_path: Path) -> None:
    task = described(ROOT / "tests/foreign/modules/mine.py:Block")
    (tmp_path / "reference.py").write_text(reference(task, "Block"))
    code = (
        "import torch, reference; from torch.nn import functional as F\n"
        "x, up, bias, down = torch.randn(12, 24), torch.randn(48, 24), torch.randn(48), torch.randn(24, 48)\n"
        "expected = F.linear(torch.relu(F.linear(x, up, bias)), down)\n"
        "torch.testing.assert_close(reference.forward(x, up, bias, down), expected)\n"
    )
    assert [argument.name for argument in task.forward.arguments] == ["x", "up_weight", "up_bias", "down_weight"]
    python(["-c", code], str(tmp_path))


def test_a_task_that_calls_kernels_itself_is_refused() -> None:
    with pytest.raises(UsageError, match="whose functions are spread"):
        reference(described("softmax").model_copy(update={"origin": Origin.ROBUST_KBENCH}))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three packages, as pip installs them."""
    here = tmp_path_factory.mktemp("export")
    names = ("softmax", "layernorm", "rope")
    paths = [str(written(package(name), here / name)) for name in names]
    words = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    python([*words, str(here / "site"), *paths], "")
    return here


def test_pip_installs_every_file(installed: Path) -> None:
    for name in ("softmax_kernel", "layernorm_kernel", "rope_kernel"):
        sources, there = installed / name.removesuffix("_kernel") / "src" / name, installed / "site" / name
        wanted = {str(path.relative_to(sources)) for path in sources.rglob("*") if path.is_file()}
        assert wanted <= {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()}


def test_the_operators_keep_torch_s_rules(installed: Path) -> None:
    script = str(Path(__file__).parent / "stand_ins.py")
    said = python([script, "softmax", "layernorm", "rope"], str(installed / "site"))
    assert said.splitlines() == ["softmax fine", "layernorm fine", "rope fine"]


def test_a_package_s_own_tests_run_without_a_gpu(installed: Path) -> None:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", str(installed / "softmax" / "tests")]
    said = python(words, str(installed / "site"))
    assert "5 passed" in said and "need" not in said


def test_the_forms_are_complete() -> None:
    names = {path.name for path in FORMS.iterdir()}
    assert names == {
        "LICENSE",
        "README.md.in",
        "building.py.in",
        "calling.py.in",
        "pyproject.toml.in",
        "test_against_reference.py.in",
    }
