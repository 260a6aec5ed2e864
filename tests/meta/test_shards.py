"""Parts of the slow tests: each test is in one part, and a second run goes on with what has not passed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = "\n".join(f"def test_{number}():\n    assert {number} != 3\n" for number in range(5))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with these fixtures and five tests, of which number 3 fails."""
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    (tmp_path / "tests" / "test_five.py").write_text(TESTS)
    return tmp_path


def run_shard(project: Path, shard: str) -> tuple[int, list[str]]:
    """Return the exit status and the tests that ran."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**outer, "PYTHONPATH": str(ROOT / "src")}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        ".",
        "--shard",
        shard,
        "tests",
    ]
    done = subprocess.run(words, cwd=project, env=environment, capture_output=True, text=True)
    return done.returncode, sorted(re.findall(r"::(test_\d) (?:PASSED|FAILED)", done.stdout))


def test_each_test_is_in_one_part_and_only_those_that_passed_are_not_run_again(project: Path) -> None:
    assert run_shard(project, "1/2") == (0, ["test_0", "test_2", "test_4"])
    assert run_shard(project, "1/2") == (0, [])
    assert run_shard(project, "2/2") == (1, ["test_1", "test_3"])
    assert run_shard(project, "2/2") == (1, ["test_3"])


def test_a_changed_file_makes_every_test_run_again(project: Path) -> None:
    assert run_shard(project, "1/2")[1] == ["test_0", "test_2", "test_4"]
    (project / "tests" / "test_five.py").write_text(TESTS + "\n")
    assert run_shard(project, "1/2")[1] == ["test_0", "test_2", "test_4"]


def test_a_part_that_does_not_exist_is_refused(project: Path) -> None:
    assert run_shard(project, "3/2") == (4, [])
