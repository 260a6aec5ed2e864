"""`warpsmith run-virtual` from the text of a kernel to its exit code."""

import json
from pathlib import Path

import pytest

import warpsmith
from warpsmith.cli._main import run
from warpsmith.evaluation.profile.words import plain_name

SEED = Path(warpsmith.__file__).parent / "tasks" / "suite" / "swiglu" / "seed_forward.cu"


def test_a_seed_passes_and_says_how_long_it_would_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run-virtual", str(SEED), "--task", "swiglu", "--case", "smoke-float32"]) == 0
    shown = capsys.readouterr().out
    assert "virtual on smoke-float32: pass" in shown
    assert "modelled time of the call on H200" in shown


@pytest.mark.parametrize("name", ["seed_forward.plain.cu", "seed_backward.cu"])
def test_the_style_and_the_direction_are_told_by_the_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run-virtual", str(SEED.with_name(name)), "--task", "swiglu", "--case", "smoke-float32"]) == 0
    assert f"{name}: virtual on smoke-float32: pass" in capsys.readouterr().out


def test_a_kernel_that_changes_its_argument_fails_as_in_an_evaluation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "changes.cu"
    text = SEED.with_name("seed_forward.plain.cu").read_text()
    assert "cudaGetLastError()" in text
    kernel.write_text(text.replace("cudaGetLastError()", "cudaMemsetAsync(data<char>(gate), 0, 4, stream)"))
    assert run(["run-virtual", str(kernel), "--task", "swiglu", "--case", "smoke-float32", "--json"]) == 1
    _, virtual = json.loads(capsys.readouterr().out)
    assert virtual["reason"] == "input_changed"


def test_a_kernel_that_leaves_the_tail_out_fails_with_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "short.cu"
    assert "first < packs" in SEED.read_text()
    kernel.write_text(SEED.read_text().replace("first < packs", "first < packs - 1"))
    assert run(["run-virtual", str(kernel), "--task", "swiglu", "--case", "smoke-float32", "--json"]) == 1
    compiled, virtual = json.loads(capsys.readouterr().out)
    assert compiled["verdict"] == "pass"
    assert virtual["verdict"] == "fail" and virtual["reason"] == "unwritten"
    assert virtual["facts"]["kernels"][0]["thread_instructions"] > 0


def test_a_kernel_that_does_not_compile_never_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tmp_path / "bad.cu"
    kernel.write_text("#include <torch/extension.h>\ntorch::Tensor forward(torch::Tensor x) { return y; }\n")
    assert run(["run-virtual", str(kernel), "--task", "swiglu", "--json"]) == 1
    (compiled,) = json.loads(capsys.readouterr().out)
    assert compiled["stage"] == "compile" and compiled["verdict"] == "fail"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--task", "swiglu", "--case", "smok"], "no case smok"),
        (["--task", "swiglu", "--gpu", "H2000"], "is not described"),
        (["--task", "no-such-task"], "no-such-task"),
    ],
)
def test_what_cannot_be_used_is_a_usage_error(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run-virtual", str(SEED), *words]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        ("_Z4bumpPfi", "bump"),
        ("_ZN41_GLOBAL__N__ec6cfca1_9_kernel_cu_69c2a8779layernormIfEEvPKT_S3_S3_PS1_lf", "layernorm"),
        ("plain_c_name", "plain_c_name"),
    ],
)
def test_kernels_are_shown_by_their_own_names(mangled: str, plain: str) -> None:
    assert plain_name(mangled) == plain
