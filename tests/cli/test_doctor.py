"""What `doctor` says of a profiler that is missing, idle, forbidden or ready, and of what cannot be asked."""

import json
from pathlib import Path

import pytest

from warpsmith.app import PartState, doctor
from warpsmith.app.doctor import describe_profiler
from warpsmith.cli import _main
from warpsmith.machines.hardware import InstalledTool

NCU = InstalledTool(Path("/usr/bin/ncu"), "2025.3.1")


def test_no_profiler() -> None:
    part = describe_profiler(None, has_gpu=True, is_restricted=False, is_administrator=False)
    assert part.state is PartState.MISSING
    assert "install" in part.remedy


def test_no_gpu_to_profile() -> None:
    part = describe_profiler(NCU, has_gpu=False, is_restricted=False, is_administrator=False)
    assert part.state is PartState.PARTIAL


@pytest.mark.parametrize("admin", [True, False])
def test_counters_that_the_driver_keeps_with_the_cure(admin: bool) -> None:
    part = describe_profiler(NCU, has_gpu=True, is_restricted=True, is_administrator=admin)
    assert part.state is PartState.PARTIAL
    assert "ERR_NVGPUCTRPERM" in part.remedy
    assert "NVreg_RestrictProfilingToAdminUsers=0" in part.remedy
    assert ("--trust" in part.remedy) is admin


def test_ready() -> None:
    part = describe_profiler(NCU, has_gpu=True, is_restricted=False, is_administrator=False)
    assert part.state is PartState.OK


def test_without_a_host_compiler_the_table_is_whole(
    monkeypatch: pytest.MonkeyPatch, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(home))
    assert _main.run(["doctor", "--json"]) == 0
    parts = {part["name"]: part for part in json.loads(capsys.readouterr().out)}
    assert parts.keys() == doctor.PROBES.keys()
    assert {parts[name]["state"] for name in ("g++", "confinement", "nvcc")} == {"missing"}
    assert "apt-get install g++" in parts["confinement"]["remedy"]


@pytest.mark.usefixtures("without_nvcc")
def test_a_remedy_is_said_once() -> None:
    assert doctor.probe("nvcc").remedy.count("warpsmith[nvcc]") == 1
