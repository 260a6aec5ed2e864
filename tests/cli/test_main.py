"""The command line: help from the table, nearest names, exit codes, JSON errors, faults in one line."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.cli import _main
from warpsmith.cli._commands import COMMANDS


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main.run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(row.name in text for row in COMMANDS)


def test_no_argument_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main.run([]) == 0
    assert "Usage: warpsmith" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("warpsmith ")


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_every_command_has_help_and_json(row: object, capsys: pytest.CaptureFixture[str]) -> None:
    name = row.name  # type: ignore[attr-defined]
    assert _main.run([name, "--help"]) == 0
    assert "Usage" in capsys.readouterr().out


def test_an_unknown_command_has_a_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main.run(["docter"]) == 2
    assert "Did you mean doctor?" in capsys.readouterr().err


def test_errors_are_json_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main.run(["tasks", "show", "sofmax", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["exit_code"] == 2
    assert "softmax" in error["message"]


@pytest.mark.parametrize(
    "argv", [["tasks", "lits"], ["tasks", "show"], ["doctor", "--jsno"], ["tasks", "show", "x", "y"]]
)
def test_usage_errors_exit_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert _main.run(argv) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["tasks", "show"], "tasks show"),
        (["tasks", "lits"], "tasks"),
        (["doctor", "--jsno"], "doctor"),
        (["tasks", "show", "x", "--direction", "up"], "tasks show"),
    ],
)
def test_a_complaint_is_a_sentence_and_names_the_help_of_its_command(
    argv: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main.run(argv) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(rf"error: .*[^.][.?] See warpsmith {command} --help\.\n", said) and "Value error" not in said


def test_a_group_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main.run(["tasks"]) == 0
    said = capsys.readouterr()
    assert "filter" in said.out and not said.err


@pytest.mark.parametrize("words", ["tasks show softmax --json", "--version"])
def test_a_reader_that_leaves_early_is_no_fault(words: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "warpsmith", *words.split()], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_skeleton_is_json_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main.run(["tasks", "show", "softmax", "--skeleton", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["task"], found["direction"]) == ("softmax", "forward") and "__global__" in found["source"]


def test_our_fault_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(argv: list[str]) -> int:
        raise ZeroDivisionError("oops")

    assert _main.run(["doctor"], broken) == 3
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["eval", "swiglu", "k.cu"], "interrupted"),
        (["eval-batch", "k.jsonl"], "interrupted: with --out the same command resumes where it ended"),
    ],
)
def test_interrupt_exits_130_and_says_so(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*rest: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("warpsmith.cli.eval.read_modes", interrupted)
    monkeypatch.setattr("warpsmith.cli.eval_batch.read_modes", interrupted)
    assert _main.run(words) == 130
    assert capsys.readouterr().err.strip() == said


def test_a_function_is_shown_with_inputs_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def double(x):\n    return x * 2\n")
    assert _main.run(["tasks", "show", f"{mine}:double", "--input", "8x16", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["forward"]["arguments"][0]["kind"] == "tensor"
    assert _main.run(["tasks", "show", "softmax", "--input", "8x16"]) == 2
    assert "softmax has inputs of its own; --input is for file.py:Name" in capsys.readouterr().err
    assert _main.run(["tasks", "show", f"{mine}:double"]) == 2
    assert "--input" in capsys.readouterr().err
    mine.write_text("import torch\ndef double(x):\n    return x * 2\ndef inputs():\n    return torch.ones(8, 16)\n")
    assert _main.run(["tasks", "show", f"{mine}:double"]) == 0
    assert "given, timing: x=8x16:float32" in capsys.readouterr().out
