"""GPUs as data."""

from pathlib import Path

import pytest

from warpsmith.base import UsageError
from warpsmith.machines.virtual import describe, descriptions


def test_the_measured_ceilings_of_the_h200_are_there() -> None:
    gpu = describe("H200")
    assert gpu.sm_count == 132
    assert gpu.l2_bytes == 60 << 20
    assert gpu.limits.shared_per_block_optin_bytes == 227 << 10
    assert gpu.rates.copy_bytes_per_s == 4.3e12
    assert gpu.rates.tensor_flops_per_s == 7.9e14


@pytest.mark.parametrize("name", descriptions())
def test_every_description_is_complete(name: str) -> None:
    gpu = describe(name)
    assert gpu.name == name
    assert {"int", "fp32", "tensor", "sfu", "shared", "global"} <= set(gpu.pipes)
    assert f"sm_count={gpu.sm_count}" in gpu.settings()


def test_an_unknown_gpu_names_those_that_are_known() -> None:
    with pytest.raises(UsageError, match="H200"):
        describe("H20")


def test_a_file_of_the_users_own(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text("name = 'half'\n")
    with pytest.raises(UsageError, match="cannot be used"):
        describe(str(own))


def test_a_file_that_is_not_there_is_said_so() -> None:
    with pytest.raises(UsageError, match=r"File own\.toml does not exist"):
        describe("own.toml")
