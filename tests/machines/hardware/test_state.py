"""The state of a GPU: what it does at this moment, by its UUID."""

import pytest

from warpsmith.machines.hardware import FakeDriver, GpuState, gpu_state, gpus


@pytest.mark.gpu
def test_every_gpu_says_its_clocks_and_who_is_there() -> None:
    assert gpus()
    for gpu in gpus():
        found = gpu_state(gpu.uuid)
        assert found.clocks_mhz and all(100 < clock < 10_000 for clock in found.clocks_mhz)
        assert found.processes < 100 and found.busy_percent in range(101)


def test_a_gpu_that_is_not_there_says_nothing() -> None:
    assert gpu_state("GPU-none") == GpuState()


def test_two_gpus_have_states_of_their_own() -> None:
    driver = FakeDriver(states={"GPU-1": GpuState((1980, 3201)), "GPU-2": GpuState((1410, 1215), 0x20)})
    assert [gpu_state(uuid, driver).slowed for uuid in ("GPU-1", "GPU-2")] == [(), ("heat",)]


def test_the_power_cap_is_told_and_heat_makes_times_worthless() -> None:
    assert GpuState(reasons=0x4).slowed == ()
    assert GpuState(reasons=0x4).told == ("the power cap",)
    assert GpuState(reasons=0x64).slowed == ("heat", "heat in hardware")
