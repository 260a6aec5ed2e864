"""Each command that reads a path refuses devices and pipes at once, and exits as for any wrong argument."""

import json
import os
from pathlib import Path

import pytest

from warpsmith.app import read_results
from warpsmith.app.prompt_files import read_answers
from warpsmith.base import UsageError
from warpsmith.cli._main import run

COMMANDS = (
    ("compile", "{}"),
    ("compile", "{}", "--task", "softmax"),
    ("eval", "softmax", "{}", "--device", "vgpu"),
    ("eval", "{}", "kernel.cu", "--device", "vgpu"),
    ("eval", "softmax", "kernel.cu", "--device", "vgpu", "--gpu", "{}"),
    ("eval-batch", "{}", "--device", "vgpu"),
    ("eval-batch", "batch.jsonl", "--device", "vgpu", "--out", "{}"),
    ("run-virtual", "{}", "--task", "softmax"),
    ("profile", "softmax", "{}"),
    ("optimize", "softmax", "--from", "{}", "--device", "vgpu"),
    ("optimize", "softmax", "--replay", "{}", "--device", "vgpu"),
    ("ask", "mine", "--task", "softmax", "--out", "asked", "--from", "{}"),
    ("ask", "mine", "--task", "softmax", "--out", "asked", "--replay", "{}"),
    ("regrade", "{}", "--device", "vgpu"),
    ("regrade", "kernel.cu", "--task", "softmax", "--against", "{}", "--device", "vgpu"),
    ("audit", "{}", "--device", "vgpu"),
    ("tasks", "show", "{}"),
    ("tasks", "filter", "{}"),
)


@pytest.fixture
def here(work_folder: Path) -> Path:
    """A working folder with a kernel, a batch and a pipe that nobody writes to."""
    (work_folder / "kernel.cu").write_text("int x;")
    (work_folder / "batch.jsonl").write_text(json.dumps({"task": "softmax", "path": "kernel.cu"}) + "\n")
    os.mkfifo(work_folder / "pipe")
    return work_folder


@pytest.mark.parametrize("path", ["/dev/zero", "pipe"])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.usefixtures("here")
def test_it_is_a_usage_error(words: tuple[str, ...], path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([word.format(path) for word in words]) == 2
    assert path in capsys.readouterr().err


@pytest.mark.parametrize("path", ["/dev/zero", "pipe", "/etc/hostname", "../outside.cu", "link.cu", "loop.cu", "a\0b"])
def test_a_line_of_a_batch_reads_nothing_else(here: Path, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    (here.parent / "outside.cu").write_text("secret text")
    (here / "link.cu").symlink_to("../outside.cu")
    (here / "loop.cu").symlink_to("loop.cu")
    (here / "batch.jsonl").write_text(json.dumps({"task": "softmax", "path": path}) + "\n" + "nonsense\n")
    assert run(["eval-batch", "batch.jsonl", "--device", "vgpu", "--jobs", "1"]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert json.loads(first)["line"] == 1 and json.loads(second)["line"] == 2
    assert "secret" not in first


@pytest.mark.parametrize("name", ["ask.json", "1.answer.md"])
def test_a_folder_of_answers_may_hold_pipes(here: Path, name: str) -> None:
    (here / "ask.json").write_text(json.dumps({"run": "mine", "names": ["1"]}))
    (here / name).unlink(missing_ok=True)
    os.mkfifo(here / name)
    with pytest.raises(UsageError, match="is a pipe, not a file"):
        read_answers(here, "mine")


@pytest.mark.parametrize("path", ["/dev/zero", "pipe"])
@pytest.mark.usefixtures("here")
def test_results_of_a_run_are_a_file(path: str) -> None:
    with pytest.raises(UsageError, match="not a file"):
        read_results(Path(path))
