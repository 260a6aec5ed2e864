"""Everything the headers promise compiles: the sweep files, each header alone, and options that change the flags."""

from pathlib import Path

import pytest
from tests.languages.nvcc.conftest import built, candidate, function, kernel

from warpsmith.base import UsageError
from warpsmith.languages.nvcc import HEADERS, CompileOptions, compile, compile_many
from warpsmith.languages.nvcc.artifact import Elf
from warpsmith.records import CompileFacts, Language, Precision, Verdict

FOREIGN = [
    path.relative_to(HEADERS)
    for path in HEADERS.rglob("*")
    if path.is_file() and path.parts[len(HEADERS.parts)] in ("torch", "ATen", "c10", "pybind11")
]


@pytest.mark.parametrize("name", ["sweep_device.cu", "sweep_hardware.cu", "sweep_cub.cu", "habits.cu"])
def test_sweep_files_compile(name: str) -> None:
    made = compile(kernel(name))
    assert made.ok, made.result.text()
    assert [entry.name for entry in made.entries if entry.name == "forward"] == ["forward"]


def test_every_header_can_come_first_and_together() -> None:
    assert len(FOREIGN) > 50
    includes = "\n".join(f"#include <{path}>" for path in sorted(FOREIGN))
    made = built(includes + "\n" + function("return x;"))
    assert made.ok, made.result.detail


def test_the_artifact_runs_on_either_device() -> None:
    """The shared runtime by soname, nothing of libtorch or Python, and PTX beside SASS as plain text."""
    made = compile(kernel("habits.cu"))
    assert made.artifact is not None
    raw = made.artifact.read_bytes()
    assert "libcudart.so.13" in Elf(raw).needed or any(name.startswith("libcudart.so") for name in Elf(raw).needed)
    assert not any(word in name for name in Elf(raw).needed for word in ("torch", "python", "libcuda.so"))
    assert b".visible .entry" in raw and b".target sm_90a" in raw


def test_resources_of_each_kernel() -> None:
    facts = compile(kernel("habits.cu")).result.facts
    assert isinstance(facts, CompileFacts)
    own = [row for row in facts.kernels if "reduce" in row.name]
    assert len(own) == 3 and all(row.registers > 8 and row.barriers == 1 for row in own)
    assert facts.arch == "sm_90a" and facts.toolchain.startswith("nvcc ") and "-Xptxas=-v,-O3" in facts.command


def test_a_kernel_that_moves_no_data_carries_no_mover() -> None:
    before = "__global__ void k(float* x) { x[0] = 1; }"
    made = built(function("k<<<1, 1>>>(x.data_ptr<float>());", before=before))
    assert isinstance(made.result.facts, CompileFacts)
    assert [row.name for row in made.result.facts.kernels] == ["_Z1kPf"]


def test_sixteen_bits_need_none_of_cudas_headers() -> None:
    """Unless the source names what is in them; then they are there without an include, as torch's headers have them."""
    dispatch = (
        'AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "k",'
        "[&] { k<scalar_t><<<1, 1>>>(x.data_ptr<scalar_t>()); });"
    )
    before = "template <class T> __global__ void k(T* x) { x[0] = x[1] * T(2) + T(float(x[2]) * 0.5f); }"
    named = "__global__ void h(const __half* x, __nv_bfloat16* y) { *y = __float2bfloat16(__half2float(*x)); }"
    lean, full = built(function(dispatch, before=before)), built(function(dispatch, before=before + named))
    assert lean.ok and full.ok, lean.result.detail + full.result.detail
    assert b"cvt.rn.bf16.f32" in (lean.artifact or Path()).read_bytes()


def test_macros_reach_the_source() -> None:
    source = function('static_assert(BLOCK == 128 && UNROLL == 4, "tuned");')
    assert compile(candidate(source, BLOCK="128", UNROLL="4")).ok
    assert compile(candidate(source, BLOCK="64", UNROLL="4")).result.verdict is Verdict.FAIL


def test_a_macro_does_not_reach_our_headers() -> None:
    source = function("auto y = torch::ones({T, N}, x.options()).contiguous();")
    made = compile(candidate(source, T="4", N="8", A="1", x_count="2"))
    assert made.ok, made.result.detail


def test_another_architecture_and_fast_math() -> None:
    before = "__global__ void k(float* x) { x[0] = sinf(x[0]) / x[1]; }"
    source = function("k<<<1, 1>>>(x.data_ptr<float>());", before=before)
    options = CompileOptions(arch="sm_80", fast_math=True)
    made, precise = built(source, options=options), built(source)
    assert made.artifact is not None and precise.artifact is not None
    assert b"sin.approx" in made.artifact.read_bytes() and b"sin.approx" not in precise.artifact.read_bytes()
    assert b".target sm_80" in made.artifact.read_bytes()
    assert Precision().fast_math is False


@pytest.mark.parametrize("arch", ["90a", "sm_9", "compute_90", "sm_90; id"])
def test_an_architecture_that_is_none(arch: str) -> None:
    with pytest.raises(UsageError, match="sm_90a"):
        CompileOptions(arch=arch)


def test_many_at_once_keep_their_order_and_their_faults() -> None:
    sources = [function(f"TORCH_CHECK(x.dim() == {i});") for i in range(3)]
    sources.insert(1, function("x.sum();"))
    made = compile_many([candidate(source) for source in sources], workers=2)
    assert [one.result.verdict for one in made] == [Verdict.PASS, Verdict.FAIL, Verdict.PASS, Verdict.PASS]


def test_plain_style_needs_no_torch_header() -> None:
    made = compile(kernel("plain.cu", Language.PLAIN))
    assert made.ok and Path("forward") == Path(made.entries[0].name)
