"""Programs on PATH and their versions."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class InstalledTool:
    """A program on PATH with its version."""

    path: Path
    version: str


def program(name: str, flag: str = "--version") -> InstalledTool | None:
    """Find a program on PATH; return None without one."""
    found = shutil.which(name)
    return InstalledTool(Path(found), version(found, flag)) if found else None


def version(path: str, flag: str) -> str:
    """Return a program's first dotted number, or an empty string."""
    try:
        answer = subprocess.run([path, flag], capture_output=True, text=True, timeout=20, check=False)
    except (subprocess.SubprocessError, OSError):
        return ""
    numbers = re.findall(r"\d+(?:\.\d+)+", answer.stdout + answer.stderr)
    return numbers[0] if numbers else ""
