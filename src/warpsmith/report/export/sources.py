"""The C++ of an exported package: what is compiled around a kernel's text, which itself stays as it was evaluated."""

from collections.abc import Mapping

from warpsmith.base import UsageError
from warpsmith.languages.nvcc import HEADERS, SOURCE, unit
from warpsmith.records import Candidate, Failure, mark_name, mark_source


def kernel_sources(candidate: Candidate, why: str = "") -> Mapping[str, str]:
    """The files of one direction by their names in the folder of kernels: the kernel, and the unit that includes it.

    A kernel that is unproven says why in its name and in its first line.
    """
    text = unit(candidate)
    if isinstance(text, Failure):
        raise UsageError(f"The {candidate.direction} kernel cannot be compiled: {text.detail}")
    whole = f'#line 1 "{SOURCE}"\n{candidate.source}\n'
    name = f"{mark_name(candidate.direction, why)}.cu"
    included = text.replace(whole, f'#include "{name}"\n', 1)
    head = "// What is compiled: a header, the values that the tunables were evaluated with, the kernel.\n"
    return {name: mark_source(candidate.source, why), f"{candidate.direction}_unit.cu": head + included}


def header_files() -> Mapping[str, str]:
    """The headers that kernels are evaluated with, by their names in the folder of kernels."""
    paths = [path for path in sorted(HEADERS.rglob("*")) if path.is_file()]
    return {f"include/{path.relative_to(HEADERS)}": path.read_text() for path in paths}
