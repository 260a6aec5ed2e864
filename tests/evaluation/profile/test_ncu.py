"""ncu that is missing, forbidden, of another version, silent, or flooded: a reason each, and never an exception."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from warpsmith.evaluation.profile.metrics import TENSOR_FLOPS, metric_names
from warpsmith.evaluation.profile.ncu import (
    MOST_LAUNCHES,
    REPORT,
    Counted,
    ProfiledKernel,
    Refusal,
    count,
    explain_missing_report,
)
from warpsmith.machines.cuda.profiled import ProfiledCall, UnderTool, Walls
from warpsmith.records import Failure, Reason

CAPTURED = Path(__file__).parent / "captured"
SUBJECT = ProfiledKernel(Path("/artifact.so"), "__global__ void k() {}", "forward", (), Path("/runtime"))
FORBIDDEN = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions and to get more information see https://…"
)


@dataclass
class FakeNcu:
    """Prints what it is told, and writes a report where it is told to."""

    said: str = ""
    reports: bool = True
    failure: Failure | None = None
    lacks: str = ""
    works_in: Walls = Walls.FULL
    ran: list[tuple[Walls, Sequence[str]]] = field(default_factory=list)

    def run(self, tool: Sequence[str], made: ProfiledCall, walls: Walls, wall_s: float) -> UnderTool:
        self.ran.append((walls, tool))
        metrics = tool[list(tool).index("--metrics") + 1].split(",")
        if self.lacks in metrics:
            return UnderTool(walls, 1, f"==ERROR== Failed to find metric {self.lacks}\n", 0.1)
        if walls is not self.works_in:
            return UnderTool(walls, 1, FORBIDDEN, 0.1)
        if self.reports:
            (made.folder / f"{REPORT}.ncu-rep").write_bytes(b"report")
        return UnderTool(walls, 0, self.said, 0.1, self.failure)

    def read(self, words: Sequence[str]) -> str:
        return (CAPTURED / ("ncu_source.csv" if "source" in words else "ncu_metrics.csv")).read_text()


def counting(fake: FakeNcu, walls: Sequence[Walls] = (Walls.FULL,), table: str | None = None) -> Counted | Refusal:
    read = fake.read if table is None else lambda _words: table
    return count(SUBJECT, walls, fake.run, read, tool="true")


def test_every_kernel_of_a_call_with_its_lines() -> None:
    fake = FakeNcu()
    found = counting(fake)
    assert isinstance(found, Counted)
    assert len(found.launches) == 5
    assert found.lines
    assert not found.limited
    (words,) = (tool for _, tool in fake.ran)
    assert tuple(words[1:3]) == ("--clock-control", "none")
    assert "--launch-count" in words


def test_ncu_that_is_not_there() -> None:
    found = count(SUBJECT, (Walls.FULL,), tool="no-such-profiler")
    assert isinstance(found, Refusal)
    assert "not on PATH" in found.why
    assert "install" in found.why


def test_counters_that_the_driver_keeps_name_the_cure() -> None:
    found = counting(FakeNcu(works_in=Walls.OPEN))
    assert isinstance(found, Refusal)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in found.why
    assert "CAP_SYS_ADMIN" in found.why


def test_the_next_confinement_is_tried() -> None:
    fake = FakeNcu(works_in=Walls.OWN)
    found = counting(fake, (Walls.FULL, Walls.OWN))
    assert isinstance(found, Counted)
    assert found.walls is Walls.OWN
    assert [walls for walls, _ in fake.ran] == [Walls.FULL, Walls.OWN]


def test_a_version_without_a_metric_is_asked_without_it() -> None:
    lacking = next(iter(TENSOR_FLOPS))
    fake = FakeNcu(lacks=lacking)
    assert isinstance(counting(fake), Counted)
    assert [lacking in tool[list(tool).index("--metrics") + 1] for _, tool in fake.ran] == [True, False]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("==WARNING== No kernels were profiled.", "saw no kernel"),
        ("==ERROR== unrecognised option '--import-source'.", "takes other options"),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute.", "not compatible"),
        ("", "printed no counters"),
    ],
)
def test_a_run_without_a_report_says_why(said: str, words: str) -> None:
    found = counting(FakeNcu(said=said, reports=False))
    assert isinstance(found, Refusal)
    assert words in found.why


@pytest.mark.parametrize("cell", ["nan", "no data", ""])
def test_numbers_that_are_none_are_no_profile(cell: str) -> None:
    header = '"ID","Kernel Name","Grid Size","Block Size","gpu__time_duration.sum"\n"","","","","ns"\n'
    found = counting(FakeNcu(), table=f'{header}"0","k","(1, 1, 1)","(32, 1, 1)","{cell}"\n')
    assert isinstance(found, Refusal)
    assert "no counters" in found.why


def test_five_hundred_launches_are_said_to_be_the_first_few() -> None:
    header = '"ID","Kernel Name","Grid Size","Block Size","gpu__time_duration.sum"\n"","","","","ns"\n'
    rows = "".join(f'"{n}","k","(1, 1, 1)","(32, 1, 1)","2,000"\n' for n in range(MOST_LAUNCHES))
    found = counting(FakeNcu(), table=header + rows)
    assert isinstance(found, Counted)
    assert found.limited


def test_a_call_that_fails_under_ncu_is_told() -> None:
    found = counting(FakeNcu(failure=Failure(Reason.LAUNCH_ERROR, "cudaErrorNoDevice")))
    assert found == Refusal("the call failed under ncu: cudaErrorNoDevice")


def test_a_run_that_does_not_end_is_told_with_its_bound() -> None:
    assert "longer than 60 s" in explain_missing_report("", "2025.3", "it ran longer than 60 s of wall-clock time")


def test_no_metric_is_asked_twice() -> None:
    assert len(set(metric_names())) == len(metric_names())
