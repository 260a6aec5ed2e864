"""How commands print."""

import shlex
from pathlib import Path

import pytest

from warpsmith.cli._output import coloured, console, print_table, shell_line


def test_brackets_are_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("x is [batch, seq] in smem[tid], see [/tmp/x]")
    print_table(("what",), [("sum[lane]",), (coloured(("[fail]", "red"), " at [/]"),)])
    shown = capsys.readouterr().out
    assert "[batch, seq] in smem[tid], see [/tmp/x]" in shown
    assert "sum[lane]" in shown and "[fail] at [/]" in shown


def test_a_line_for_a_shell_is_taken_apart_into_the_same_words() -> None:
    words = ["warpsmith", "tell", "a run", Path("it's here"), "$HOME"]
    assert shlex.split(shell_line(*words)) == [str(word) for word in words]
