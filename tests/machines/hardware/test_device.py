"""Facts about the machine: parsing what the driver's tool prints, programs and their versions."""

import sys
from pathlib import Path

import pytest

from warpsmith.machines.hardware import administers, gpus, profiling_restricted, program
from warpsmith.machines.hardware.gpu import Gpu, parse_row
from warpsmith.machines.hardware.tools import version


def test_a_row_of_nvidia_smi() -> None:
    assert parse_row("NVIDIA H200, 580.159.03, 143771, 9.0") == Gpu("NVIDIA H200", "580.159.03", 143771, "9.0")
    assert parse_row("NVIDIA H200, 580.1, [N/A], 9.0").memory_mib == 0


def fake_smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_gpus_from_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, "echo 'NVIDIA H200, 580.159.03, 143771, 9.0'", monkeypatch)
    assert [gpu.name for gpu in gpus()] == ["NVIDIA H200"]


@pytest.mark.parametrize("script", ["exit 9", "echo 'No devices were found'"])
def test_a_driver_that_does_not_answer_is_no_gpu(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_smi(tmp_path, script, monkeypatch)
    assert gpus() == ()


def test_no_driver_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus() == ()


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
