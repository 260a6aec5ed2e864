"""What a process that forks others is begun with."""

import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.evaluation.processes.nursery import bytecode


def test_a_package_that_came_compiled_is_left_alone_and_one_that_is_missing_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "already").mkdir()
    (tmp_path / "already" / "__init__.py").write_text("")
    py_compile.compile(str(tmp_path / "already" / "__init__.py"))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert bytecode("already") == {}
    assert bytecode("no_such_package") == {}


def test_one_that_came_without_compiled_modules_has_them_in_our_cache(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uncompiled").mkdir()
    (tmp_path / "uncompiled" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    env = bytecode("uncompiled")
    begun = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", **env}
    subprocess.run([sys.executable, "-c", "import uncompiled"], env=begun, check=True)
    assert [path.name for path in (home / "cache").rglob("__init__*.pyc")]
    assert not list((tmp_path / "uncompiled").rglob("*.pyc"))
