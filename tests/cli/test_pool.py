"""`warpsmith pool`, and commands that evaluate in the pool."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import warpsmith
from warpsmith.cli._main import run
from warpsmith.pool import PoolStatus, stop_pool

SEED = Path(warpsmith.__file__).parent / "tasks" / "suite" / "softmax" / "seed_forward.cu"


@pytest.fixture(autouse=True)
def run_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of sockets that no other test uses, with a path shorter than 108 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield
        stop_pool()


def test_without_a_pool_status_has_exit_code_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pool", "status"]) == 4
    assert capsys.readouterr().out == "No pool runs. `warpsmith pool start` starts one.\n"
    assert run(["pool", "status", "--json"]) == 4
    found = json.loads(capsys.readouterr().out)
    assert (found["is_running"], found["status"]) == (False, None)
    assert run(["pool", "stop"]) == 0


def test_a_pool_is_started_used_and_stopped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, archive_url: str, tmp_path: Path
) -> None:
    monkeypatch.delenv("WARPSMITH_POOL")
    assert run(["pool", "start", "--evaluators", "1", "--idle-minutes", "5"]) == 0
    shown = capsys.readouterr().out
    assert "evaluators:  1, 0 busy; 0 requests waiting" in shown and "it ends after 5 idle minutes" in shown
    assert run(["pool", "start", "--evaluators", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"]["evaluators"] == 1, "the pool that runs"

    batch = tmp_path / "batch.jsonl"
    batch.write_text(json.dumps({"task": "softmax", "direction": "forward", "source": SEED.read_text()}) + "\n")
    words = ["eval-batch", str(batch), "--device", "vgpu", "--until", "compile"]
    assert run(words) == 0
    line = json.loads(capsys.readouterr().out)
    assert [one["verdict"] for one in line["results"]] == ["pass", "pass"]
    assert run([*words, "--no-pool"]) == 0
    capsys.readouterr()
    assert run(["eval", "nothing", str(SEED)]) == 2, "a usage error of the pool is one of the command"

    capsys.readouterr()
    assert run(["pool", "stop", "--json"]) == 0
    last = PoolStatus.model_validate(json.loads(capsys.readouterr().out)["status"])
    assert (last.done, last.faults) == (1, 0)
    assert run(["pool", "status"]) == 4


def test_a_pool_with_other_variables_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["pool", "start", "--evaluators", "1"]) == 0
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/elsewhere")
    capsys.readouterr()
    assert run(["pool", "status"]) == 0
    assert "not used:    it was started with other environment variables" in capsys.readouterr().out
    assert run(["pool", "start"]) == 3
    assert "`warpsmith pool stop` ends it." in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--evaluators", "0"], ["--idle-minutes", "0"], ["--evaluators", "many"]])
def test_wrong_options_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pool", "start", *words]) == 2
    assert words[0] in capsys.readouterr().err
