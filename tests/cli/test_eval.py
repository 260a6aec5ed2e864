"""`warpsmith eval` from the text of a kernel to its exit code, and from Python."""

import json
from pathlib import Path

import pytest

import warpsmith
from warpsmith.cli._main import run
from warpsmith.cli.eval import _print_compiled
from warpsmith.records import MODES, CheckFacts, CompileFacts, KernelResources, Record, TimingFacts, Verdict

SUITE = Path(warpsmith.__file__).parent / "tasks" / "suite"
SEED = SUITE / "swiglu" / "seed_forward.cu"


def test_a_seed_passes_and_shows_its_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "swiglu", str(SEED), "--device", "vgpu"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("PASS  seed_forward.cu for swiglu, forward")
    assert "check: pass" in shown and "calls on 10 cases were right" in shown
    assert "modelled time" in shown and "not measured" in shown and "smoke-float32" in shown


def test_a_record_can_be_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "swiglu", str(SEED), "--device", "vgpu", "--json"]) == 0
    record = Record.parse(capsys.readouterr().out)
    assert [result.stage for result in record.results] == ["static", "compile", "check", "timing"]
    assert record.options.seeds[0] > 0 and record.options.device == "vgpu"
    assert record.environment.hardware == "vgpu:H200" and record.environment.confined.at_floor
    assert record.environment.toolchain and record.environment.torch and record.environment.package
    timing = record.results[-1].facts
    assert isinstance(timing, TimingFacts) and all(case.time.kind == "modelled" for case in timing.cases)


def test_a_wrong_kernel_fails_with_evidence_that_can_be_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "linear_gate.cu"
    text = SEED.read_text()
    assert "g / (1.0f + expf(-g))" in text
    kernel.write_text(text.replace("g / (1.0f + expf(-g))", "g * 0.5f"))
    assert run(["eval", "swiglu", str(kernel), "--device", "vgpu", "--json"]) == 1
    record = Record.parse(capsys.readouterr().out)
    result = record.results[-1]
    assert result.stage == "check" and result.reason == "wrong_value" and "expected" in result.detail
    assert isinstance(result.facts, CheckFacts) and result.facts.failed is not None
    assert run(["eval", "swiglu", str(kernel), "--device", "vgpu"]) == 1
    shown = capsys.readouterr().out
    assert "FAIL" in shown and "elements are wrong" in shown and "failed at" in shown


def test_a_finding_is_shown_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tmp_path / "past.cu"
    kernel.write_text(SEED.read_text().replace("rest < count", "rest <= count"))
    assert run(["eval", "swiglu", str(kernel), "--device", "vgpu"]) == 1
    shown = capsys.readouterr().out
    assert "check: fail (findings)" in shown and "kernel.cu:" in shown and "out_of_bounds" in shown


def test_a_kernel_that_does_not_compile_is_shown_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "bad.cu"
    kernel.write_text("#include <torch/extension.h>\ntorch::Tensor forward(torch::Tensor x) { return y; }\n")
    assert run(["eval", "swiglu", str(kernel), "--device", "vgpu"]) == 1
    assert "kernel.cu:2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["nonsense", str(SEED)], 2, "nonsense"),
        (["swiglu", "absent.cu"], 2, "does not exist"),
        (["swiglu", str(SEED), "--device", "tpu"], 2, "Device tpu"),
        (["swiglu", str(SEED), "--cases", "all"], 2, "all"),
        (["swiglu", str(SEED), "--device", "vgpu", "-D", "X"], 2, "NAME=VALUE"),
        (["swiglu", str(SEED), "--device", "vgpu", "--gpu", "H2000"], 2, "is not described"),
    ],
)
def test_what_cannot_be_used_is_said(
    words: list[str], code: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", *words]) == code
    assert complaint in capsys.readouterr().err


def test_cuda_without_a_gpu_is_the_machine_s_lack(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("warpsmith.evaluation.config.gpus", tuple)
    assert run(["eval", "swiglu", str(SEED), "--device", "cuda", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "machine"


def test_the_same_from_python() -> None:
    from warpsmith.evaluation import EvaluationConfig

    record = warpsmith.evaluate("swiglu", SEED.read_text(), config=EvaluationConfig(device="vgpu"))
    assert record.verdict is Verdict.PASS
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        warpsmith.optimise  # noqa: B018


def test_what_the_compiler_says_costs_speed_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    facts = CompileFacts(kernels=(KernelResources(name="_Z1kPf", registers=255, spill_store_bytes=8),))
    _print_compiled(facts, failed=False)
    assert capsys.readouterr().out == "    spilled: k 8 bytes\n"
    _print_compiled(CompileFacts(), failed=False)
    assert capsys.readouterr().out == ""


def test_what_needs_a_clock_is_said_to_change_nothing_without_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text("")
    words = ["eval", "softmax", str(tmp_path / "k.cu"), "--device", "vgpu", "--no-archive"]
    assert run([*words, "--warm", "--baselines", "eager"]) == 1
    assert "nothing comes of --warm and --baselines" in capsys.readouterr().err
    assert run([*words, "--claim"]) == 1 and not capsys.readouterr().err, "a thorough evaluation needs no clock"


def test_a_mode_of_torch_that_is_not_there_has_all_others_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "softmax", "k.cu", "--baselines", "cmpile"]) == 2
    said = capsys.readouterr().err
    assert all(mode in said for mode in MODES)
