"""The judge's own line to an executor, without a candidate."""

import pytest
from runtime_artifacts import LIMITS

from warpsmith.base import HarnessError
from warpsmith.machines.virtual import ExecutorSettings, Gone, VirtualGpu, describe

SMALL = ExecutorSettings(memory_bytes=1 << 28, wall_s=LIMITS.wall_s)


def test_memory_is_written_filled_and_read_back() -> None:
    with VirtualGpu(describe("H200"), SMALL) as gpu:
        address = gpu.control.allocate(64)
        gpu.control.fill(address, 0x7FC0DEAD, 4, 16)
        gpu.control.write(address, b"abcd")
        assert gpu.control.read(address, 8) == b"abcd" + (0x7FC0DEAD).to_bytes(4, "little")


def test_what_lies_outside_of_an_allocation_is_not_read() -> None:
    with VirtualGpu(describe("H200"), SMALL) as gpu:
        address = gpu.control.allocate(64)
        assert gpu.control.read(address, 65) is None
        assert gpu.control.read(0x1000, 4) is None
        with pytest.raises(HarnessError, match="cannot be written"):
            gpu.control.write(address + 60, b"abcdefgh")


def test_more_than_the_device_has_is_not_given() -> None:
    with VirtualGpu(describe("H200"), SMALL) as gpu, pytest.raises(HarnessError, match="smaller case"):
        gpu.control.allocate(1 << 30)


def test_facts_of_nothing_are_empty() -> None:
    with VirtualGpu(describe("H100"), SMALL) as gpu:
        facts = gpu.control.facts()
        assert facts.findings == () and facts.kernels == () and facts.error == 0


def test_an_executor_that_was_killed_is_gone() -> None:
    with VirtualGpu(describe("H200"), SMALL) as gpu:
        gpu.kill()
        with pytest.raises(Gone):
            for _ in range(1 << 20):  # ends at the latest where its memory does
                gpu.control.allocate(64)
        assert gpu.end().signal is not None


def test_an_executor_ends_when_the_judge_closes_its_line() -> None:
    with VirtualGpu(describe("H200"), SMALL) as gpu:
        assert gpu.control.facts().error == 0
        outcome = gpu.end()
    assert outcome.exit_code == 0
