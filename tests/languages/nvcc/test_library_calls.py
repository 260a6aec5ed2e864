"""Real ATen operators and libraries that a task does not allow fail with the operator's name; typos do not."""

import pytest
from tests.languages.nvcc.conftest import built, function

from warpsmith.base import MachineError
from warpsmith.languages.nvcc import CompileOptions, Toolchain
from warpsmith.languages.nvcc.operators import operator_names
from warpsmith.records import Reason

CALLS = {
    "auto y = torch::matmul(x, x);": "torch::matmul",
    "auto y = at::softmax(x, 0);": "at::softmax",
    "auto y = x.sum(0);": "Tensor::sum",
    "x.mul_(x);": "Tensor::mul_",
    "auto y = x + x;": "at::add",
    "auto y = 2.0 * x;": "at::mul",
    "x += x;": "at::add_",
    "auto y = torch::nn::functional::relu(x);": "torch::nn::functional::relu",
    "auto y = at::native::layer_norm_cuda(x);": "at::native::layer_norm_cuda",
    "auto y = torch::randn({3});": "torch::randn",
    "auto h = at::cuda::getCurrentCUDABlasHandle();": "cublas",
}


@pytest.mark.parametrize(("body", "name"), CALLS.items())
def test_an_operator_is_named(body: str, name: str) -> None:
    made = built(function(body))
    assert made.result.reason is Reason.LIBRARY_CALL, made.result.detail
    assert name in made.result.detail and "line 4" in made.result.detail


@pytest.mark.parametrize("body", ["x.frobnicate();", "torch::conbobulate(x);", "auto y = not_there;"])
def test_a_typo_is_no_operator(body: str) -> None:
    assert built(function(body)).result.reason is Reason.COMPILE_ERROR


USES = {
    "cublas_v2.h": "cublasHandle_t h; cublasCreate(&h);",
    "cublasLt.h": "cublasLtHandle_t h;",
    "cublasXt.h": "auto made = cublasXtCreate(nullptr);",
    "cudnn.h": "auto status = CUDNN_STATUS_SUCCESS;",
    "cudnn_frontend.h": "cudnn_frontend::graph::Graph g;",
    "cusparse.h": "cusparseHandle_t h;",
    "cusolverDn.h": "cusolverDnHandle_t h;",
    "cufft.h": "cufftHandle h;",
    "curand.h": "curandGenerator_t g;",
    "nccl.h": "ncclComm_t c;",
}


@pytest.mark.parametrize(("header", "use"), USES.items())
def test_a_use_of_a_library_that_is_not_allowed_is_named_with_the_user_s_line(header: str, use: str) -> None:
    made = built(function(use, before=f"#include <{header}>"))
    assert made.result.reason is Reason.LIBRARY_CALL, made.result.detail
    assert header[:4] in made.result.detail.lower() and "line 4" in made.result.detail


def test_headers_of_libraries_that_nothing_uses_are_no_calls() -> None:
    before = (
        "".join(f"#include <{header}>\n" for header in USES)
        + "#define CHECK(x) if (x != CUBLAS_STATUS_SUCCESS) abort()"
    )
    made = built(function("int cublas_count = 0; (void)cublas_count;", before=before))
    assert made.ok, made.result.detail


def test_a_forgotten_header_of_an_allowed_library_is_an_ordinary_error() -> None:
    made = built(function("cublasHandle_t h;"), options=CompileOptions(libraries=("cublas",)))
    assert made.result.reason is Reason.COMPILE_ERROR and "cublasHandle_t" in made.result.detail


def test_a_library_call_without_its_header() -> None:
    before = 'extern "C" int cublasCreate_v2(void**);'
    made = built(function("void* h; cublasCreate_v2(&h);", before=before))
    assert made.result.reason is Reason.LIBRARY_CALL and "cublasCreate_v2" in made.result.detail


def test_the_blas_handle_where_the_task_allows_it() -> None:
    made = built(
        function("TORCH_CHECK(at::cuda::getCurrentCUDABlasHandle() != nullptr);"),
        options=CompileOptions(libraries=("cublas",)),
    )
    assert made.ok, made.result.detail


@pytest.mark.skipif(Toolchain.find().header("cublas_v2.h") is not None, reason="this toolkit has cuBLAS")
def test_an_allowed_library_that_is_not_installed_is_the_machines_fault() -> None:
    with pytest.raises(MachineError, match="nvidia-cublas"):
        built(function("", before="#include <cublas_v2.h>"), options=CompileOptions(libraries=("cublas",)))


def test_the_list_holds_operators_and_not_what_the_headers_have() -> None:
    names = operator_names()
    assert {"matmul", "softmax", "layer_norm", "relu_", "einsum", "scaled_dot_product_attention"} <= names
    assert "data_ptr" not in names and "packed_accessor32" not in names
