"""An SVG as a PNG, by whatever program of this machine can draw one."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from warpsmith.base import MachineError, UsageError, check_writable

FORMS = (".svg", ".png")
DRAW_S = 60
WAY_OUT = "write a .svg instead, or install one: apt-get install librsvg2-bin, or pip install cairosvg"
PROGRAMS = {
    "rsvg-convert": ("rsvg-convert", "--zoom=2", "--output={png}", "{svg}"),
    "cairosvg": ("cairosvg", "{svg}", "--scale", "2", "--output", "{png}"),
    "inkscape": ("inkscape", "--export-type=png", "--export-dpi=192", "--export-filename={png}", "{svg}"),
}


def check_plot(path: Path | None) -> None:
    """That a plot can be written there in that form, before anything long is done."""
    if path is None:
        return
    if path.suffix not in FORMS:
        raise UsageError(f"Plot {path} has the form {path.suffix or 'of no suffix'}; use {' or '.join(FORMS)}.")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"Plot {path} cannot be written: folder {path.absolute().parent} does not exist.")
    check_writable(path)
    if path.suffix == ".png":
        _drawer()


def to_png(svg: str) -> bytes:
    """The picture at twice its size."""
    words = PROGRAMS[_drawer()]
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "plot.svg", Path(folder) / "plot.png"
        source.write_text(svg)
        command = [word.format(svg=source, png=made) for word in words]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=DRAW_S)
        if done.returncode != 0 or not made.exists():
            raise MachineError(f"{words[0]} drew no picture: {done.stderr[-300:].strip()}. To go on, {WAY_OUT}.")
        return made.read_bytes()


def _drawer() -> str:
    found = next((name for name in PROGRAMS if shutil.which(name)), None)
    if found is None:
        raise MachineError(f"No program that draws a PNG is on PATH ({', '.join(PROGRAMS)}): {WAY_OUT}.")
    return found
