"""SIGKILL at random moments, then on again: nothing finished is lost, nothing is done twice, the same best is found."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from warpsmith.archive import Archive, RunState

PROGRAM = Path(__file__).parent / "killed.py"


def begin(url: str, name: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(PROGRAM), url, name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run_whole(url: str, name: str) -> list[str]:
    child = begin(url, name)
    shown, _ = child.communicate(timeout=120)
    assert child.returncode == 0 and shown.endswith("done\n")
    return shown.split()[:-1]


def killed(url: str, name: str, wait_s: float) -> list[str]:
    """What a run said it had kept when it was killed some time after its first record."""
    child = begin(url, name)
    assert child.stdout is not None
    first = child.stdout.readline()
    time.sleep(wait_s)
    child.kill()
    shown = first + child.stdout.read()  # not by communicate: it passes over what readline has fetched
    child.communicate(timeout=60)
    return [line for line in shown[: shown.rfind("\n") + 1].split() if line != "done"]


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_as_if_nothing_had_happened(kills: int, tmp_path: Path) -> None:
    draw = random.Random(kills)
    whole, broken = (f"sqlite:///{tmp_path / name}.sqlite" for name in ("whole", "broken"))
    said = set(run_whole(whole, "r"))
    kept: list[str] = []
    for _ in range(kills):
        kept += killed(broken, "r", draw.uniform(0.0, 0.8 / kills))
    kept += run_whole(broken, "r")
    with Archive.open(whole) as expected, Archive.open(broken) as found:
        assert found.run("r").state is RunState.DONE
        entries = list(found.records("r"))
        assert set(kept) <= {entry.candidate for entry in entries}  # none that was kept is lost
        assert {entry.candidate for entry in entries} == said  # and none is made up
        assert len(entries) == len(said)  # none twice
        assert len({entry.tags.proposal for entry in entries}) == len(entries)
        best, same = found.best("r"), expected.best("r")
        assert best is not None and same is not None and best.candidate == same.candidate
