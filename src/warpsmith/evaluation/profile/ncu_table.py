"""Parsing of the tables that `ncu --csv` prints."""

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

DIMENSIONS = re.compile(r"\d+")
SCALES = {"us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}  # of a time, to ns
BYTES = {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12}
SAMPLES = ("# Samples", "Warp Stall Sampling (All Samples)", "Samples", "# Samples (All Samples)")


@dataclass(frozen=True)
class Launch:
    """One launch with the metrics that have numbers."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    values: Mapping[str, float]


@dataclass(frozen=True)
class Sampled:
    """One source line with its samples."""

    kernel: str
    file: str
    line: int
    code: str
    samples: float


def read_launches(text: str) -> tuple[Launch, ...]:
    """Return the raw page's launches; empty without a table."""
    lines = text.splitlines()
    start = next((place for place, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return ()
    rows = list(csv.reader(line for line in lines[start:] if line.startswith('"')))
    if len(rows) < 3:
        return ()
    header, units = rows[0], rows[1]
    return tuple(_launch(header, units, row) for row in rows[2:] if len(row) == len(header))


def read_lines(text: str) -> tuple[Sampled, ...]:
    """Return the source page's sampled lines."""
    # ncu does not escape quotes of the source text, so the csv module cannot read this page; cells are
    # split at `","` instead.
    found: list[Sampled] = []
    file, kernel, header = "", "", list[str]()
    for line in text.splitlines():
        cells = line.strip().removeprefix('"').removesuffix('"').split('","')
        if cells[0] in ("File Path", "File Name"):
            file, header = cells[-1], []
        elif cells[0] == "Function Name":
            kernel = cells[-1]
        elif cells[0] == "Line No":
            header = cells
        elif header and cells[0].isdigit() and len(cells) >= len(header):
            found += _sampled(header, cells, file, kernel)
    return tuple(found)


def _launch(header: Sequence[str], units: Sequence[str], row: Sequence[str]) -> Launch:
    """Return one row of the raw page."""
    named = dict(zip(header, row, strict=True))
    values = {
        name: scaled
        for name, unit, cell in zip(header, units, row, strict=True)
        if "__" in name and (scaled := _number(cell, unit)) is not None
    }
    return Launch(named["Kernel Name"], _dimensions(named["Grid Size"]), _dimensions(named["Block Size"]), values)


def _number(cell: str, unit: str) -> float | None:
    """Return a number in base units, or None."""
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return value * SCALES.get(unit, BYTES.get(unit, 1.0)) if math.isfinite(value) else None


def _dimensions(text: str) -> tuple[int, int, int]:
    """Return three sizes; missing ones are 1."""
    found = [int(part) for part in DIMENSIONS.findall(text)]
    x, y, z = (*found, 1, 1, 1)[:3]
    return x, y, z


def _sampled(header: Sequence[str], cells: Sequence[str], file: str, kernel: str) -> Iterator[Sampled]:
    """Yield a row's line if it has samples."""
    # A source line that contains `","` gives surplus cells; they are joined again.
    surplus = len(cells) - len(header)
    column = next((header.index(name) for name in SAMPLES if name in header), None)
    if column is None:
        return
    samples = _number(cells[column + surplus], "")
    if samples:
        code = '","'.join(cells[1 : 2 + surplus]).strip()
        yield Sampled(kernel, PurePosixPath(file).name, int(cells[0]), code, samples)
