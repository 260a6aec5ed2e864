"""A worker sees its artifact and the native libraries that it links, nothing of the package, the suite or the user."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from runtime_artifacts import HERE, LIMITS, artifact

import warpsmith
from warpsmith.base.native import build_native
from warpsmith.isolation import paths, run
from warpsmith.machines.virtual import runtime
from warpsmith.machines.worker.worker import worker_policy

HOSTILE = Path(__file__).parents[2] / "isolation" / "programs" / "hostile.cc"
PACKAGE = Path(warpsmith.__file__).parent
OWN = artifact(HERE / "calls.cu")
SUITE = sorted((PACKAGE / "tasks" / "suite").glob("*/task.*"))
Read = Callable[[Path, str], bool]


@pytest.fixture
def read() -> Read:
    """Whether a program with a worker's policy can open a path (`read`) or a folder (`list`)."""
    policy = worker_policy(OWN, runtime().parent, LIMITS)
    program = build_native("hostile", [HOSTILE])
    policy = replace(policy, read=(*policy.read, program))

    def read_one(path: Path, what: str = "read") -> bool:
        outcome = run([program, what, str(path)], policy)
        assert outcome.exit_code == 0, outcome
        return outcome.stdout == b"ok\n"

    return read_one


def test_its_artifact_and_its_libraries_are_there(read: Read) -> None:
    assert read(OWN, "read")
    assert read(runtime(), "read")


@pytest.mark.parametrize("path", [*SUITE, PACKAGE / "__init__.py", PACKAGE / "tasks" / "api.py"], ids=str)
def test_the_package_and_the_suite_are_not(read: Read, path: Path) -> None:
    assert path.exists() and not read(path, "read")


@pytest.mark.parametrize("folder", [Path.home(), OWN.parent, PACKAGE.parents[1]], ids=["home", "artifacts", "tree"])
def test_what_lies_beside_is_not(read: Read, folder: Path) -> None:
    beside = Path(shutil.copy(OWN, folder / f"warpsmith-other-{os.getpid()}.so"))
    try:
        assert not read(beside, "read") and not read(folder, "write")
    finally:
        beside.unlink()


def test_nothing_of_python_is(read: Read) -> None:
    assert not read(Path(os.__file__), "read") and not read(Path(pytest.__file__), "read")


@pytest.mark.parametrize("name", ["environ", "maps", "cmdline", "mem"])
def test_the_evaluator_is_not_in_its_proc(read: Read, name: str) -> None:
    assert not read(Path(f"/proc/{os.getpid()}/{name}"), "read")


def test_a_package_among_the_libraries_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it is installed for the system's Python."""
    package = tmp_path / "lib" / "python3" / "warpsmith"
    package.mkdir(parents=True)
    for other in ("bin/ncu", "lib/libfoo.so", "lib/python3/torch.py"):
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).touch()
    monkeypatch.setattr(paths, "PACKAGE", package)
    shown = {str(path.relative_to(tmp_path)) for path in paths._without_package(tmp_path)}
    assert shown == {"bin", "lib/libfoo.so", "lib/python3/torch.py"}
