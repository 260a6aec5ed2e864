"""`warpsmith eval-batch`: lines in, lines out, and a judge that is killed leaves neither orphans nor half lines."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import warpsmith
from warpsmith.cli._main import run
from warpsmith.records import Record, Verdict

SUITE = Path(warpsmith.__file__).parent / "tasks" / "suite"
DEEDS = Path(__file__).parents[1] / "evaluation" / "stages" / "deeds.cu"
PATIENCE_S = 120.0


def line(deed: int) -> str:
    return json.dumps({"task": "max_pool", "path": str(DEEDS), "macros": {"DEED": str(deed)}})


def test_every_line_has_a_line_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch = tmp_path / "b.jsonl"
    batch.write_text("\n".join([line(0), "nonsense", line(1)]) + "\n")
    assert run(["eval-batch", str(batch), "--device", "vgpu", "--jobs", "2", "--allow-outside"]) == 1, "a line"
    first, second, third = capsys.readouterr().out.splitlines()
    assert Record.parse(first).verdict is Verdict.PASS
    assert json.loads(second)["line"] == 2
    assert Record.parse(third).verdict is Verdict.FAIL


def test_a_folder_of_kernels_is_a_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for task, text in (("max_pool", (SUITE / "max_pool" / "seed_forward.cu").read_text()), ("softmax", "int x = ;")):
        (tmp_path / "kernels" / task).mkdir(parents=True)
        (tmp_path / "kernels" / task / "forward.cu").write_text(text)
    out, words = tmp_path / "r.jsonl", ["eval-batch", str(tmp_path / "kernels"), "--device", "vgpu", "--cases", "smoke"]
    assert run([*words, "--out", str(out)]) == 0
    found = [Record.parse(line) for line in out.read_text().splitlines()]
    assert [(one.candidate.task, one.verdict) for one in found] == [
        ("max_pool", Verdict.PASS),
        ("softmax", Verdict.FAIL),
    ]
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["1 of 2: max_pool forward pass", "2 of 2: softmax forward fail (compile_error)"]
    assert run([*words, "--out", str(out)]) == 0 and len(out.read_text().splitlines()) == 2, "nothing is left to do"
    assert capsys.readouterr().out == "2 of 2 were there already\n"
    assert run([*words, "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"out": str(out), "lines": 2, "there": 2, "unusable": 0}


def test_a_batch_without_lines_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "b.jsonl").write_text("\n")
    assert run(["eval-batch", str(tmp_path / "b.jsonl"), "--device", "vgpu"]) == 0
    said = capsys.readouterr()
    assert said.out == "" and "b.jsonl has no candidates" in said.err


def test_results_that_cannot_be_written_are_told_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.jsonl").write_text(line(0))
    assert run(["eval-batch", str(tmp_path / "b.jsonl"), "--device", "vgpu", "--out", "/proc/r.jsonl"]) == 2
    assert "/proc/r.jsonl cannot be written" in capsys.readouterr().err


def test_a_folder_without_kernels_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "softmax").mkdir()
    (tmp_path / "softmax" / "helper.cu").write_text("")
    assert run(["eval-batch", str(tmp_path)]) == 2
    assert "none is named TASK/forward.cu" in capsys.readouterr().err


def test_a_kernel_of_no_task_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "stray").mkdir()
    (tmp_path / "stray" / "forward.cu").write_text("")
    assert run(["eval-batch", str(tmp_path), "--device", "vgpu", "--out", str(tmp_path / "r.jsonl")]) == 1
    assert "lies in no folder named after a task" in " ".join(capsys.readouterr().out.split())
    assert "stray/forward.cu" in json.loads((tmp_path / "r.jsonl").read_text())["error"]


def descendants(pid: int) -> set[int]:
    """Every process that the process started, and those that they did."""
    parents = dict(_parents())
    found, grown = {pid}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in found} - found
        found, grown = found | more, bool(more)
    return found - {pid}


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                yield int(entry.name), int(fields[1])


def wait_for(condition: object, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_a_killed_judge_leaves_nothing_and_goes_on(tmp_path: Path) -> None:
    batch, out = tmp_path / "b.jsonl", tmp_path / "r.jsonl"
    batch.write_text("\n".join([line(0), line(2), line(0)]) + "\n")  # the second hangs
    command = [
        sys.executable,
        "-m",
        "warpsmith",
        "eval-batch",
        str(batch),
        "--device",
        "vgpu",
        "--jobs",
        "1",
        "--allow-outside",
    ]
    judge = subprocess.Popen([*command, "--out", str(out)], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: out.exists() and out.read_text().count("\n") == 1, "the first line")
        wait_for(lambda: len(descendants(judge.pid)) >= 4, "a worker and an executor of the second")
        time.sleep(1.0)
        children = descendants(judge.pid)
    finally:
        os.kill(judge.pid, signal.SIGKILL)
        judge.wait()
    wait_for(lambda: not children & dict(_parents()).keys(), "the end of every child")
    (first,) = out.read_text().splitlines()
    assert Record.parse(first).verdict is Verdict.PASS
    batch.write_text("\n".join([line(0), line(2), line(0)][:1]) + "\n")
    assert run(["eval-batch", str(batch), "--device", "vgpu", "--allow-outside", "--out", str(out)]) == 0
    assert out.read_text().splitlines() == [first]
