"""GPUs as data."""

from pathlib import Path

import pytest

from warpsmith.base import UsageError
from warpsmith.evaluation import EvaluationConfig
from warpsmith.machines.hardware import sm_limits
from warpsmith.machines.virtual import VirtualMachine, describe, descriptions, gpu_identity
from warpsmith.machines.virtual.description import FOLDER


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


@pytest.mark.parametrize(
    ("name", "arch"), [("A100", "sm_80"), ("L40S", "sm_89"), ("H100", "sm_90a"), ("B200", "sm_100")]
)
def test_a_modelled_gpu_is_compiled_for_its_own_architecture(name: str, arch: str) -> None:
    assert VirtualMachine.of(name).arch == arch


def test_only_rates_that_were_measured_are_marked_so() -> None:
    measured = {name: describe(name).measured for name in descriptions()}
    assert "copy_bytes_per_s" in measured.pop("H200")
    assert set(measured.values()) == {()}
    assert {"A100", "L40S", "B200"} <= measured.keys()


def test_limits_are_those_of_the_compute_capability() -> None:
    assert describe("L40S").limits == sm_limits("8.9")
    assert describe("A100").limits.shared_per_block_optin_bytes == 163 << 10


def copied(folder: Path, name: str, old: str = "", new: str = "") -> Path:
    """Return a copy of a description, changed, somewhere else."""
    path = folder / "own.toml"
    path.write_text((FOLDER / f"{name}.toml").read_text().replace(old, new))
    return path


def test_a_name_in_any_case_and_the_path_of_its_description_are_one_identity(tmp_path: Path) -> None:
    spelled = ["H200", "h200", str(FOLDER / "h200.toml"), str(copied(tmp_path, "h200"))]
    assert {VirtualMachine.of(name).hardware for name in spelled} == {"vgpu:H200"}
    assert {gpu_identity(name) for name in spelled} == {"H200"}
    assert len({EvaluationConfig(device="vgpu", gpu=name).stored(1).text() for name in spelled}) == 1


def test_another_gpu_under_a_known_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Give it another name"):
        describe(str(copied(tmp_path, "h200", "sm_count = 132", "sm_count = 131")))


def test_a_gpu_of_ones_own_is_known_by_its_path_and_may_differ_in_some_limits(tmp_path: Path) -> None:
    own = copied(tmp_path, "l40s", 'name = "L40S"', 'name = "mine"')
    own.write_text(own.read_text() + "\n[limits]\nblocks_per_sm = 7\n")
    assert (describe(str(own)).limits.blocks_per_sm, describe(str(own)).limits.threads_per_sm) == (7, 1536)
    assert gpu_identity(str(own)) == str(own)
    assert VirtualMachine.of(str(own)).hardware == "vgpu:mine"


def test_what_is_marked_as_measured_is_a_rate(tmp_path: Path) -> None:
    own = copied(tmp_path, "h200", '"launch_us"]', '"price"]')
    with pytest.raises(UsageError, match="price"):
        describe(str(own))
