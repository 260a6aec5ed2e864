"""The probes of the ceilings: what can be said of them without a GPU."""

import subprocess
from pathlib import Path

import pytest

from warpsmith.base import HarnessError
from warpsmith.evaluation.profile.ceilings import SOURCE, find_ceilings, parse, probe
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.hardware import Gpu, save_ceilings
from warpsmith.records import Ceilings

GPU = Gpu("NVIDIA H200", "580.1", 143771, "9.0")


def test_the_lines_of_the_probe() -> None:
    assert parse("read_bytes_per_s 4.4e12\nlaunch_us 2.5\n") == {"read_bytes_per_s": 4.4e12, "launch_us": 2.5}


@pytest.mark.parametrize("said", ["nonsense\n", "read_bytes_per_s fast\n"])
def test_other_lines_are_our_fault(said: str) -> None:
    with pytest.raises(HarnessError, match="printed"):
        parse(said)


@pytest.mark.usefixtures("home")
def test_stored_ceilings_are_not_measured_again() -> None:
    kept = Ceilings(gpu=GPU.name, measured=True, read_bytes_per_s=1e12, write_bytes_per_s=1e12, copy_bytes_per_s=1e12)
    save_ceilings(kept, GPU.driver, probe())
    assert find_ceilings(GPU, Toolchain.find()) == kept


def test_the_probe_compiles(tmp_path: Path) -> None:
    command = [Toolchain.find().nvcc, "-std=c++17", "-arch=sm_90a", "-c", SOURCE, "-o", tmp_path / "probe.o"]
    subprocess.run(command, check=True, capture_output=True)
