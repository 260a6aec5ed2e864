"""Each row of the element types agrees with torch and with DLPack."""

import pytest
import torch

from warpsmith.base import UsageError
from warpsmith.records import Dtype, Numbers


@pytest.mark.parametrize("dtype", list(Dtype))
def test_a_row_is_what_torch_knows(dtype: Dtype) -> None:
    there: torch.dtype = getattr(torch, dtype)
    assert there.itemsize == dtype.bytes and there.is_floating_point == dtype.floating
    assert Dtype.from_name(dtype.value) is dtype


def test_no_two_types_cross_alike() -> None:
    assert len({(dtype.dlpack_code, dtype.bytes) for dtype in Dtype}) == len(Dtype)
    codes = {"float": 2, "bfloat": 4, "int": 0, "uint": 1, "bool": 6}
    for dtype in Dtype:
        if dtype.numbers is not Numbers.STORED:
            assert dtype.dlpack_code == codes[dtype.value.rstrip("0123456789")]
    assert (Dtype.FLOAT8_E4M3FN.dlpack_code, Dtype.FLOAT8_E5M2.dlpack_code) == (10, 12)  # dlpack.h 1.1


def test_an_unknown_type_is_a_usage_error_that_names_it() -> None:
    with pytest.raises(UsageError, match="'complex64'"):
        Dtype.from_name("complex64")
