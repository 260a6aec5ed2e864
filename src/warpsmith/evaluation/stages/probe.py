"""Small siblings of large cases, from which counters are extrapolated."""
# A full timing case takes minutes on the virtual GPU. Counters are nearly polynomials of the sizes:
# measured at two or three sizes an axis, they are extrapolated axis by axis. This module knows no
# counter.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import log2, prod

from warpsmith.base import evaluate_formula
from warpsmith.evaluation.check import case_work
from warpsmith.records import Case, Direction, Group, Task

WORK = 4e6  # operations of all siblings of a case together: a fraction of a second on the virtual GPU
# Above this, when every axis is as small as it may be, a case is not probed: a few seconds. Products run faster.
MOST_WORK, MOST_DENSE_WORK, MOST_FILLED_WORK, HEAVY = 3e7, 2.4e8, 1e9, 4.5e8
MOVED = 0.5  # operations that stand for reading or writing a value, in a task that does hardly anything else
MOST_AXES = 3
MOST_CASES = 3
DENSE = 16.0  # operations a byte from which a task is a product in tiles, not a pass over rows
# How small an axis may be cut: below, tiles are not filled, or rows that did not fit into registers suddenly do.
LONG, TILE, INNER = 16384, 128, 64
# The sides of a product that have tiles for every multiprocessor: for less, hosts take other kernels, so that what is
# seen of smaller ones says nothing of large ones. One size stands for such an axis.
FILLED = 1536
ROWS = (144, 16)  # more rows than SMs, so that a host that splits few rows does not; fewer where that costs too much
ALIGNED = 16
SIDE, IMAGES = 8, 4  # small images that large ones are taken as, and how many fill a tile of pixels
COUNTS = ("batch", "heads")  # of equal things, of which one stands for all
ROWLIKE = ("rows", "seq", "tokens")
FLOORS = {"inner": INNER, "seq": 64, "channels": 4}  # of a product; of its other axes a tile


@dataclass(frozen=True)
class Probe:
    """A case with the smaller sizes that stand for it."""

    # An axis that grows linearly in the work has two sizes, a square one three, and an axis along which
    # everything grows in proportion one. `alike` are the axes of an equal problem, where two counts of
    # equal things are joined. `moved` is the ratio of moved bytes where the sizes do not give it.

    case: Case
    alike: Mapping[str, int]
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    moved: float | None = None

    def siblings(self) -> list[Case]:
        """Return the cases to run, named after their sizes."""
        return [self._sibling(chosen) for chosen in product(*self.sizes.values())]

    @property
    def growth(self) -> float:
        """The approximate work ratio to the largest sibling."""
        return prod((self.alike[name] / sizes[-1]) ** max(1, len(sizes) - 1) for name, sizes in self.sizes.items())

    @property
    def across(self) -> float:
        """The size ratio along axes with one size."""
        return prod(self.alike[name] / sizes[0] for name, sizes in self.sizes.items() if len(sizes) == 1)

    def _sibling(self, chosen: Sequence[int]) -> Case:
        """Return the case of one choice of sizes."""
        axes = dict(zip(self.sizes, chosen, strict=True))
        words = ",".join(f"{name}={size}" for name, size in axes.items())
        update = {"name": f"{self.case.name}@{words or 'whole'}", "axes": {**self.alike, **axes}}
        return self.case.model_copy(update=update)

    def carried(self, values: Sequence[float]) -> float:
        """Extrapolate a quantity from its values at the siblings."""
        # Never below the largest value: a polynomial through noisy points may fall.
        weights = [_weights(sizes, self.alike[name]) for name, sizes in self.sizes.items()]
        total = sum(prod(part) * value for part, value in zip(product(*weights), values, strict=True))
        return max(total, *values)


def probes(task: Task, direction: Direction) -> tuple[Probe, ...]:
    """Return up to three timing cases with siblings, else the largest."""
    # Small, middle and large, so that a kernel that is good at one size only is found. If none is cheap,
    # the largest one that runs at all.
    found: dict[str, Probe] = {}
    for case in task.group(Group.TIMING):
        one = probe(task, direction, case)
        if one is not None:
            found.setdefault(str(sorted(case.axes.items())), one)
    ordered = sorted(found.values(), key=lambda one: case_work(task, direction, one.case))
    cheap = [one for one in ordered if _cheap(task, direction, one)]
    if not cheap:
        return tuple(ordered[-1:])
    if len(cheap) <= MOST_CASES:
        return tuple(cheap)
    return (cheap[len(cheap) // 3], cheap[2 * len(cheap) // 3], cheap[-1])


def timed(task: Task, direction: Direction) -> tuple[Probe, ...]:
    """Return every cheap timing case."""
    few = probes(task, direction)
    names = {one.case.name for one in few}
    found = (probe(task, direction, case) for case in task.group(Group.TIMING) if case.name not in names)
    return (*few, *(one for one in found if one and _cheap(task, direction, one)))


def probe(task: Task, direction: Direction, case: Case) -> Probe | None:
    """Return a case's siblings, or None if too expensive."""
    filled = _filled(task, direction, case)
    if filled is not None:
        return filled
    tried = [_cut(task, direction, case, _floors(task, direction, case, rows)) for rows in ROWS]
    found = [one for one in tried if one is not None]
    cheap = (one for one in found if _cheap(task, direction, one))
    return next(cheap, found[-1] if found else None)


def _cut(task: Task, direction: Direction, case: Case, floors: Mapping[str, int]) -> Probe | None:
    """Return a case with axes halved until cheap, or None."""
    # The held-out rules of the task also hold for siblings: a size that the task forbids could fail a
    # correct kernel.
    alike = _joined(case) if dense(task, direction, case) else case.axes
    chosen = Probe(case, alike)
    for name, floor in floors.items():
        points = _degree(task, direction, case, name) + 1
        size, least = alike[name], floor << (points - 1)
        while size > least and len({*chosen.sizes, name}) <= MOST_AXES and _heavy(task, direction, chosen):
            size = max(size // 2, least)
            base = _even(size >> (points - 1))
            chosen = replace(chosen, sizes={**chosen.sizes, name: tuple(base << step for step in range(points))})
    allowed = task.heldout is None or all(_legal(task.heldout.require, one) for one in chosen.siblings())
    return chosen if allowed and _cost(task, direction, chosen) <= HEAVY else None


def _filled(task: Task, direction: Direction, case: Case) -> Probe | None:
    """Return two siblings that differ in depth, or None if unsuitable."""
    # Products with fewer tiles than multiprocessors take other kernels (split-K), so the sides stay at a
    # size that fills the GPU, and only the depth is extrapolated.
    axes, rows = case.axes, "tokens" if "tokens" in case.axes else "rows"
    plain = {*axes, "batch"} == {"batch", rows, "inner", "cols"} and dense(task, direction, case)
    if not plain or direction is not Direction.FORWARD:
        return None
    alike = {**axes, "batch": 1, rows: axes["batch"] * axes[rows]} if "batch" in axes else axes
    across = min(axes["cols"], FILLED)
    down = _even(FILLED**2 // across)
    if alike[rows] < down or axes["inner"] <= 2 * INNER:
        return None
    chosen = Probe(case, alike, {rows: (down,), "cols": (across,), "inner": (INNER, 2 * INNER)})
    full, largest = (_values(task, direction, one) for one in (case, chosen.siblings()[-1]))
    return replace(chosen, moved=full / largest)


def _joined(case: Case) -> Mapping[str, int]:
    """Return the axes with batch and heads joined, and images split."""
    axes = case.axes
    if {"batch", "heads"} <= set(axes):
        return {**axes, "batch": 1, "heads": axes["batch"] * axes["heads"]}
    if {"batch", "height", "width"} <= set(axes) and axes["height"] % SIDE == axes["width"] % SIDE == 0:
        parts = axes["height"] * axes["width"] // SIDE**2
        return {**axes, "height": SIDE, "width": SIDE, "batch": axes["batch"] * parts}
    return axes


def _even(size: int) -> int:
    """Return a size divisible by 16, if large enough."""
    return size - size % ALIGNED if size >= ALIGNED else size


def _cheap(task: Task, direction: Direction, one: Probe) -> bool:
    """Return whether a search can afford the siblings."""
    most = MOST_DENSE_WORK if dense(task, direction, one.case) else MOST_WORK
    return _cost(task, direction, one) <= (most if one.moved is None else MOST_FILLED_WORK)


def _heavy(task: Task, direction: Direction, probe: Probe) -> bool:
    """Return whether the siblings exceed the usual work."""
    return _cost(task, direction, probe) > WORK


def _legal(formulas: Sequence[str], case: Case) -> bool:
    """Return whether a case satisfies all formulas."""
    return all(evaluate_formula(formula, case.axes) for formula in formulas)


def _floors(task: Task, direction: Direction, case: Case, few: int) -> dict[str, int]:
    """Return the axes to cut, with their least sizes."""
    # Counts of equal things are cut first and rows next; other axes are cut last.
    named = [axis.name for axis in task.axes if axis.name in case.axes]
    counts = {name: 1 for name in named if name in COUNTS and (name == "batch" or "kv_heads" not in named)}
    if dense(task, direction, case):
        tiled = {**dict.fromkeys(named, TILE), **_tiles(named, direction)}
        images = {"batch": IMAGES} if "height" in named else {}
        return _after({**counts, **images}, tiled)
    rows = {name: few for name in named if name in ROWLIKE}
    return _after({**counts, **rows}, dict.fromkeys(named, LONG))


def _after(first: Mapping[str, int], rest: Mapping[str, int]) -> dict[str, int]:
    """Return both mappings, the first one's keys first."""
    return {**first, **{name: floor for name, floor in rest.items() if name not in first}}


def _tiles(named: Sequence[str], direction: Direction) -> dict[str, int]:
    """Return the axes that may be shorter than a tile."""
    both = {"hidden", "inner"} <= set(named) or ("height" in named and "filters" not in named)
    both = both or (direction is Direction.BACKWARD and {"inner", "cols"} <= set(named))
    return {} if both else {name: floor for name, floor in FLOORS.items() if name in named}


def dense(task: Task, direction: Direction, case: Case) -> bool:
    """Return whether a case does much arithmetic a byte."""
    moved = _values(task, direction, case) * case.dtype.bytes
    return moved > 0 and case_work(task, direction, case) / moved > DENSE


def _degree(task: Task, direction: Direction, case: Case, name: str) -> int:
    """Return the power of an axis in the work."""
    # Measured by the task's own formula with the axis doubled: attention grows with the square of its
    # sequence.
    doubled = case.model_copy(update={"axes": {**case.axes, name: 2 * case.axes[name]}})
    return max(1, min(2, round(log2(case_work(task, direction, doubled) / case_work(task, direction, case)))))


def _cost(task: Task, direction: Direction, probe: Probe) -> float:
    """Return the operations of all siblings together."""
    return sum(
        max(case_work(task, direction, case), MOVED * _values(task, direction, case)) for case in probe.siblings()
    )


def _values(task: Task, direction: Direction, case: Case) -> float:
    """Return the elements that a case reads and writes."""
    return (task.bytes(direction, case) or 0.0) / case.dtype.bytes


def _weights(sizes: Sequence[int], at: int) -> list[float]:
    """Return Lagrange weights for the full size."""
    # The polynomial through the measured sizes, evaluated at `at`; a single size is scaled in proportion.
    if len(sizes) == 1:
        return [at / sizes[0]]
    return [prod((at - other) / (size - other) for other in sizes if other != size) for size in sizes]
