"""`warpsmith tasks filter`: one task, a folder, a broken one among them, JSON, exit codes."""

import json
from pathlib import Path

import pytest

from warpsmith.cli import _main
from warpsmith.llm import Ensemble, ScriptedModel

BAD = Path(__file__).parents[1] / "bad_tasks"
SOUND = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x * 2)

def get_inputs():
    return [torch.randn(8, 16)]

def get_init_inputs():
    return []
"""


def ran(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = _main.run(["tasks", "filter", *argv])
    return code, capsys.readouterr().out


def test_a_suite_task_passes_with_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = ran(["layernorm"], capsys)
    assert code == 0
    assert "layernorm: pass" in text
    assert "output_range" in text
    assert "≥ 0.01" in text


def test_a_bad_task_fails_with_its_filter(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = ran([str(BAD / "own" / "ignored_parameter"), "--json"], capsys)
    row = json.loads(text)
    assert code == 1
    assert row["verdict"] == "fail"
    assert "parameter_impact" in row["failed"]
    assert row["report"]["origin"] == "suite"


def test_json_has_no_bare_nan(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = ran([str(BAD / "kernelbench" / "not_finite.py"), "--json"], capsys)
    assert code == 1
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_a_folder_gives_a_row_a_task_and_goes_on_past_a_broken_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "1_sound.py").write_text(SOUND)
    (tmp_path / "2_broken.py").write_text(SOUND.replace("x * 2", "x @ x"))
    (tmp_path / "3_copy.py").write_text(SOUND.replace("torch.tanh(x * 2)", "x + 1e-6 * x.sin()"))
    code, text = ran([str(tmp_path), "--json", "--jobs", "2"], capsys)
    rows = json.loads(text)
    assert code == 1
    assert [row["verdict"] for row in rows] == ["pass", "error", "fail"]
    assert "2_broken.py:6: RuntimeError" in rows[1]["error"]
    assert rows[2]["failed"] == ["constant_baseline"]


def test_a_folder_is_lines_and_a_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text(SOUND)
    (tmp_path / "b.py").write_text(SOUND.replace("x * 2", "x * 3"))
    code, text = ran([str(tmp_path)], capsys)
    assert code == 0
    assert [line.split()[:2] for line in text.splitlines()[:2]] == [["pass", "a"], ["pass", "b"]]
    assert text.splitlines()[2] == "2 tasks: 2 pass, 0 fail, 0 error, 0 fault"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["no_such_task"], "does not exist"),
        (["./nowhere"], "does not exist"),
        (["layernorm", "--jobs", "0"], "--jobs"),
        (["layernorm", "--input", "3xq"], "cannot be read"),
    ],
)
def test_usage(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main.run(["tasks", "filter", *argv]) == 2
    assert said in capsys.readouterr().err


def test_one_broken_task_is_an_error_of_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sleeps.py"
    path.write_text(SOUND.replace("    return [torch", "    import time; time.sleep(3600)\n    return [torch"))
    assert _main.run(["tasks", "filter", str(path), "--seconds", "2"]) == 2
    said = capsys.readouterr().err
    assert "sleeps.py:9" in said
    assert "longer than 2 s" in said


def test_a_module_with_shapes_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import torch\n\ndef gate(x, y):\n    return torch.sigmoid(x) * y\n")
    code, text = ran([f"{path}:gate", "--input", "8x16:float32", "--input", "8x16:float32", "--json"], capsys)
    assert code == 0
    assert json.loads(text)["report"]["origin"] == "module"


@pytest.mark.parametrize(("confidence", "code"), [(0.9, 1), (0.2, 0)])
def test_a_model_has_an_opinion(
    confidence: float, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = json.dumps({"sound": False, "confidence": confidence, "detail": "nobody needs it"})
    model = ScriptedModel([said], "critic")
    monkeypatch.setattr("warpsmith.llm.open_ensemble", lambda _text: Ensemble([model]))
    left, out = ran(["swiglu", "--models", "x:y", "--json"], capsys)
    (found,) = [one for one in json.loads(out)["report"]["results"] if one["filter"] == "opinion"]
    assert left == code
    assert (found["value"], found["detail"]) == (confidence, "nobody needs it")


def test_a_model_that_cannot_be_asked_is_no_objection(capsys: pytest.CaptureFixture[str]) -> None:
    model = "openai-compatible:m,base_url=http://127.0.0.1:9,attempts=1"
    left, out = ran(["swiglu", "--models", model, "--json"], capsys)
    skipped = {one["filter"]: one["reason"] for one in json.loads(out)["report"]["skipped"]}
    assert left == 0
    assert "cannot be reached" in skipped["opinion"]
