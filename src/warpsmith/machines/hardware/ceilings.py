"""The store of measured ceilings: one file a GPU of this machine. Measures nothing itself."""

import re
from pathlib import Path

from pydantic import ValidationError

from warpsmith.base import Home, write_atomic
from warpsmith.records import Ceilings


def ceilings_path(gpu: str, driver: str, probe: str) -> Path:
    """Where a GPU's ceilings lie. A driver may clock it otherwise, a probe may see more: each its own."""
    name = re.sub(r"[^a-z0-9.]+", "-", f"{gpu} {driver} {probe}".lower()).strip("-")
    return Home.locate().data / "ceilings" / f"{name}.json"


def load_ceilings(gpu: str, driver: str, probe: str) -> Ceilings | None:
    """What was measured here before; None when nothing was, or by a version that kept something else."""
    try:
        return Ceilings.parse(ceilings_path(gpu, driver, probe).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def save_ceilings(ceilings: Ceilings, driver: str, probe: str) -> Path:
    """Keep them for the next profile on this GPU."""
    path = ceilings_path(ceilings.gpu, driver, probe)
    write_atomic(path, ceilings.text() + "\n")
    return path
