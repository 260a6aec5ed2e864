"""A kernel as an installable Python package."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from warpsmith import __version__
from warpsmith.base import UsageError, digest
from warpsmith.languages.nvcc import DIALECT, EXTENDED_LAMBDA, HEADERS, SOURCE, translation_unit
from warpsmith.records import (
    UNPROVEN,
    Candidate,
    Direction,
    Failure,
    MeasuredScore,
    Record,
    Role,
    Task,
    Verdict,
    mark_name,
    mark_source,
    require_proven,
    score,
    unproven_reason,
)
from warpsmith.report.export.operator import one_line, operators, python_names
from warpsmith.report.export.reference import examples, reference

if TYPE_CHECKING:
    from warpsmith.report.export.reference import Value

FORMS = Path(__file__).parent / "templates"
NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")
# A package is compiled once for many calls: host code is optimized too, and lambdas work in any text.
FLAGS = ("-O2", *DIALECT, EXTENDED_LAMBDA, "-Xcompiler=-fvisibility=hidden")
LINKED = {"cublas": "-lcublas", "cublaslt": "-lcublasLt", "cudnn": "-lcudnn"}


@dataclass(frozen=True)
class Package:
    """The content of a package: its name, the task, a record per direction, and arguments for its test."""

    name: str
    task: Task
    records: Mapping[Direction, Record]
    arguments: "Mapping[str, Sequence[Value]]" = field(default_factory=dict)  # forward's, by the case's name
    thing: str = ""  # what a user's file calls the function
    allow_unproven: bool = False

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise UsageError(f"Package name {self.name!r} is none: lower-case letters, digits and _ after a letter.")
        for direction, record in self.records.items():
            _require_passed(record, direction, self.task)
            if not self.allow_unproven:
                claim = " --claim" if record.environment.hardware.startswith("cuda") else ""
                cure = f"`warpsmith eval {self.task.name} KERNEL{claim}` evaluates one fully"
                require_proven(record, f"The {direction} kernel", cure)

    @property
    def unproven(self) -> Mapping[Direction, str]:
        """Return why each kernel is unproven; empty for a fully evaluated kernel."""
        return {direction: unproven_reason(record) for direction, record in self.records.items()}

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Return the kernels, forward first."""
        return tuple(self.records[direction].candidate for direction in Direction if direction in self.records)


def default_name(task: str) -> str:
    """Return an importable package name."""
    plain = re.sub(r"[^a-z0-9_]", "_", task.lower()).strip("_")
    # Python's module names begin with a letter.
    return f"{plain}_kernel"[:60] if plain[:1].isalpha() else f"kernel_{plain}"[:60]


def package_files(package: Package) -> dict[str, str]:
    """Return the package's files by path."""
    inside = f"src/{package.name}"
    files = {
        "pyproject.toml": _filled("pyproject.toml.in", package),
        "README.md": _unproven_lines(package) + _filled("README.md.in", package),
        "LICENSE": (FORMS / "LICENSE").read_text(),
        "tests/test_against_reference.py": _filled("test_against_reference.py.in", package),
        "tests/examples.json": _json(examples(package.task, tuple(package.records), package.arguments)),
        f"{inside}/__init__.py": operators(
            package.name, package.task, {one.direction: one.language for one in package.candidates}
        ),
        f"{inside}/building.py": _filled("building.py.in", package),
        f"{inside}/calling.py": (FORMS / "calling.py.in").read_text(),
        f"{inside}/reference.py": reference(package.task, package.thing),
    }
    files |= {f"{inside}/kernels/{name}": text for name, text in header_files().items()}
    for one in package.candidates:
        sources = kernel_sources(one, package.unproven[one.direction])
        files |= {f"{inside}/kernels/{name}": text for name, text in sources.items()}
        files[f"{inside}/{_record_name(one.direction)}"] = package.records[one.direction].text() + "\n"
    return files


def _unproven_lines(package: Package) -> str:
    """Return the first lines of the README for unproven kernels."""
    lines = [f"**{UNPROVEN}: the {direction} kernel: {why}.**" for direction, why in package.unproven.items() if why]
    return "".join(f"{line}\n\n" for line in lines)


def _require_passed(record: Record, direction: Direction, task: Task) -> None:
    """Raise UsageError unless the record is of this task, up to date and a pass."""
    found = record.candidate
    if (found.task, found.direction) != (task.name, direction):
        raise UsageError(f"The record is of {found.task}, {found.direction}; expected {task.name}, {direction}.")
    # An exported kernel would otherwise carry a record that contradicts it.
    if record.concluded is not Verdict.PASS:
        raise UsageError(
            f"The {direction} kernel's record says {record.concluded}; only a kernel that passed is exported. "
            f"warpsmith eval {task.name} KERNEL says why."
        )
    # A record of an older task version proves nothing for the present inputs and bounds.
    if record.task_version != task.version:
        raise UsageError(
            f"Task {task.name} has changed since the record of the {direction} kernel was made. Evaluate the kernel "
            "again: warpsmith eval keeps the new record."
        )


def _filled(form: str, package: Package) -> str:
    task, name = package.task, package.name
    # Only libraries that a kernel mentions are linked, so that the package needs no others.
    libraries = [flag for library, flag in LINKED.items() if library in task.libraries and _mentions(package, library)]
    fast = ["--use_fast_math"] if task.precision.fast_math else []
    allowed = [f"-DWARPSMITH_LIBRARY_{library.upper()}=1" for library in task.libraries]
    words = {
        "name": name,
        "version": "0.1.0",
        "summary": one_line(task.description),
        # A new text builds in a new folder, so an old library is never loaded.
        "build": digest(*(one.id for one in package.candidates))[:12],
        "flags": [*FLAGS, *fast, *allowed],
        "libraries": libraries,
        "usage": "\n".join(_usage(name, task, one.direction) for one in package.candidates),
        "gradient": _gradient(package),
        "evidence": "\n".join(_evidence(package.records[one.direction]) for one in package.candidates),
        "records": "\n".join(f"- `src/{name}/{_record_name(one.direction)}`" for one in package.candidates),
        "regrade": shlex.join(
            ["warpsmith", "regrade", *(f"src/{name}/{_record_name(one.direction)}" for one in package.candidates)]
        ),
        "warpsmith": __version__,
    }
    return Template((FORMS / form).read_text()).substitute(words)


def _mentions(package: Package, library: str) -> bool:
    return any(library in one.source.lower() for one in package.candidates)


def _record_name(direction: Direction) -> str:
    return f"record_{direction}.json"


def _usage(name: str, task: Task, direction: Direction) -> str:
    signature = python_names(task.signature(direction))
    given = ", ".join(argument.name for argument in signature.arguments)
    return f"{', '.join(signature.results)} = {name}.{direction}({given})"


def _gradient(package: Package) -> str:
    if len(package.records) < len(Direction):
        (only,) = package.records
        return f"It has the {only} direction alone, so gradients do not flow through it."
    forward, backward = (package.task.signature(direction) for direction in Direction)
    kept = [a.name for a in backward.arguments if a.role is Role.SAVED and a.name not in forward.results]
    text = "Gradients flow through `forward` by the backward kernel."
    if not kept:
        return text
    return (
        f"{text} What it needs beside the arguments ({', '.join(kept)}) is computed by torch's operators when a "
        "gradient is asked for: a forward kernel returns its results alone. That time is in no record."
    )


def _evidence(record: Record) -> str:
    """Return one line about a record: checked calls and speed, measured or modelled."""
    candidate, checked, scored = record.candidate, record.checked, score(record)
    parts = [f"- {candidate.direction} on {record.environment.device}"]
    if checked is not None:
        parts.append(f"{checked.calls} calls on {len(checked.cases)} cases were right against float64")
    if isinstance(scored, MeasuredScore):
        parts.append(
            f"{scored.value:.3f} times as fast as torch's best mode ({scored.low:.3f} to {scored.high:.3f}), "
            f"geometric mean of {scored.cases} cases"
        )
    elif scored is not None:
        parts.append(f"{scored.us:.2f} µs by a model of the GPU, geometric mean of {scored.cases} cases, not measured")
    macros = " ".join(f"{name}={value}" for name, value in sorted(candidate.macros.items()))
    return "; ".join([*parts, *([f"tuned to {macros}"] if macros else [])]) + "."


def _json(value: object) -> str:
    return json.dumps(value, indent=1) + "\n"


def kernel_sources(candidate: Candidate, why: str = "") -> Mapping[str, str]:
    """Return the files of one direction: the kernel and the unit that includes it.

    An unproven kernel has the reason in its file name and its first line.
    """
    text = translation_unit(candidate)
    if isinstance(text, Failure):
        raise UsageError(f"The {candidate.direction} kernel cannot be compiled: {text.detail}")
    whole = f'#line 1 "{SOURCE}"\n{candidate.source}\n'
    name = f"{mark_name(candidate.direction, why)}.cu"
    # The kernel stays a file of its own; the unit includes it in place of its text.
    included = text.replace(whole, f'#include "{name}"\n', 1)
    head = "// What is compiled: a header, the values that the tunables were evaluated with, the kernel.\n"
    return {name: mark_source(candidate.source, why), f"{candidate.direction}_unit.cu": head + included}


def header_files() -> Mapping[str, str]:
    """Return the headers that kernels are evaluated with, by path in the folder of kernels."""
    paths = [path for path in sorted(HEADERS.rglob("*")) if path.is_file()]
    return {f"include/{path.relative_to(HEADERS)}": path.read_text() for path in paths}
