"""What a user means by TASK."""

import shutil
from pathlib import Path

import pytest

from warpsmith.base import UsageError
from warpsmith.tasks.formats.target import TaskFormat, TaskTarget, find, find_all
from warpsmith.tasks.suite import suite_folder

FOREIGN = Path(__file__).parent.parent / "foreign"


def test_a_name_of_the_suite() -> None:
    assert find("layernorm") == TaskTarget(TaskFormat.SUITE, suite_folder("layernorm"))
    assert find("layernorm").label == "layernorm"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("robust_kbench/scaled_norm", TaskFormat.ROBUST_KBENCH),
        ("robust_kbench/scaled_norm/func_forward.py", TaskFormat.ROBUST_KBENCH),
        ("kernelbench/1_Row_scale.py", TaskFormat.KERNELBENCH),
        ("modules/mine.py:gate", TaskFormat.MODULE),
    ],
)
def test_a_path_by_its_form(text: str, form: TaskFormat) -> None:
    assert find(str(FOREIGN / text)).form is form


def test_a_suite_folder_is_trusted_wherever_it_is_named_from() -> None:
    assert find(str(suite_folder("softmax"))).form is TaskFormat.SUITE


def test_a_folder_with_a_manifest_is_our_own_form(tmp_path: Path) -> None:
    (tmp_path / "task.toml").write_text('name = "mine"\n')
    assert find(str(tmp_path)) == TaskTarget(TaskFormat.OWN, tmp_path)


def test_an_unknown_name_gives_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"'layer_norm' does not exist. Did you mean layernorm"):
        find("layer_norm")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kernelbench/1_Row_scal.py", "does not exist. Did you mean .*1_Row_scale.py"),
        ("nowhere/at/all", "does not exist"),
        ("modules/mine.py", "Write mine.py:Name"),
        ("modules/mine.py:not a name", "'not a name' after"),
        ("modules/other.py:gate", "other.py' does not exist. Did you mean"),
        ("kernelbench", "holds 3 tasks; name one: .*1_Row_scale.py"),
        ("modules", "No task in"),
        ("robust_kbench/scaled_norm/config_forward.json", "is no task"),
    ],
)
def test_a_path_that_is_no_task_says_what_would_be(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        find(str(FOREIGN / text))


def test_a_name_that_is_also_a_task_s_folder_is_ambiguous(work_folder: Path) -> None:
    shutil.copytree(suite_folder("rope"), work_folder / "softmax")
    shutil.copytree(suite_folder("rope"), work_folder / "rope" / "mine")
    for name in ("softmax", "rope"):
        with pytest.raises(UsageError, match=rf"Write \./{name}"):
            find(name)


def test_a_folder_of_kernels_named_after_a_task_does_not_hide_it(work_folder: Path) -> None:
    (work_folder / "softmax").mkdir()
    (work_folder / "softmax" / "forward.cu").write_text("")
    assert find("softmax") == TaskTarget(TaskFormat.SUITE, suite_folder("softmax"))


def test_a_folder_of_many_gives_all_of_them_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        (tmp_path / f"{number}_x.py").write_text("class Model: pass\ndef get_inputs(): pass\n")
    (tmp_path / "note.py").write_text("x = 1\n")
    assert [target.path.stem for target in find_all(str(tmp_path))] == ["1_x", "2_x", "10_x"]
    assert {target.form for target in find_all(str(FOREIGN))} == {TaskFormat.ROBUST_KBENCH, TaskFormat.KERNELBENCH}


def test_find_all_of_one_is_that_one() -> None:
    assert find_all("softmax") == (find("softmax"),)


def test_two_tasks_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "task.toml").write_text('name = "same"\n')
    with pytest.raises(UsageError, match="Two tasks are named 'same'"):
        find_all(str(tmp_path))


def test_an_empty_folder_has_no_task(work_folder: Path) -> None:
    with pytest.raises(UsageError, match=rf"No task below {work_folder.resolve()}\. A task is"):
        find_all(".")
