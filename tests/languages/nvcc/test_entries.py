"""The signature is read from the file, and a task's call must fit it."""

import pytest
from tests.languages.nvcc.conftest import MODULE, candidate, signature

from warpsmith.languages.nvcc import EntryPoint, compile
from warpsmith.languages.nvcc.artifact import MARK, entry_texts
from warpsmith.languages.nvcc.entries import check_entry, to_entries
from warpsmith.records import Direction, Language, Reason, Signature

FORWARD = Direction.FORWARD


def test_the_mark_is_read_from_bytes() -> None:
    raw = b"\0\0" + MARK + b"forward\0tensor,float->tensor\0\0" + MARK + b"backward\0->\0"
    assert to_entries(entry_texts(raw)) == (
        EntryPoint("forward", ("tensor", "float"), ("tensor",)),
        EntryPoint("backward", (), ()),
    )
    assert to_entries(entry_texts(b"nothing here" + MARK)) == ()


FITS = [
    ("tensor,float->tensor", signature("tensor", "float")),
    ("tensor,float->tensor", signature("tensor", "int")),  # Python's int goes to a double
    ("optional_tensor->tensor", signature("tensor")),
    ("int->tensor", signature("bool")),
    ("tensors,ints->tensor,tensor", signature("tensors", "ints", results=2)),
    ("tensor->tensors", signature("tensor", results=3)),
    ("tensor->tensors", signature("tensor")),
    ("optional_tensor,bool->&tensor,&tensor", signature("tensor", "bool", results=2)),
]
MISFITS = [
    ("tensor->tensor", signature("optional_tensor")),
    ("int->tensor", signature("float")),
    ("bool->tensor", signature("int")),
    ("tensor->tensor", signature("tensor", "tensor")),
    ("tensor,tensor->tensor", signature("tensor")),
    ("tensor->tensor", signature("tensor", results=2)),
    ("tensor->tensor,tensor", signature("tensor")),
    ("tensor->", signature("tensor")),
    ("tensor->float", signature("tensor")),
]


def entry(text: str) -> tuple[EntryPoint, ...]:
    return to_entries(entry_texts(MARK + b"forward\0" + text.encode() + b"\0"))


@pytest.mark.parametrize(("found", "wanted"), FITS)
def test_what_fits(found: str, wanted: Signature) -> None:
    assert check_entry(entry(found), FORWARD, wanted) is None


@pytest.mark.parametrize(("found", "wanted"), MISFITS)
def test_what_does_not_fit_says_expected_and_found(found: str, wanted: Signature) -> None:
    fault = check_entry(entry(found), FORWARD, wanted)
    assert fault is not None and fault.reason is Reason.WRONG_SIGNATURE
    assert "expected" in fault.detail and f"found {found}" in fault.detail


def test_another_name_is_no_entry() -> None:
    fault = check_entry((EntryPoint("rms_norm", ("tensor",), ("tensor",)),), FORWARD, None)
    assert fault is not None and fault.reason is Reason.NO_ENTRY and "rms_norm" in fault.detail


def test_a_wrong_signature_end_to_end() -> None:
    source = f"#include <torch/extension.h>\ntorch::Tensor forward(torch::Tensor x, double s) {{ return x; }}\n{MODULE}"
    made = compile(candidate(source), signature("tensor", "tensor"))
    assert made.result.reason is Reason.WRONG_SIGNATURE and made.artifact is None
    assert "expected tensor,tensor->tensor" in made.result.detail and "found tensor,float->tensor" in made.result.detail
    assert compile(candidate(source), signature("tensor", "float")).ok


def test_a_plain_signature_end_to_end() -> None:
    source = (
        "#include <warpsmith/abi.h>\n#include <cuda_runtime.h>\n"
        'extern "C" int forward(const DLTensor* x, double s, DLTensor* y, cudaStream_t stream) { return 0; }\n'
    )
    assert compile(candidate(source, Language.PLAIN), signature("tensor", "float")).ok
    made = compile(candidate(source, Language.PLAIN), signature("tensor", "int", "float"))
    assert made.result.reason is Reason.WRONG_SIGNATURE
