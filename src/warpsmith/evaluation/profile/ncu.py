"""One call profiled with Nsight Compute: counters and hot lines."""
# ncu writes a report file, and a second ncu reads it in a process without a GPU. Text that a candidate
# prints therefore never stands in the tables.

import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from warpsmith.evaluation.profile.metrics import TIME, metric_names
from warpsmith.evaluation.profile.ncu_table import Launch, Sampled, read_launches, read_lines
from warpsmith.languages.nvcc import SOURCE
from warpsmith.machines.cuda import ProfiledCall, UnderTool, Walls, run_under
from warpsmith.machines.hardware import InstalledTool, program
from warpsmith.machines.worker import Value

MOST_LAUNCHES = 32
RUN_S, READ_S = 60.0, 30.0
REPORT = "report"
CURE = (
    "load the nvidia kernel module with NVreg_RestrictProfilingToAdminUsers=0 (a line `options nvidia "
    "NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d), or give CAP_SYS_ADMIN (docker --cap-add=SYS_ADMIN)"
)
NO_METRIC = re.compile(r"Failed to find metric (?:regex:)?'?([\w.]+)'?")
NO_OPTION = re.compile(r"(?:unrecogni[sz]ed|unknown) (?:option|argument)[^\n]*", re.IGNORECASE)
ERROR = re.compile(r"^==ERROR== ?(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class ProfiledKernel:
    """A candidate to profile, with its arguments."""

    artifact: Path
    source: str
    entry: str
    values: Sequence[Value]
    runtime_folder: Path


@dataclass(frozen=True)
class Counted:
    """The launches and sampled lines of a report."""

    launches: tuple[Launch, ...]
    lines: tuple[Sampled, ...]
    walls: Walls
    limited: bool  # as many launches as were asked for: there may be more


@dataclass(frozen=True)
class Refusal:
    """The reason why a tool gave no profile."""

    why: str


Run: TypeAlias = Callable[[Sequence[str], ProfiledCall, Walls, float], UnderTool]
Read: TypeAlias = Callable[[Sequence[str]], str]


def count(
    subject: ProfiledKernel, walls: Sequence[Walls], run: Run = run_under, read: "Read | None" = None, tool: str = "ncu"
) -> Counted | Refusal:
    """Return a call's counters, or the last refusal."""
    # Confinements are tried from the strictest on: ncu does not work in each of them on every machine.
    found = program(tool)
    if found is None:
        return Refusal("ncu is not on PATH: install Nsight Compute (it comes with the CUDA toolkit)")
    refusal = Refusal("no confinement was allowed")
    for wall in walls:
        answer = _count(subject, found, wall, run, read or _read)
        if isinstance(answer, Counted):
            return answer
        refusal = answer
    return refusal


def command(ncu: str, folder: Path, metrics: Sequence[str]) -> list[str]:
    """Return ncu's command line."""
    # `--clock-control none`: ncu would otherwise lock the clocks to their base, and the times would not
    # be those of an evaluation.
    return [
        ncu,
        *("--clock-control", "none", "--target-processes", "all", "--launch-count", str(MOST_LAUNCHES)),
        *("--section", "SourceCounters", "--metrics", ",".join(metrics)),
        *("--import-source", "yes", "--source-folders", str(folder)),
        *("--force-overwrite", "--export", str(folder / REPORT)),
    ]


def explain_missing_report(said: str, version: str, stopped: str = "") -> str:
    """Return the reason for a missing report."""
    if "ERR_NVGPUCTRPERM" in said:
        return f"the driver keeps the GPU's counters for administrators (ERR_NVGPUCTRPERM): {CURE}"
    if stopped:
        return f"ncu {version} around the call was stopped: {stopped}"
    if missing := NO_OPTION.search(said):
        return f"ncu {version} is of a version that takes other options ({missing[0].strip()}); 2022.1 or newer does"
    if "No kernels were profiled" in said:
        return f"ncu {version} saw no kernel: the call launches none, or is over before ncu could reach it"
    errors = ERROR.findall(said)
    return f"ncu {version}: {errors[0].strip()}" if errors else f"ncu {version} printed no counters"


def _count(subject: ProfiledKernel, ncu: InstalledTool, walls: Walls, run: Run, read: Read) -> Counted | Refusal:
    """Profile under one confinement; return counters or a refusal."""
    # A report that is a symbolic link is refused: the folder belongs to the candidate's user, and the
    # second ncu runs with our rights.
    with tempfile.TemporaryDirectory(prefix="warpsmith-ncu-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / SOURCE).write_text(subject.source)
        made = ProfiledCall(subject.artifact, subject.entry, subject.values, subject.runtime_folder, folder)
        ended = _run_known(ncu, made, walls, run)
        if ended.failure is not None:
            return Refusal(f"the call failed under ncu: {ended.failure.detail}")
        report = folder / f"{REPORT}.ncu-rep"
        if not report.is_file() or report.is_symlink():
            return Refusal(explain_missing_report(ended.output, ncu.version, ended.stopped))
        launches = read_launches(read(_page(ncu, report, "raw")))
        if not any(TIME in launch.values for launch in launches):
            return Refusal(explain_missing_report(ended.output, ncu.version))
        lines = read_lines(read(_page(ncu, report, "source", "--print-source", "cuda,sass")))
        return Counted(launches, lines, walls, len(launches) >= MOST_LAUNCHES)


def _run_known(ncu: InstalledTool, made: ProfiledCall, walls: Walls, run: Run) -> UnderTool:
    """Run ncu without the metrics that it does not know."""
    # Metric names differ between GPUs and versions of ncu. ncu names an unknown one and stops, so it runs
    # again without that metric.
    metrics = list(metric_names())
    while True:
        ended = run(command(str(ncu.path), made.folder, metrics), made, walls, RUN_S)
        unknown = set(NO_METRIC.findall(ended.output)) & set(metrics)
        if not unknown:
            return ended
        metrics = [metric for metric in metrics if metric not in unknown]


def _page(ncu: InstalledTool, report: Path, page: str, *more: str) -> list[str]:
    """Return the command that prints a page of a report."""
    units = ("--print-units", "base")
    return [str(ncu.path), "--import", str(report), "--csv", "--page", page, *units, *more]


def _read(words: Sequence[str]) -> str:
    """Return a report's page as text; empty if unreadable."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=READ_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
