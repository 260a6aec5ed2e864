"""Members of a package that are imported on first access."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.base import lazy_members

INIT = """
from typing import TYPE_CHECKING
from warpsmith.base import lazy_members
if TYPE_CHECKING:
    from {name}.best import Best, best
__getattr__ = lazy_members(__name__)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    name = "lazy_" + request.node.name
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(INIT.format(name=name))
    (tmp_path / name / "best.py").write_text("class Best: pass\ndef best(): return 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name


def test_a_member_with_the_name_of_its_submodule_is_not_hidden_by_it(package: str) -> None:
    found = importlib.import_module(package)
    assert found.Best.__name__ == "Best"  # imports the submodule `best`
    assert found.best() == 7


def test_an_unknown_member_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'worst'"):
        _ = importlib.import_module(package).worst
    assert callable(lazy_members(package))
