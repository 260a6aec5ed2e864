"""The sentence for an exception of a task: it names the task's line."""

from pathlib import Path

import pytest

from warpsmith.tasks.formats.codefile import load
from warpsmith.tasks.host.server import explain_error


def explained(folder: Path, text: str) -> str:
    path = folder / "thing.py"
    path.write_text(text)
    with pytest.raises(BaseException) as caught:
        load(path).run()
    return explain_error(caught.value, folder, path)


def test_the_deepest_line_of_the_task_is_named(tmp_path: Path) -> None:
    said = explained(tmp_path, "import torch\ndef inner():\n    torch.zeros(2).view(3)\ndef run():\n    inner()\n")
    assert said.startswith(f"{tmp_path}/thing.py:3: RuntimeError: shape '[3]'")
    assert said.endswith("in inner.")


def test_a_syntax_error_has_its_own_line(tmp_path: Path) -> None:
    assert explained(tmp_path, "x = 1\ny = (\n") == f"{tmp_path}/thing.py:2: not Python: '(' was never closed."


def test_an_exit_is_explained(tmp_path: Path) -> None:
    assert "may not exit" in explained(tmp_path, "import sys\nsys.exit(4)\n")


def test_an_error_outside_the_folder_is_told_of_the_file(tmp_path: Path) -> None:
    assert explain_error(ValueError("no."), tmp_path, tmp_path / "a.py") == f"{tmp_path}/a.py: ValueError: no."


def test_a_long_message_is_cut(tmp_path: Path) -> None:
    assert len(explained(tmp_path, "def run():\n    raise ValueError('x' * 100000)\n")) < 1000
