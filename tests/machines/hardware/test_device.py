"""Facts about the machine: GPUs and the limits of their kind, programs and their versions."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from warpsmith.base import MachineError, UsageError
from warpsmith.machines.hardware import (
    FakeDriver,
    Gpu,
    GpuState,
    MemoryUse,
    NvmlDriver,
    administers,
    capability_of,
    gpus,
    profiling_restricted,
    program,
    sm_limits,
)
from warpsmith.machines.hardware.tools import version


class Nvml:
    """NVIDIA's library with two cards, the second of which refuses what it is asked; or without a driver."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    class NVMLError(Exception):
        """The library's error."""

    def __init__(self, driver: bool = True, count: int = 2) -> None:
        self.driver, self.count, self.opened = driver, count, 0

    def nvmlInit(self) -> None:
        self.opened += 1
        if not self.driver:
            raise self.NVMLError

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.159.03"

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        return number

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        return int(uuid.removeprefix("GPU-"))

    def nvmlDeviceGetName(self, _device: int) -> str:
        return "NVIDIA H200"

    def nvmlDeviceGetUUID(self, device: int) -> bytes:
        return f"GPU-{device}".encode()

    def nvmlDeviceGetCudaComputeCapability(self, _device: int) -> tuple[int, int]:
        return 9, 0

    def nvmlDeviceGetMemoryInfo(self, device: int) -> SimpleNamespace:
        self.refuse(device)
        return SimpleNamespace(total=143771 << 20, free=100 << 30)

    def nvmlDeviceGetClockInfo(self, device: int, kind: int) -> int:
        self.refuse(device)
        return 1000 * kind

    def nvmlDeviceGetComputeRunningProcesses(self, device: int) -> list[SimpleNamespace]:
        self.refuse(device)
        return [SimpleNamespace(pid=1, usedGpuMemory=5 << 30), SimpleNamespace(pid=2, usedGpuMemory=None)]

    def nvmlDeviceGetUtilizationRates(self, device: int) -> SimpleNamespace:
        self.refuse(device)
        return SimpleNamespace(gpu=37)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, device: int) -> int:
        self.refuse(device)
        return 0x4

    def refuse(self, device: int) -> None:
        if device == 1:
            raise self.NVMLError


FIRST = Gpu("NVIDIA H200", "580.159.03", 143771, "9.0", "GPU-0", 0)
SECOND = Gpu("NVIDIA H200", "580.159.03", 0, "9.0", "GPU-1", 1)
NONE: dict[str, str] = {}


def test_gpus_and_their_states_come_from_nvml() -> None:
    driver = NvmlDriver(Nvml())
    assert gpus(driver, NONE) == (FIRST, SECOND)
    assert driver.state("GPU-0") == GpuState((1000, 2000), 0x4, 2, 37)
    assert driver.state("GPU-1") == GpuState(), "a card that does not have the numbers"


def test_memory_and_who_holds_it_come_from_nvml() -> None:
    driver = NvmlDriver(Nvml())
    found = driver.memory("GPU-0")
    assert found == MemoryUse(100 << 30, 143771 << 20, {1: 5 << 30}), "the driver hides how much some processes hold"
    assert found.held_by([1, 9]) == 5 << 30 and found.held_by([2]) is None
    assert driver.memory("GPU-1") is None and driver.memory("") is None


def test_no_driver_is_no_gpu_and_one_that_comes_later_is_found() -> None:
    library = Nvml(driver=False)
    driver = NvmlDriver(library)
    assert gpus(driver, NONE) == () and driver.state("GPU-0") == GpuState()
    library.driver = True
    assert gpus(driver, NONE) == (FIRST, SECOND)
    before = library.opened
    driver.state("GPU-0")
    assert library.opened == before, "the library is opened once"


def test_a_driver_without_a_gpu_lists_none() -> None:
    assert gpus(NvmlDriver(Nvml(count=0)), NONE) == ()


THREE = tuple(
    Gpu("NVIDIA A100", "580.1", 81920, "8.0", uuid, n) for n, uuid in enumerate(("GPU-aa1", "GPU-ab2", "GPU-cc3"))
)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("0,1,2", [0, 1, 2]),
        ("2,0", [2, 0]),
        (" 1 ", [1]),
        ("GPU-cc3", [2]),
        ("GPU-c,GPU-ab", [2, 1]),
        ("GPU-a", []),  # of two
        ("", []),
        ("-1", []),
        ("1,-1,0", [1]),
        ("1,7,0", [1]),
        ("0,0", []),
        ("NoDevFiles", []),
    ],
)
def test_cuda_visible_devices_is_obeyed(value: str, found: list[int]) -> None:
    chosen = gpus(FakeDriver(THREE), {"CUDA_VISIBLE_DEVICES": value})
    assert [gpu.uuid for gpu in chosen] == [THREE[number].uuid for number in found]
    assert [gpu.number for gpu in chosen] == list(range(len(found))), "as CUDA numbers them"


def test_a_slice_of_a_gpu_is_refused_by_its_name() -> None:
    with pytest.raises(MachineError, match="MIG-0a1b"):
        gpus(FakeDriver(THREE), {"CUDA_VISIBLE_DEVICES": "MIG-0a1b"})


def test_limits_follow_the_compute_capability() -> None:
    assert [sm_limits(one).threads_per_sm for one in ("8.0", "8.6", "8.9", "9.0")] == [2048, 1536, 1536, 2048]
    assert (sm_limits("8.9").blocks_per_sm, sm_limits("8.9").shared_per_block_optin_bytes) == (24, 99 << 10)
    assert [capability_of(arch) for arch in ("sm_80", "sm_90a", "sm_100a", "sm_120f")] == ["8.0", "9.0", "10.0", "12.0"]
    with pytest.raises(UsageError, match=r"4\.2"):
        sm_limits("4.2")


def test_profiling_restriction(tmp_path: Path) -> None:
    params = tmp_path / "params"
    assert profiling_restricted(params) is None
    params.write_text("A: 1\nRmProfilingAdminOnly: 1\n")
    assert profiling_restricted(params) is True
    params.write_text("RmProfilingAdminOnly: 0\n")
    assert profiling_restricted(params) is False


def test_programs() -> None:
    assert program("no-such-program") is None
    assert version(sys.executable, "--version").startswith("3.")
    assert version("/no/such/file", "--version") == ""


def test_the_capability_that_counters_need(tmp_path: Path) -> None:
    status = tmp_path / "status"
    assert administers(status) is False
    status.write_text("Name:\tx\nCapEff:\t000001ffffffffff\n")
    assert administers(status) is True
    status.write_text("Name:\tx\nCapEff:\t00000000a80425fb\n")  # root in an ordinary container
    assert administers(status) is False
