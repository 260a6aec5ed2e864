"""What holds for the package as a whole: light import, honest `__all__`, docstrings, every reason produced."""

import ast
import importlib
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from warpsmith.records import Checker, Reason

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "warpsmith"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py") if "meta" not in path.parts)


def best_of(command: list[str], tries: int = 5) -> float:
    """The shortest of several runs: other work on the machine only ever adds."""
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize("room", ROOMS)
def test_all_is_honest(room: str) -> None:
    module = importlib.import_module(f"warpsmith.{room}")
    for name in getattr(module, "__all__", ()):
        assert hasattr(module, name)


@pytest.mark.parametrize("statement", ["import warpsmith", "import warpsmith.cli", "import warpsmith.records"])
def test_import_is_light(statement: str) -> None:
    code = f"import sys; {statement}; print(sorted({{'torch', 'numpy'}} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "[]"


def test_import_takes_at_most_150_ms() -> None:
    bare = best_of([sys.executable, "-c", "pass"])
    assert best_of([sys.executable, "-c", "import warpsmith"]) - bare < 0.150


def test_help_takes_at_most_400_ms() -> None:
    assert best_of([sys.executable, "-m", "warpsmith", "--help"]) < 0.400


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "a module begins with a line that says what it is"


@pytest.mark.parametrize("reason", list(Reason))
def test_reason_is_produced_by_a_test(reason: Reason) -> None:
    assert re.search(rf"Reason\.{reason.name}\b", TESTS), f"no test produces Reason.{reason.name}"


@pytest.mark.parametrize("checker", list(Checker))
def test_checker_is_produced_by_a_test(checker: Checker) -> None:
    assert re.search(rf"Checker\.{checker.name}\b|\"{checker.value}\"", TESTS), f"no test produces {checker}"
