"""What `doctor` says of a profiler that is missing, idle, forbidden or ready, and of what cannot be asked."""

import json
from pathlib import Path

import pytest

from warpsmith.cli import _main, doctor
from warpsmith.cli.doctor import PartState
from warpsmith.machines.hardware import Gpu, InstalledTool

H200 = Gpu("NVIDIA H200", "580.1", 143771, "9.0")


def machine(
    monkeypatch: pytest.MonkeyPatch, ncu: bool = True, gpu: bool = True, restricted: bool = False, admin: bool = False
) -> None:
    monkeypatch.setattr(
        doctor, "program", lambda name: InstalledTool(Path("/usr/bin/ncu"), "2025.3.1") if ncu else None
    )
    monkeypatch.setattr(doctor, "gpus", lambda: (H200,) if gpu else ())
    monkeypatch.setattr(doctor, "profiling_restricted", lambda: restricted)
    monkeypatch.setattr(doctor, "administers", lambda: admin)


def test_no_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, ncu=False)
    part = doctor._profiler()
    assert part.state is PartState.MISSING
    assert "install" in part.remedy


def test_no_gpu_to_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, gpu=False)
    assert doctor._profiler().state is PartState.PARTIAL


@pytest.mark.parametrize("admin", [True, False])
def test_counters_that_the_driver_keeps_with_the_cure(monkeypatch: pytest.MonkeyPatch, admin: bool) -> None:
    machine(monkeypatch, restricted=True, admin=admin)
    part = doctor._profiler()
    assert part.state is PartState.PARTIAL
    assert "ERR_NVGPUCTRPERM" in part.remedy
    assert "NVreg_RestrictProfilingToAdminUsers=0" in part.remedy
    assert ("--trust" in part.remedy) is admin


def test_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch)
    assert doctor._profiler().state is PartState.OK


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
    assert doctor.look("nvcc").remedy.count("warpsmith[nvcc]") == 1
