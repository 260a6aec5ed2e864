"""One writer a run: searches, questions and answers in processes of their own. The evaluator is a fake that is slow."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import warpsmith
from warpsmith.archive import Archive, RunState
from warpsmith.cli._main import run

PROGRAM = Path(__file__).parent / "searching.py"
SEED = Path(warpsmith.__file__).parent / "tasks" / "suite" / "swiglu" / "seed_forward.cu"
OPTIMIZE = ["optimize", "swiglu", "--device", "vgpu", "--run", "mine"]
RESUME = ["optimize", "--run", "mine", "--resume"]


def begin(seconds: float, *words: str) -> "subprocess.Popen[str]":
    """A command in a process of its own, whose evaluations take so long."""
    command = [sys.executable, str(PROGRAM), str(seconds), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy())


@contextmanager
def at_work(archive_url: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """A command that is at its evaluations for the whole block."""
    child = begin(30, *words)
    try:
        with Archive.open(archive_url) as archive:
            while not archive.is_held("mine"):
                assert child.poll() is None, child.communicate()[1]
        yield child
    finally:
        child.kill()
        child.communicate(timeout=60)


def refused(pid: int, capsys: pytest.CaptureFixture[str], *words: str) -> bool:
    """Whether a command is usage, with who holds the run and the way out."""
    code, said = run(list(words)), capsys.readouterr().err
    return code == 2 and f"process {pid} on" in said and f"`kill {pid}`" in said


def test_a_search_is_gone_on_with_by_one_process(
    archive_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = str(tmp_path / "letters")
    with at_work(archive_url, *OPTIMIZE) as child:
        for words in (RESUME, ["tell", "mine"], ["ask", "mine", "--out", letters], OPTIMIZE):
            assert refused(child.pid, capsys, *words), words
        assert run(["runs"]) == run(["show", "mine"]) == 0
        assert run(["report", "mine"]) == run(["best", "mine"]) == 4, "it is read, and has no kernel yet"
        assert capsys.readouterr().out.count("  running") == 2
    assert run(["runs"]) == 0
    assert "not finished" in capsys.readouterr().out
    again = begin(0, *RESUME)
    assert again.communicate(timeout=60)[1] == "" and again.returncode == 0
    with Archive.open(archive_url) as archive:
        assert archive.run("mine").state is RunState.DONE
        slots = [entry.tags.proposal for entry in archive.records("mine")]
        assert len(slots) == len(set(slots))


def test_answers_are_taken_by_one_process(archive_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    letters = tmp_path / "letters"
    ask = ["ask", "mine", "--task", "swiglu", "--device", "vgpu", "-n", "1", "--out", str(letters)]
    assert begin(0, *ask).communicate(timeout=60)[1] == ""
    (letters / "1.0.answer.md").write_text(
        f"Name: n\n\n```cuda\n{SEED.read_text()}\nint other() {{ return 1; }}\n```\n"
    )
    with at_work(archive_url, "tell", "mine", str(letters)) as child:
        for words in (RESUME, ["tell", "mine", str(letters)], ["tell", "mine", "--drop"], ask):
            assert refused(child.pid, capsys, *words), words
        assert run(["runs"]) == 0 and "  running" in capsys.readouterr().out
    assert run(["runs"]) == 0 and "waiting for answers" in capsys.readouterr().out
    again = begin(0, "tell", "mine", str(letters))
    assert "1.0 " in again.communicate(timeout=60)[0] and again.returncode == 0


def test_of_two_that_begin_a_run_at_once_one_does(archive_url: str, tmp_path: Path) -> None:
    words = ["ask", "mine", "--task", "swiglu", "--device", "vgpu", "-n", "2", "--out", str(tmp_path / "letters")]
    both = [begin(4, *words) for _ in range(2)]
    said = [one.communicate(timeout=60)[1] for one in both]
    assert sorted(one.returncode for one in both) == [0, 2], said
    with Archive.open(archive_url) as archive:
        assert archive.count("mine") == 1


def test_searches_of_one_task_that_begin_together_get_names_of_their_own(archive_url: str) -> None:
    both = [begin(0, *OPTIMIZE[:-2], "--generations", "1") for _ in range(2)]
    said = [one.communicate(timeout=60)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    with Archive.open(archive_url) as archive:
        assert len(archive.runs()) == 2
