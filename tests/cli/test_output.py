"""How commands print."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from warpsmith.base.text import shell_line
from warpsmith.cli._output import coloured, console, print_error, print_table


def test_brackets_are_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("x is [batch, seq] in smem[tid], see [/tmp/x]")
    print_table(("what",), [("sum[lane]",), (coloured(("[fail]", "red"), " at [/]"),)])
    shown = capsys.readouterr().out
    assert "[batch, seq] in smem[tid], see [/tmp/x]" in shown
    assert "sum[lane]" in shown and "[fail] at [/]" in shown


def test_a_line_for_a_shell_is_taken_apart_into_the_same_words() -> None:
    words = ["warpsmith", "tell", "a run", Path("it's here"), "$HOME"]
    assert shlex.split(shell_line(*words)) == [str(word) for word in words]


def test_a_terminal_that_is_too_narrow_cuts_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    name, score = "layernorm-forward-20261118-074623", "117.52 µs modelled"
    for columns, lines in ((60, 1), (40, 2)):
        print_table(("run", "best"), [(name, score)], out=console(columns))
        shown = [line for line in capsys.readouterr().out.splitlines() if name in line or score in line]
        assert len(shown) == lines


def test_a_disk_that_is_full_keeps_the_exit_code() -> None:
    for words, code in (("show absent --json", 2), ("tasks list --json", 3), ("tasks list", 3)):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run([sys.executable, "-m", "warpsmith", *words.split()], stdout=full, stderr=PIPE)
        assert done.returncode == code and done.stderr.startswith(b"error: ") and done.stderr.count(b"\n") == 1


def test_a_pipe_gets_utf_8_whatever_the_locale_is() -> None:
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-m", "warpsmith", "tasks", "show", "rope"], env=env, capture_output=True)
    assert done.returncode == 0 and "2π" in done.stdout.decode()


def test_what_a_kernel_says_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """A title is set, the screen is cleared and a line is written backwards by text alone."""
    said = "a\x1b]0;owned\x07b\x1b[2Jc\x9b1Ad\u202ee\r"
    console().print(said)
    console().print(coloured((said, "red")))
    print_table(("what",), [(said,)])
    print_error("usage", said, 2, as_json=False)
    shown = capsys.readouterr()
    for sign in "\x1b\x07\x9b\u202e\r":
        assert sign not in shown.out + shown.err
    assert shown.out.count("]0;owned") == 3 and "]0;owned" in shown.err
