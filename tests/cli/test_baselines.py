"""`warpsmith baselines` with a fake torch: a line a case, what is kept is left, an interrupt loses nothing."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from warpsmith import evaluation
from warpsmith.cli._main import run
from warpsmith.evaluation import baselines as bench
from warpsmith.evaluation.timing import baseline_process as timing
from warpsmith.evaluation.timing.baseline_server import TorchReply, TorchRequest
from warpsmith.machines.hardware import Gpu

ARGV = ["baselines", "softmax", "--direction", "forward", "--baselines", "eager,compile,max-autotune", "-j", "2"]
TIMES_US = {"eager": 5.0, "compile": 4.0}


@dataclass
class Torch:
    """Baseline processes that answer from a table; at one case the user loses patience."""

    interrupted: str = ""
    broken: str = ""
    asked: list[TorchRequest] = field(default_factory=list)

    def time(self, request: TorchRequest) -> TorchReply:
        self.asked.append(request)
        if request.samples and request.case.name == self.interrupted:
            raise KeyboardInterrupt
        if request.mode not in TIMES_US or request.case.name == self.broken:
            return TorchReply(error="no such operator")
        times = (TIMES_US[request.mode],) * request.samples
        return TorchReply(idle_us=times, queued_us=times)

    is_alive = True

    def release_memory(self, within_s: float = 30.0) -> None: ...

    @contextmanager
    def hosted(self, _target: str, _compilers: int) -> Iterator["Torch"]:
        yield self


@pytest.fixture
def torch(home: Path, monkeypatch: pytest.MonkeyPatch) -> Torch:
    """A machine with a GPU, as far as this command can tell."""
    fake = Torch()
    gpu = Gpu(name="H200", driver="580", memory_mib=1, capability="9.0")
    for user in ("hardware", "cuda.machine"):
        monkeypatch.setattr(f"warpsmith.machines.{user}.gpus", lambda: (gpu,))
    for module in (bench, evaluation):  # the package keeps a member that was loaded before
        monkeypatch.setattr(module, "measure_flush_us", lambda: 400.0)
    monkeypatch.setattr(bench, "environment", lambda *_: Named())
    monkeypatch.setattr("warpsmith.evaluation.timing.BaselineProcess", fake.hosted)
    monkeypatch.setattr(timing, "_suite_host", lambda *_: fake)
    return fake


@dataclass
class Named:
    """Of an environment, what baselines are kept under."""

    hardware: str = "cuda:H200"
    torch: str = "2.11"


def test_a_line_a_case_and_a_second_time_they_are_left(torch: Torch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ARGV) == 0
    shown = capsys.readouterr().out.splitlines()
    compiled = [line for line in shown if line.startswith("compiled ")]
    timed = [line for line in shown if line not in compiled]
    assert len(compiled) == len(timed) == 6
    assert "max-autotune not yet: no such operator" in compiled[0]
    assert timed[0] == (
        "softmax forward mnist: eager 5.00, compile 4.00 µs; best compile; "
        "torch's max-autotune gave no time: no such operator"
    )
    torch.asked.clear()
    assert run(ARGV) == 0
    assert torch.asked == []
    assert capsys.readouterr().out.count("kept from earlier, --again measures it") == 6
    assert run([*ARGV, "--again"]) == 0
    assert len(torch.asked) == 6 * (2 + 3)  # two modes are compiled before, three are timed


def test_rows_for_a_program(torch: Torch, capsys: pytest.CaptureFixture[str]) -> None:
    torch.broken = "mnist"
    assert run([*ARGV, "--json"]) == 3
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 6
    assert rows[0]["baselines"] is None
    assert rows[0]["error"].startswith("No mode of torch runs softmax forward on case mnist")
    assert rows[1]["error"] == ""
    assert [one["mode"] for one in rows[1]["baselines"]["modes"]] == ["eager", "compile"]


def test_an_interrupt_keeps_what_is_done(torch: Torch, capsys: pytest.CaptureFixture[str]) -> None:
    eager = [*ARGV[:5], "eager", "-j", "1"]
    torch.interrupted = "gpt2-scores-8x12x1024-float16"  # the third
    assert run(eager) == 130
    assert capsys.readouterr().out.count("best eager") == 2
    torch.interrupted = ""
    assert run(eager) == 0
    shown = capsys.readouterr().out
    assert (shown.count("kept from earlier"), shown.count("best eager")) == (2, 6)


def test_a_mode_more_is_measured_beside_those_that_are_kept(torch: Torch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ARGV[:5], "eager"]) == 0
    torch.asked.clear()
    assert run([*ARGV[:5], "eager,compile"]) == 0
    assert {one.mode for one in torch.asked if one.samples} == {"compile"}
    assert capsys.readouterr().out.count("compile 4.00, eager 5.00 µs; best compile") == 6


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["softmacks"], 2, "Did you mean softmax"),
        (["softmax", "--baselines", "compiled"], 2, "Baseline compiled does not exist"),
        (["softmax"], 3, "this machine has none"),
    ],
)
def test_what_cannot_be_measured(
    argv: list[str], code: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("warpsmith.machines.hardware.gpus", lambda: ())
    assert run(["baselines", *argv]) == code
    assert words in capsys.readouterr().err
