"""Held-out cases: shapes drawn with a secret seed."""

import random
import re
from collections.abc import Callable, Mapping
from math import gcd, lcm, prod

from warpsmith.base import UsageError, evaluate_formula
from warpsmith.records import Case, Direction, Dtype, Group, Heldout, Reach, Task
from warpsmith.tasks.inputs.families import FAMILIES

TRIES = 2000
LONG = "long_"  # how names of cases begin that are there for their sums alone
NEAR = "near_"  # and of those that are there for their time: about as large as a timing case
NEAR_CASES = 2
NEAR_SHARE = (0.6, 0.95)  # of the product of its sizes; never more, so that it fits where that does
NEAR_EVEN = 16  # a size keeps the powers of two in it up to this one, as sizes of real use have them
KIND = 32  # a number up to this one says what a case is (a kernel, a stride, groups, heads), not how large
NARROW, LONG_CASES = (Dtype.FLOAT16, Dtype.BFLOAT16), 3
TILES = (16, 64)  # what sizes of real use are multiples of, and kernels have plans of their own for
FITTING = 4  # tries of each kind to find a long case that fits
SHORT = 8  # multiples of an axis that is not the long one
Pick = Callable[[random.Random, int, int], int]


def heldout_cases(task: Task, seed: int) -> tuple[Case, ...]:
    """Draw the held-out cases of a seed; none for a task without ranges."""
    if task.heldout is None:
        return ()
    source = random.Random(seed)
    # Element types take turns from a secret start, so no place always has the same type.
    start = source.randrange(len(task.heldout.dtypes))
    found: list[Case] = []
    for place in range(task.heldout.count):
        axes = _drawn(task.name, task.heldout, source, place, [case.axes for case in found])
        dtype = task.heldout.dtypes[(start + place) % len(task.heldout.dtypes)]
        found.append(
            Case(
                name=f"heldout_{place}",
                group=Group.HELDOUT,
                axes=axes,
                dtype=dtype,
                inits=task.heldout.inits,
                families=tuple(family for family in task.heldout.families if FAMILIES[family].fits(dtype)),
            )
        )
    return tuple(found)


def long_cases(task: Task, seed: int) -> tuple[Case, ...]:
    """Draw cases of 16-bit types with one long axis of a sum and short other axes (first scheme).

    A sum kept in a 16-bit type shows if it is long; float32 has the precision gate.
    """
    if task.heldout is None or not (narrow := [dtype for dtype in task.heldout.dtypes if dtype in NARROW]):
        return ()
    source = random.Random(seed)
    summed = [axis for axis in task.heldout.axes if re.search(rf"\b{axis}\b", task.tolerance.reduction)]
    cases = [_long(task.heldout, axis, source.choice(narrow), source) for axis in summed]
    made = [case for case in cases if case is not None]
    return tuple(sorted(made, key=lambda case: -evaluate_formula(task.tolerance.reduction, case.axes))[:LONG_CASES])


def longest_cases(
    task: Task, direction: Direction, source: random.Random, fits: Callable[[Case], bool]
) -> tuple[Case, ...]:
    """Draw for each element type a case with a sum about as long as the ranges allow.

    A sum kept in a narrower type shows if it is long, and so does a kernel that is narrow from some row on. The
    widest type gets the axis of the longest sums, the others any axis of a sum.
    """
    if task.heldout is None:
        return ()
    formula, axes = task.tolerance.of(direction).reduction, task.heldout.axes
    summed = [axis for axis in axes if re.search(rf"\b{axis}\b", formula)]
    found: list[Case] = []
    for dtype in task.heldout.dtypes if summed else ():
        # The widest type gets the longest sum; narrow types get any summed axis.
        is_widest = dtype.bytes == max(one.bytes for one in task.heldout.dtypes)
        axis = max(summed, key=lambda name: axes[name].high) if is_widest else source.choice(summed)
        made = (_long(task.heldout, axis, dtype, source, pick) for pick in (_short, _lowest) for _ in range(FITTING))
        fitting = next((case for case in made if case is not None and fits(case)), None)
        if fitting is not None:
            found.append(fitting.model_copy(update={"name": f"{LONG}{axis}_{dtype}"}))
    return tuple(found)


def near_cases(task: Task, seed: int) -> tuple[Case, ...]:
    """Draw cases slightly smaller than large timing cases."""
    if task.heldout is None:
        return ()
    source = random.Random(f"near {seed}")
    timed = sorted(task.group(Group.TIMING), key=lambda case: prod(case.axes.values()))
    larger = timed[len(timed) // 2 :]
    drawn = [_near(task.heldout, case, source) for case in source.sample(larger, min(NEAR_CASES, len(larger)))]
    return tuple(case for case in drawn if case is not None)


def _near(heldout: Heldout, case: Case, source: random.Random) -> Case | None:
    """Draw a case near a timing case, or None."""
    moving = sum(name in heldout.axes and size > KIND for name, size in case.axes.items())
    for _ in range(TRIES // 10):
        # The root spreads one share over all moving axes: the product of sizes shrinks by about NEAR_SHARE.
        shares = {name: source.uniform(*NEAR_SHARE) ** (1 / max(1, moving)) for name in case.axes}
        axes = {name: _smaller(size, shares[name], heldout.axes.get(name)) for name, size in case.axes.items()}
        if axes != case.axes and all(evaluate_formula(formula, axes) for formula in heldout.require):
            return case.model_copy(update={"name": f"{NEAR}{case.name}", "group": Group.HELDOUT, "axes": axes})
    return None


def _smaller(size: int, share: float, reach: Reach | None) -> int:
    """Return about this share of a size with its powers of two; the size itself if that is impossible."""
    if reach is None or size <= KIND:
        return size
    # The step keeps the powers of two of the timing case and the multiple that the task requires.
    step = lcm(reach.multiple, gcd(size, NEAR_EVEN))
    found = round(size * share / step) * step
    return found if max(1, reach.low) <= found <= size else size


def _long(heldout: Heldout, axis: str, dtype: Dtype, source: random.Random, others: Pick | None = None) -> Case | None:
    """Draw a case with one long axis, or None."""
    for _ in range(TRIES // 10):
        axes = {
            name: _size(reach, source, _longest if name == axis else others or _short)
            for name, reach in heldout.axes.items()
        }
        if all(evaluate_formula(formula, axes) for formula in heldout.require):
            return Case(name=f"{LONG}{axis}", group=Group.HELDOUT, axes=axes, dtype=dtype, inits=heldout.inits)
    return None


def _drawn(
    name: str, heldout: Heldout, source: random.Random, place: int, taken: list[Mapping[str, int]]
) -> Mapping[str, int]:
    """Draw sizes that the task's formulas allow, different from earlier ones if the ranges permit."""
    spare: Mapping[str, int] | None = None
    for _ in range(TRIES):
        axes = _sizes(heldout.axes, source, place)
        if all(evaluate_formula(formula, axes) for formula in heldout.require):
            spare = axes
            if axes not in taken:
                return axes
    if spare is not None:
        return spare
    raise UsageError(
        f"Task {name}: no held-out sizes in {TRIES} draws satisfy {', '.join(heldout.require)}. Widen its ranges."
    )


def _sizes(reaches: Mapping[str, Reach], source: random.Random, place: int) -> Mapping[str, int]:
    """Draw every axis by the pick of this place; for ones, a single axis is one."""
    # The place decides the kind, so every evaluation has each kind of size.
    pick = PICKS[place % len(PICKS)]
    lone = source.choice(list(reaches)) if reaches else ""
    return {
        name: _size(reach, source, pick if pick is not _one or name == lone else _odd)
        for name, reach in reaches.items()
    }


def _size(reach: Reach, source: random.Random, pick: Pick) -> int:
    low, high = -(-reach.low // reach.multiple), reach.high // reach.multiple
    if low > high:
        raise UsageError(f"No multiple of {reach.multiple} lies from {reach.low} to {reach.high}. Widen the range.")
    return reach.multiple * pick(source, low, high)


def _any(source: random.Random, low: int, high: int) -> int:
    """Draw a value evenly in its logarithm."""
    return min(high, int(low * ((high + 1) / max(low, 1)) ** source.random())) if low > 0 else source.randint(low, high)


def _odd(source: random.Random, low: int, high: int) -> int:
    value = _any(source, low, high)
    return value if value % 2 else value + 1 if value < high else max(low, value - 1)


def _prime(source: random.Random, low: int, high: int) -> int:
    start = _any(source, low, high)
    upward = (value for value in range(start, min(high, start + 1000) + 1) if _is_prime(value))
    downward = (value for value in range(start, max(low, start - 1000) - 1, -1) if _is_prime(value))
    return next(upward, None) or next(downward, None) or _odd(source, low, high)


def _one(source: random.Random, low: int, high: int) -> int:
    return low


def _sixteens(source: random.Random, low: int, high: int) -> int:
    return _multiple(TILES[0], source, low, high)


def _sixty_fours(source: random.Random, low: int, high: int) -> int:
    return _multiple(TILES[1], source, low, high)


def _multiple(of: int, source: random.Random, low: int, high: int) -> int:
    """Draw a multiple of a tile; of the smaller tile, none of the larger, since kernels may have a plan for each.

    A range too short for the larger tile uses the smaller. A small range says what kind a case is: any value.
    """
    if high <= KIND:
        return _any(source, low, high)
    tile = of if high >= 2 * of else TILES[0]
    value = tile * _any(source, -(-low // tile), high // tile)
    return value - tile if tile == TILES[0] and value % TILES[1] == 0 and value > low else value


def _longest(source: random.Random, low: int, high: int) -> int:
    return source.randint(max(low, high * 3 // 4), high)


def _lowest(source: random.Random, low: int, high: int) -> int:
    return low


def _short(source: random.Random, low: int, high: int) -> int:
    return source.randint(min(high, max(low, SHORT // 2)), min(high, max(low, SHORT)))


def _is_prime(value: int) -> bool:
    return value > 1 and all(value % part for part in range(2, int(value**0.5) + 1))


# What the cases are, in turn: nothing divides a prime, odd sizes break vector loads, one breaks loops and strides, and
# what is right for those may be wrong where everything divides.
PICKS: tuple[Pick, ...] = (_prime, _odd, _one, _sixteens, _sixty_fours)
