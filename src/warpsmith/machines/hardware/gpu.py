"""The NVIDIA GPUs of this machine, as the driver's own tool tells them."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

QUERY = "name,driver_version,memory.total,compute_cap"
PARAMETERS = Path("/proc/driver/nvidia/params")
STATUS = Path("/proc/self/status")
SYS_ADMIN = 21  # the bit of CAP_SYS_ADMIN


@dataclass(frozen=True)
class Gpu:
    """One GPU: its name, the driver, its memory and its compute capability."""

    name: str
    driver: str
    memory_mib: int
    capability: str

    @property
    def arch(self) -> str:
        """The architecture to compile for, with its accelerated variant from Hopper on: `wgmma` needs it."""
        major, _, minor = self.capability.partition(".")
        return f"sm_{major}{minor}" + ("a" if major.isdigit() and int(major) >= 9 else "")


_known: dict[str | None, tuple[Gpu, ...]] = {}  # by the tool that was asked: a machine keeps its GPUs


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that nvidia-smi lists; none when there is no driver or it does not answer."""
    tool = shutil.which("nvidia-smi")
    found = _known.get(tool) or _listed(asked(f"--query-gpu={QUERY}"))
    _known[tool] = found
    return found


def _listed(answer: str) -> tuple[Gpu, ...]:
    return tuple(parse_row(line) for line in answer.splitlines() if line.count(",") == QUERY.count(","))


def asked(query: str) -> str:
    """What nvidia-smi says to a query; nothing when there is no driver or it does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    command = [tool, query, "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (subprocess.SubprocessError, OSError):
        return ""


def parse_row(line: str) -> Gpu:
    """One line of nvidia-smi's answer."""
    name, driver, memory, capability = (part.strip() for part in line.split(","))
    return Gpu(name, driver, int(memory) if memory.isdigit() else 0, capability)


def profiling_restricted(parameters: Path = PARAMETERS) -> bool | None:
    """Whether the driver keeps hardware counters for administrators; None when it does not say."""
    if not parameters.exists():
        return None
    for line in parameters.read_text().splitlines():
        if line.startswith("RmProfilingAdminOnly:"):
            return line.split(":")[1].strip() == "1"
    return None


def utilization() -> int | None:
    """How busy the first GPU is, in percent; None when nobody says."""
    answer = asked("--query-gpu=utilization.gpu").partition("\n")[0].strip()
    return int(answer) if answer.isdigit() else None


def administers(status: Path = STATUS) -> bool:
    """Whether this process has CAP_SYS_ADMIN, which counters need where the driver restricts them; root may lack it."""
    if not status.exists():
        return False
    for line in status.read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split(":")[1], 16) >> SYS_ADMIN & 1)
    return False
