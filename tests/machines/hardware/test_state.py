"""What a GPU does at this moment."""

import pytest

from warpsmith.machines.hardware import GpuState, gpu_state, gpus


@pytest.mark.gpu
def test_a_gpu_says_its_clocks_and_who_is_there() -> None:
    found = gpu_state()
    assert found.clocks_mhz and all(100 < clock < 10_000 for clock in found.clocks_mhz)
    assert found.processes < 100


@pytest.mark.skipif(bool(gpus()), reason="there is a GPU")
def test_without_a_gpu_nothing_is_said() -> None:
    assert gpu_state() == GpuState()


def test_the_power_cap_is_told_and_heat_makes_times_worthless() -> None:
    assert GpuState(reasons=0x4).slowed == ()
    assert GpuState(reasons=0x4).told == ("the power cap",)
    assert GpuState(reasons=0x64).slowed == ("heat", "heat in hardware")
