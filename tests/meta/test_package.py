"""What holds for the package as a whole: light import, honest `__all__`, docstrings, every reason produced."""

import ast
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.records import Checker, Reason

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "warpsmith"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
LAZY = [path for path in sorted(PACKAGE.rglob("__init__.py")) if "lazy_members(" in path.read_text()]
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py") if "meta" not in path.parts)


def modules_loaded(words: list[str]) -> int:
    """The number of modules that Python loads for a command."""
    shown = subprocess.run([sys.executable, "-X", "importtime", *words], check=True, capture_output=True, text=True)
    return shown.stderr.count("import time:")


@pytest.mark.parametrize("room", ROOMS)
def test_all_is_honest(room: str) -> None:
    module = importlib.import_module(f"warpsmith.{room}")
    for name in getattr(module, "__all__", ()):
        assert hasattr(module, name)


@pytest.mark.parametrize(
    "statement", ["import warpsmith", "import warpsmith.cli", "import warpsmith.records", "import warpsmith.cli.eval"]
)
def test_import_is_light(statement: str) -> None:
    code = f"import sys; {statement}; print(sorted({{'torch', 'numpy'}} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize(("words", "most"), [("-c 'import warpsmith'", 30), ("-m warpsmith --help", 130)])
def test_few_modules_are_loaded(words: str, most: int) -> None:
    """Each costs time at every start; the seconds depend on the machine, the number does not."""
    bare, found = (modules_loaded(shlex.split(each)) for each in ("-c pass", words))
    assert found - bare <= most


@pytest.mark.parametrize("init", LAZY, ids=lambda path: path.parent.name)
def test_no_member_has_the_name_of_a_module_beside_it(init: Path) -> None:
    """Whoever imports that module first would find it in place of the member."""
    beside = {path.stem for path in init.parent.iterdir()}
    (block,) = (node for node in ast.parse(init.read_text()).body if isinstance(node, ast.If))
    assert not beside & {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "a module begins with a line that says what it is"


@pytest.mark.parametrize("reason", list(Reason))
def test_reason_is_produced_by_a_test(reason: Reason) -> None:
    assert re.search(rf"Reason\.{reason.name}\b", TESTS), f"no test produces Reason.{reason.name}"


@pytest.mark.parametrize("checker", list(Checker))
def test_checker_is_produced_by_a_test(checker: Checker) -> None:
    assert re.search(rf"Checker\.{checker.name}\b|\"{checker.value}\"", TESTS), f"no test produces {checker}"
