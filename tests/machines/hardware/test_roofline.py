"""The roofline formula and the store of ceilings."""

import pytest

from warpsmith.machines.hardware import arithmetic_us, floor_us, load_ceilings, memory_us, save_ceilings
from warpsmith.machines.hardware.ceilings import ceilings_path
from warpsmith.records import Ceilings

CEILINGS = Ceilings(
    gpu="NVIDIA H200",
    measured=True,
    read_bytes_per_s=4e12,
    write_bytes_per_s=2e12,
    copy_bytes_per_s=3e12,
    matmul_flops_per_s={"bfloat16": 8e14},
)


def test_a_pure_kind_of_traffic_goes_at_its_own_ceiling() -> None:
    assert memory_us(CEILINGS, 4e6, 0) == pytest.approx(1.0)
    assert memory_us(CEILINGS, 0, 4e6) == pytest.approx(2.0)
    assert memory_us(CEILINGS, 3e6, 3e6) == pytest.approx(2.0)


def test_mixed_traffic_is_a_copy_and_the_rest() -> None:
    assert memory_us(CEILINGS, 7e6, 3e6) == pytest.approx(2.0 + 1.0)


def test_the_floor_is_the_larger_of_memory_and_arithmetic() -> None:
    assert floor_us(CEILINGS, 4e6, 0, 1.6e9, "bfloat16") == pytest.approx(2.0)
    assert floor_us(CEILINGS, 16e6, 0, 1.6e9, "bfloat16") == pytest.approx(4.0)


def test_an_element_type_without_a_rate_has_no_arithmetic_floor() -> None:
    assert arithmetic_us(CEILINGS, 1e9, "int8") is None
    assert floor_us(CEILINGS, 4e6, 0, 1e12, "int8") == pytest.approx(1.0)


@pytest.mark.usefixtures("home")
def test_ceilings_are_kept_for_a_gpu_and_its_driver() -> None:
    assert load_ceilings("NVIDIA H200", "580.1", "a") is None
    save_ceilings(CEILINGS, "580.1", "a")
    assert load_ceilings("NVIDIA H200", "580.1", "a") == CEILINGS
    assert load_ceilings("NVIDIA H200", "590.1", "a") is None
    assert load_ceilings("NVIDIA H200", "580.1", "b") is None, "another probe may see more"


@pytest.mark.usefixtures("home")
def test_a_file_of_another_form_is_measured_again() -> None:
    path = ceilings_path("NVIDIA H200", "580.1", "a")
    path.parent.mkdir(parents=True)
    path.write_text('{"gpu": "NVIDIA H200"}')
    assert load_ceilings("NVIDIA H200", "580.1", "a") is None
