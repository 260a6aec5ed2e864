"""How commands print."""

import pytest

from warpsmith.cli._output import coloured, console, print_table


def test_brackets_are_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("x is [batch, seq] in smem[tid], see [/tmp/x]")
    print_table(("what",), [("sum[lane]",), (coloured(("[fail]", "red"), " at [/]"),)])
    shown = capsys.readouterr().out
    assert "[batch, seq] in smem[tid], see [/tmp/x]" in shown
    assert "sum[lane]" in shown and "[fail] at [/]" in shown
