"""Known-bad tasks are caught by the filter that each names; the suite and unusual but sound tasks pass all of them."""

import re
from pathlib import Path

import pytest

from warpsmith.tasks.filters import Filter, FilterReport, apply_filters
from warpsmith.tasks.formats.kernelbench import kernelbench
from warpsmith.tasks.formats.own import OwnProgram
from warpsmith.tasks.formats.robust_kbench import KbenchProgram
from warpsmith.tasks.suite import folders, suite_program

BAD = Path(__file__).parents[2] / "bad_tasks"
HONEST = Path(__file__).parent / "honest"
MARK = re.compile(r"^# caught by: (\w+)$", re.MULTILINE)
BAD_FILES = sorted((BAD / "kernelbench").glob("*.py"))
BAD_FOLDERS = sorted(path.parent for path in (BAD / "own").glob("*/task.toml"))
BAD_KBENCH = sorted(path.parent for path in (BAD / "robust_kbench").glob("*/func_forward.py"))
KBENCH = sorted(path.parent for path in (BAD.parent / "foreign" / "robust_kbench").glob("*/func_forward.py"))


def named(text: str) -> Filter:
    found = MARK.search(text)
    assert found, "a bad task says which filter catches it"
    return Filter(found[1])


def failed(report: FilterReport) -> list[str]:
    return [f"{result.filter}: {result.detail}" for result in report.failed]


@pytest.mark.parametrize("path", BAD_FILES, ids=lambda path: path.stem)
def test_a_bad_file_is_caught_by_its_filter(path: Path) -> None:
    result = apply_filters(kernelbench(path)).find_result(named(path.read_text()))
    assert result is not None
    assert not result.passed, result.detail


@pytest.mark.parametrize("folder", BAD_FOLDERS, ids=lambda path: path.name)
def test_a_bad_folder_is_caught_by_its_filter(folder: Path) -> None:
    result = apply_filters(OwnProgram(folder)).find_result(named((folder / "task.toml").read_text()))
    assert result is not None
    assert not result.passed, result.detail


@pytest.mark.parametrize("folder", BAD_KBENCH, ids=lambda path: path.name)
def test_a_bad_folder_of_robust_kbench_is_caught_by_its_filter(folder: Path) -> None:
    result = apply_filters(KbenchProgram(folder)).find_result(named((folder / "func_forward.py").read_text()))
    assert result is not None
    assert not result.passed, result.detail


@pytest.mark.parametrize("folder", KBENCH, ids=lambda path: path.name)
def test_a_sound_folder_of_robust_kbench_passes(folder: Path) -> None:
    assert failed(apply_filters(KbenchProgram(folder))) == []


@pytest.mark.parametrize("path", sorted(HONEST.glob("*.py")), ids=lambda path: path.stem)
def test_an_unusual_but_sound_task_passes(path: Path) -> None:
    assert failed(apply_filters(kernelbench(path))) == []


@pytest.mark.parametrize("name", folders())
def test_a_suite_task_passes_its_own_filters(name: str) -> None:
    report = apply_filters(suite_program(name))
    assert failed(report) == []
    assert {skip.filter for skip in report.skipped} <= {
        Filter.OPINION,  # no model here
        Filter.PARAMETER_IMPACT,  # softmax has no parameters
        Filter.AXIS_VARIATION,  # a loss is one number
    }


def test_every_filter_but_the_opinion_has_a_bad_task() -> None:
    texts = [path.read_text() for path in BAD_FILES] + [(f / "task.toml").read_text() for f in BAD_FOLDERS]
    assert {named(text) for text in texts} == set(Filter) - {Filter.OPINION}
