"""ATen operators in compiler messages."""

import functools
import re
from pathlib import Path

from warpsmith.languages.nvcc.diagnose import Diagnostic

NAMES = Path(__file__).parent / "data" / "aten_operators.txt"
IN_NAMESPACE = re.compile(
    r'^namespace "(?P<where>(?:torch|at|c10|cudnn_frontend)(?:::\w+)*)" has no member "(?P<name>\w+)"'
)
IN_TENSOR = re.compile(r'^class "(?:c10|at|torch)::Tensor" has no member "(?P<name>\w+)"')
ON_TENSORS = re.compile(r'^no operator "(?P<sign>[^"]+)" matches these operands.*\bc10::Tensor\b')
# Headers of libraries declare nothing where the task does not allow them.
UNDECLARED = re.compile(
    r'^identifier "(?P<name>(?P<library>cublasLt|cublas|cudnn|cusparse|cusolver|cufft|curand|nccl)[A-Z]\w*'
    r'|(?P<constants>CUBLASLT|CUBLAS|CUDNN|CUSPARSE|CUSOLVER|CUFFT|CURAND)_\w+)" is undefined'
)
MISSING_HEADER = re.compile(
    r"^(?P<name>(?:cublas|cudnn|cusparse|cusolver|cufft|curand|nccl|cusparseLt)\w*)[./\w]*: No such file"
)
# Whatever these namespaces hold is a library call, operator or class.
LIBRARIES = (
    "torch::nn",
    "torch::linalg",
    "torch::special",
    "torch::fft",
    "torch::autograd",
    "torch::jit",
    "torch::optim",
    "torch::indexing",
    "at::indexing",
    "at::native",
    "at::cuda::blas",
    "cudnn_frontend",
)
SIGNS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "+=": "add_", "-=": "sub_", "*=": "mul_", "/=": "div_",
    "<": "lt", ">": "gt", "<=": "le", ">=": "ge", "==": "eq", "!=": "ne", "!": "logical_not", "~": "bitwise_not",
    "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "%": "remainder", "<<": "lshift", ">>": "rshift",
}  # fmt: skip


@functools.cache
def operator_names() -> frozenset[str]:
    """Return the names of ATen's operators, methods and in-place forms."""
    return frozenset(NAMES.read_text().split())


def called_operator(diagnostic: Diagnostic) -> str | None:
    """Return a message's operator or library, or None."""
    text = diagnostic.text
    if match := IN_NAMESPACE.match(text):
        return _in_namespace(match["where"], match["name"])
    if match := IN_TENSOR.match(text):
        # Our Tensor has no operators at all, so each use of a sign is a call of torch.
        return f"Tensor::{match['name']}" if match["name"] in operator_names() else None
    if match := ON_TENSORS.match(text):
        return f"at::{SIGNS.get(match['sign'], match['sign'])} (operator {match['sign']} on tensors)"
    if match := MISSING_HEADER.match(text):
        return match["name"]
    return None


def undeclared_library_name(diagnostic: Diagnostic, libraries: tuple[str, ...]) -> str | None:
    """Return a forbidden library's undeclared name, or None."""
    match = UNDECLARED.match(diagnostic.text)
    if match is None or (match["library"] or match["constants"]).lower() in libraries:
        return None
    return match["name"]


def _in_namespace(where: str, name: str) -> str | None:
    """Return the name of an operator or library in a namespace, or None."""
    # The handle serves cuBLAS calls only.
    if name == "getCurrentCUDABlasHandle":
        return "cublas"
    inside = any(where == library or where.startswith(library + "::") for library in LIBRARIES)
    return f"{where}::{name}" if inside or name in operator_names() else None
