"""`warpsmith compile`: exit codes, the text for a person, JSON for a program; flags that a text asks for."""

import json
from pathlib import Path

import pytest
from tests.languages.nvcc.conftest import KERNELS, built, function

from warpsmith.cli._main import run
from warpsmith.languages.nvcc.options import EXTENDED_LAMBDA
from warpsmith.records import CompileFacts

PLAIN = '#include <cuda_runtime.h>\nextern "C" int {}(cudaStream_t) {{ return 0; }}\n'


def write(folder: Path, name: str, text: str | bytes) -> str:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def test_a_kernel_that_compiles(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", str(KERNELS / "plain.cu")]) == 0
    said = capsys.readouterr().out
    assert "pass" in said and "registers" in said and "_Z5scalePKfS0_Pflf" in said and "artifact" in said


def test_json_is_the_stage_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", write(tmp_path, "k.cu", PLAIN.format("forward") + "int x = lost;"), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["reason"] == "compile_error" and result["facts"]["findings"][0]["place"]["line"] == 3


def test_a_truncated_kernel_is_an_error_of_its_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", write(tmp_path, "k.cu", "torch::Tensor forward(torch::Tensor x) { return")]) == 1
    said = capsys.readouterr().out
    assert "compile_error" in said and "expected an expression at the end of the source" in said


def test_the_direction_comes_from_the_name_or_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backward = write(tmp_path, "seed_backward.cu", PLAIN.format("backward"))
    assert run(["compile", backward]) == 0
    assert run(["compile", backward, "--direction", "forward"]) == 1
    assert "no_entry" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["compile"], ["eval", "softmax", "--device", "vgpu"]])
@pytest.mark.parametrize(
    ("raw", "code", "says"),
    [
        (b"", 1, "bad_source"),
        (b"int\0x;", 1, "bad_source"),
        (b"\xff\xfe", 2, "UTF-8"),
        (b"a" * 10_000_000, 2, "1048576"),
    ],
)
def test_a_file_that_is_no_source(
    tmp_path: Path, words: list[str], raw: bytes, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, write(tmp_path, "k.cu", raw)]) == code
    said = capsys.readouterr()
    assert says in said.out + said.err


def test_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = write(tmp_path, "k.cu", PLAIN.format("forward"))
    assert run(["compile", str(tmp_path / "absent.cu")]) == 2
    assert run(["compile", kernel, "-D", "BLOCK"]) == 2
    assert run(["compile", kernel, "--arch", "volta"]) == 2
    assert run(["compile", kernel, "--arch", "sm_12"]) == 2
    assert run(["compile", kernel, "--task", "no_such_task"]) == 2
    assert "no_such_task" in capsys.readouterr().err


@pytest.mark.usefixtures("without_nvcc")
def test_no_compiler_is_the_machines_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", str(KERNELS / "plain.cu")]) == 3
    assert "/nowhere" in capsys.readouterr().err


def test_a_task_holds_the_signature(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", str(KERNELS / "habits.cu"), "--task", "softmax"]) == 1
    assert "wrong_signature" in capsys.readouterr().out


EACH = """template <class F> __global__ void each(float* x, F f) { x[threadIdx.x] = f(x[threadIdx.x]); }
"""


@pytest.mark.parametrize(
    ("before", "head", "flagged"),
    [
        pytest.param("", "[] __device__ (float v) { return 2.0f * v; }", True, id="device"),
        pytest.param("#define ON_GPU __device__\n", "[] ON_GPU (float v) { return 2.0f * v; }", True, id="by a macro"),
        pytest.param(
            "struct Twice { __device__ float operator()(float v) const { return 2.0f * v; } };\n",
            "Twice()",
            False,
            id="none",
        ),
    ],
)
def test_lambdas_for_the_device_have_the_flag_they_need(before: str, head: str, flagged: bool) -> None:
    made = built(function(f"each<<<1, 32>>>(x.data_ptr<float>(), {head});", EACH + before))
    assert made.ok, made.result.detail
    facts = made.result.facts
    assert isinstance(facts, CompileFacts) and (EXTENDED_LAMBDA in facts.command) is flagged
