"""The link policy: one source a refused symbol (`refused/`), libraries by licence, and what kernels need."""

from pathlib import Path

import pytest
from tests.languages.nvcc.conftest import built, function

from warpsmith.languages.nvcc.artifact import ptx_externs
from warpsmith.languages.nvcc.policy import LinkPolicy
from warpsmith.records import CompileFacts, Language, Reason

REFUSED = sorted((Path(__file__).parent / "refused").glob("*.cu"))


def group_of(source: Path) -> str:
    """The group in the first line of a source."""
    return source.read_text().splitlines()[0].removeprefix("// refused: ")


@pytest.mark.parametrize("source", REFUSED, ids=lambda path: path.stem)
def test_each_refused_symbol_by_a_source(source: Path) -> None:
    made = built(source.read_text(), Language.PLAIN)
    assert made.result.reason is Reason.FORBIDDEN_SYMBOL, made.result.detail
    assert group_of(source) in made.result.detail and made.artifact is None
    if "std_" not in source.stem and source.stem != "ofstream":  # those have mangled names
        assert f"`{source.stem}`" in made.result.detail


def test_every_refused_group_has_a_source() -> None:
    groups = {group_of(source) for source in REFUSED}
    assert all(any(group.name.startswith(one) for one in groups) for group in LinkPolicy.load().refused)


def test_every_refused_symbol_is_a_finding() -> None:
    before = "#include <stdlib.h>\n#include <unistd.h>"
    made = built(function('if (getenv("A") || fork() || system("b")) return x;', before=before))
    assert isinstance(made.result.facts, CompileFacts)
    said = " ".join(finding.message for finding in made.result.facts.findings)
    assert all(f"`{name}`" in said for name in ("getenv", "fork", "system"))
    assert {"getenv", "fork", "system"} <= set(made.result.facts.symbols)


def test_an_unlisted_symbol_is_refused() -> None:
    fault = LinkPolicy.load().judge("tcsetattr", ())
    assert fault is not None and fault.reason is Reason.FORBIDDEN_SYMBOL and "on no list" in fault.detail


def test_a_library_is_allowed_where_the_task_names_it() -> None:
    policy = LinkPolicy.load()
    assert policy.check(("cublasSgemm_v2", "malloc"), ("cublas",)) is None
    assert policy.check(("cublasLtMatmul",), ("cublaslt",)) is None
    for symbol in ("cublasSgemm_v2", "cublasLtMatmul", "cudnnCreate"):
        fault = policy.check((symbol,), ())
        assert fault is not None and fault.reason is Reason.LIBRARY_CALL
    refused = policy.check(("cublasLtMatmul",), ("cublas",))
    assert refused is not None and "cublaslt" in refused.detail


ALLOWED = """
__cudaRegisterFatBinary cudaLaunchKernel cudaLaunchKernelExC cudaMemcpyAsync cudaMemsetAsync cudaMalloc cudaFreeAsync
cudaStreamCreateWithFlags cudaEventRecord cudaStreamWaitEvent cudaGraphLaunch cudaStreamBeginCapture cudaGetLastError
cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaGetDeviceProperties cudaFuncSetAttribute _Znwm _ZdlPvm
_ZNSt6vectorIiE __cxa_throw _Unwind_Resume memcpy strlen snprintf printf malloc free expf sqrt powf sin floorf
__gmon_start__ _ITM_deregisterTMCloneTable
"""


def test_what_kernels_need_is_allowed() -> None:
    assert LinkPolicy.load().check(tuple(ALLOWED.split()), ()) is None


def test_ptx_functions_from_elsewhere_are_read() -> None:
    text = b".extern .func  (.param .b32 func_retval0) vprintf\n(\n.extern .func __assertfail\n(\n.visible .entry k("
    assert ptx_externs(text) == ("__assertfail", "vprintf")


def test_printing_and_asserting_kernels_pass() -> None:
    before = '#include <cstdio>\n#include <cassert>\n__global__ void k(int n) { assert(n); printf("%d\\n", n); }'
    made = built(function("k<<<1, 1>>>(1);", before=before))
    assert made.ok, made.result.detail
