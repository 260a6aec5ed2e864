"""The store of measured ceilings."""

import re
from pathlib import Path

from pydantic import ValidationError

from warpsmith.base import Home, write_atomic
from warpsmith.records import Ceilings


def ceilings_path(gpu: str, driver: str, probe: str) -> Path:
    """Return the file of a GPU's measured ceilings."""
    # Another driver or another probe measures other rates, so both are part of the name and old files are
    # never read.
    name = re.sub(r"[^a-z0-9.]+", "-", f"{gpu} {driver} {probe}".lower()).strip("-")
    return Home.locate().data / "ceilings" / f"{name}.json"


def load_ceilings(gpu: str, driver: str, probe: str) -> Ceilings | None:
    """Load stored ceilings, or None if missing or damaged."""
    try:
        return Ceilings.parse(ceilings_path(gpu, driver, probe).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def save_ceilings(ceilings: Ceilings, driver: str, probe: str) -> Path:
    """Store ceilings atomically; return their file."""
    path = ceilings_path(ceilings.gpu, driver, probe)
    write_atomic(path, ceilings.text() + "\n")
    return path
