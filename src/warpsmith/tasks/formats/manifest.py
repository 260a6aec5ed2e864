"""`task.toml` as data. Runs no code and loads no torch."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from warpsmith.base import UsageError, evaluate_formula, find_nearest, read_text
from warpsmith.records import (
    Axis,
    Case,
    Direction,
    Dtype,
    Family,
    Group,
    Heldout,
    Init,
    Model,
    Precision,
    Reach,
    Tolerance,
    WorkFormulas,
)
from warpsmith.tasks.inputs import FAMILIES

ELEMENTS = 1 << 33  # product of a case's axes past which no GPU of today holds the tensors


class AxisEntry(Model):
    """An axis of the file; its name is the key."""

    meaning: str
    maximum: int = Field(gt=0)


class CaseEntry(Model):
    """A case of the file, for several element types."""

    name: str = Field(min_length=1)
    group: Group
    axes: Mapping[str, int]
    dtypes: tuple[Dtype, ...] = (Dtype.FLOAT32,)
    inits: tuple[Init, ...] = (Init.DEFAULT,)
    families: tuple[Family, ...] = (Family.NORMAL,)

    def cases(self) -> tuple[Case, ...]:
        """Return one case per element type, with the families that fit the type."""
        shared = {"group": self.group, "axes": self.axes, "inits": self.inits}
        # The name of a case with one element type has no suffix, so that records of older versions stay comparable.
        names = {d: f"{self.name}-{d}" if len(self.dtypes) > 1 else self.name for d in self.dtypes}
        fit = {d: [family for family in self.families if FAMILIES[family].fits(d)] for d in self.dtypes}
        return tuple(
            Case.model_validate({"name": names[d], "dtype": d, "families": fit[d], **shared}) for d in self.dtypes
        )


class HeldoutEntry(Model):
    """Held-out ranges of the file: `rows = [1, 4096]`, or `[low, high, multiple]`."""

    axes: Mapping[str, tuple[int, int] | tuple[int, int, int]]
    dtypes: tuple[Dtype, ...] = (Dtype.FLOAT32,)
    inits: tuple[Init, ...] = (Init.DEFAULT,)
    families: tuple[Family, ...] = (Family.NORMAL,)
    require: tuple[str, ...] = ()
    count: int = Field(default=5, gt=0)

    def heldout(self) -> Heldout:
        """Return the ranges as a task holds them."""
        reaches = {
            name: Reach(low=span[0], high=span[1], multiple=span[2] if len(span) == 3 else 1)
            for name, span in self.axes.items()
        }
        return Heldout.model_validate(self.model_dump(exclude={"axes"}) | {"axes": reaches})


class Manifest(Model):
    """The whole file."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    description: str = Field(min_length=10)
    outputs: tuple[str, ...] = ("out",)
    saved: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    axes: Mapping[str, AxisEntry]
    tolerance: Tolerance
    precision: Precision = Precision()
    cost: Mapping[Direction, WorkFormulas]
    cases: tuple[CaseEntry, ...] = Field(min_length=1)
    heldout: HeldoutEntry | None = None

    def every_case(self) -> tuple[Case, ...]:
        """Return the cases of all element types."""
        return tuple(case for entry in self.cases for case in entry.cases())

    def every_axis(self) -> tuple[Axis, ...]:
        """Return the axes with their names."""
        return tuple(Axis(name=name, **entry.model_dump()) for name, entry in self.axes.items())


def read_manifest(path: Path) -> Manifest:
    """Read a manifest. Raise UsageError with file, line and key if it is invalid."""
    text = read_text(path)
    try:
        manifest = Manifest.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}.") from None
    except ValidationError as error:
        raise UsageError(_explain_error(path, text, error)) from None
    for place, entry in enumerate(manifest.cases):
        # TOML gives no positions, so the line is searched in the text.
        _check_case(f"{path}:{_line(text, ('cases', place))}: case '{entry.name}'", manifest, entry)
    _check_formulas(path, manifest)
    return manifest


def _explain_error(path: Path, text: str, error: ValidationError) -> str:
    """Return the message of the first error."""
    first = error.errors()[0]
    given = f" (given {first['input']!r})" if first["type"] != "missing" else ""
    key = ".".join(str(part) for part in first["loc"])
    return f"{path}:{_line(text, first['loc'])}: key '{key}': {first['msg']}{given}."


def _line(text: str, keys: tuple[str | int, ...]) -> int:
    """Return the line of the deepest known key."""
    lines, at = text.splitlines(), 0
    for key, after in zip(keys, (*keys[1:], ""), strict=True):
        word = re.compile(rf"(^|[\s\[{{.,\"]){re.escape(str(key))}\s*(=|\]|\.)")
        hits = [i for i in range(at, len(lines)) if isinstance(key, str) and word.search(lines[i])]
        place = after if isinstance(after, int) and lines[hits[0] if hits else 0].startswith("[[") else 0
        at = hits[place] if place < len(hits) else at
    return at + 1


def _check_case(where: str, manifest: Manifest, case: CaseEntry) -> None:
    """Raise UsageError for unknown axes, sizes or element types of a case."""
    for name, size in case.axes.items():
        if name not in manifest.axes:
            near = find_nearest(name, manifest.axes)
            raise UsageError(f"{where}: axis '{name}' does not exist; known are {', '.join(near or manifest.axes)}.")
        if not 1 <= size <= manifest.axes[name].maximum:
            raise UsageError(f"{where}: axis '{name}' is {size}; allowed are 1 to {manifest.axes[name].maximum}.")
    for dtype in case.dtypes:
        if not any(FAMILIES[family].fits(dtype) for family in case.families):
            raise UsageError(f"{where}: {dtype} has no room for {', '.join(case.families)}; add the family normal.")
    if missing := set(manifest.axes) - set(case.axes):
        raise UsageError(f"{where}: no size for axis {', '.join(sorted(missing))}.")


def _check_formulas(path: Path, manifest: Manifest) -> None:
    """Raise UsageError for a formula that cannot be evaluated."""
    # Formulas are tried on one case, so that a wrong name is reported when the file is read, not in a search.
    case = manifest.every_case()[0]
    names = case.variables
    formulas = [part for cost in manifest.cost.values() for part in (cost.flops, cost.bytes)]
    requires = manifest.heldout.require if manifest.heldout else ()
    sums = [manifest.tolerance.of(direction).reduction for direction in Direction]
    try:
        for formula in (*formulas, *requires, *sums):
            evaluate_formula(formula, names)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
