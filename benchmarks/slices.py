"""Choose the factors of the bound of slices: simulate honest arithmetic, and compare it with the check's own code.

    python benchmarks/slices.py [--seconds 120] [--tasks linear,softmax]

Three tables. Roundings: the error of sums of squares of roundings, beside the B of evaluation/check/sliced.py. Plain
sums: the error of sequential float32 sums, in v sqrt(K) of the size of their terms. Evaluations: for every task the
calls of whole check plans, answered by honest arithmetic in torch (once in float32 with one rounding at the end, once
with sums in order and a rounding after every operation); the largest ratio of a slice's error to its bound, and the
probability that one evaluation is refused, from a Gumbel distribution fitted to the largest ratio of calls of one
kind; the kind with the largest probability counts for all calls.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import exp, expm1, log10, pi, sqrt
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from warpsmith.evaluation.check import PlanScope, plan_steps
from warpsmith.evaluation.check.compare import Budget
from warpsmith.evaluation.check.run import CONFIRMED_BY
from warpsmith.evaluation.check.sliced import NEAR, PLAIN_SUM, RARE, ROUNDING, deciding_ratio
from warpsmith.evaluation.check.slices import slice_counts
from warpsmith.evaluation.check.terms import has_equal_terms, offset_ratio, slice_rule
from warpsmith.machines.virtual.machine import LIMITS
from warpsmith.records import Direction, Numbers, Task, Trial
from warpsmith.tasks.host import LocalTask, open_task
from warpsmith.tasks.inputs import Values, dtype_of, mapped
from warpsmith.tasks.reference import Problem, gradients, problem
from warpsmith.tasks.reference.program import Choosing, gradient_order
from warpsmith.tasks.suite import suite

Results = tuple[Tensor, ...]
SLICES, CHUNK = 100_000, 1 << 20  # of the first table, and the elements that are drawn at once
FITTED = 30  # calls of one kind from which a distribution is fitted
BLOCK = 8  # terms that a matrix unit adds at once
EULER = 0.5772156649
ALLOWED = 1e-4  # honest evaluations of which one slice or more is refused


class InOrder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Run torch's products and sums in order, a few terms at a time, as a simple kernel does."""

    def __init__(self, rounded_to: torch.dtype | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._rounded_to = rounded_to

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, found = func.__name__.split(".")[0], None
        if name in ("mm", "bmm"):
            found = _product(args[0], args[1])
        elif name in ("addmm", "baddbmm") and not kwargs:
            found = args[0] + _product(args[1], args[2])
        elif name == "sum" and len(args) > 1 and args[1] and len(args[1]) == 1 and args[0].dtype is torch.float32:
            found = _sum(args[0], args[1][0], len(args) > 2 and args[2])
        if found is None:
            found = func(*args, **(kwargs or {}))
        is_float = isinstance(found, Tensor) and found.dtype is torch.float32
        return found.to(self._rounded_to).float() if self._rounded_to is not None and is_float else found


def _product(a: Tensor, b: Tensor) -> Tensor:
    total = a[..., :0] @ b[..., :0, :]
    for first in range(0, a.shape[-1], BLOCK):
        total = total + a[..., first : first + BLOCK] @ b[..., first : first + BLOCK, :]
    return total


def _sum(x: Tensor, axis: int, keeps: bool) -> Tensor:
    total = torch.zeros_like(x.select(axis, 0))
    for part in x.unbind(axis):
        total = total + part
    return total.unsqueeze(axis) if keeps else total


@dataclass
class LargestRatios:
    """The largest ratio of a slice's error to its bound in every call, by kind of call."""

    ratios: dict[str, list[float]] = field(default_factory=dict)
    slices: int = 0
    plans: int = 0

    @property
    def largest(self) -> float:
        """The largest of all ratios."""
        return max((max(some) for some in self.ratios.values()), default=0.0)

    @property
    def calls(self) -> int:
        """The number of calls."""
        return sum(map(len, self.ratios.values()))

    @property
    def refused(self) -> float:
        """The probability that an evaluation is refused for a slice.

        Beyond 1.5 times the bound at once; below, if one of three more inputs is beyond the bound as well.
        """
        fitted = [some for some in self.ratios.values() if len(some) >= FITTED]
        each = [(beyond := _beyond(some, 1.0)) * CONFIRMED_BY * beyond + _beyond(some, NEAR) for some in fitted]
        return min(1.0, max(each, default=0.0) * self.calls / self.plans)

    @property
    def slices_each(self) -> float:
        """The number of slices of one evaluation; the formula allows one in 10^10 beyond its bound."""
        return self.slices / self.plans


def _beyond(ratios: Sequence[float], limit: float) -> float:
    """Return the probability that a largest ratio exceeds a limit, by a Gumbel distribution with the same moments."""
    if len(ratios) < 2 or not (spread := stdev(ratios)):
        return 0.0
    scale = spread * sqrt(6) / pi
    return -expm1(-exp(-(limit - mean(ratios) + EULER * scale) / scale))


def simulate(name: str, direction: Direction, seed: int, found: LargestRatios, until: float) -> None:
    """Answer the calls of one check plan by honest arithmetic."""
    opened = open_task(name)
    assert isinstance(opened, LocalTask)
    program, task = opened.program, opened.program.task
    scope = PlanScope(LIMITS.groups, heldout_work=LIMITS.heldout_work, light=LIMITS.light_work)
    steps = plan_steps(task, direction, scope, seed)
    found.plans += 1
    for step in {step.trial.text(): step for step in steps}.values():
        if time.monotonic() > until:
            return
        one, budget = problem(program, direction, step.trial), budget_of(task, direction, step.trial)
        kind = kind_of(task, direction, step.trial)
        for results in honest_results(program, direction, step.trial, one):
            ratio = max((_ratio(*pair, one, budget) for pair in enumerate(results)), default=0.0)
            found.ratios.setdefault(kind, []).append(ratio)
        found.slices += sum(len(slice_counts(part.shape, part.device)) for part in one.expected)


def kind_of(task: Task, direction: Direction, trial: Trial) -> str:
    """Return the kind of a call: calls of one kind have ratios of one distribution."""
    inputs = "plain" if slice_rule(task, direction, trial).is_tight else f"{trial.family.value} {trial.twist.value}"
    return f"{trial.case.name} {inputs}"


def budget_of(task: Task, direction: Direction, trial: Trial) -> Budget:
    """Return the budget that the check has for a call."""
    return Budget.of(
        task.tolerance.of(direction),
        trial.case,
        has_equal_terms(task, trial),
        offset_ratio(trial),
        rule=slice_rule(task, direction, trial),
    )


def honest_results(program: Any, direction: Direction, trial: Trial, one: Problem) -> Iterator[Results]:
    """Yield results in float32 with one rounding at the end, and those with sums in order and more roundings."""
    yield _computed(program, direction, trial, one)
    tight = slice_rule(program.task, direction, trial)
    narrow = one.native[0].dtype if tight.roundings > 2 and one.native[0].element_size() == 2 else None
    with InOrder(narrow):  # in tasks of several layers a kernel may round what stands between
        yield _computed(program, direction, trial, one)


def _computed(program: Any, direction: Direction, trial: Trial, one: Problem) -> Results:
    """Compute a call's results in float32 and round them to the element type."""

    def wide(part: Tensor) -> Tensor:
        return part.float() if part.is_floating_point() else part

    given = mapped(one.arguments, wide)
    found = program.forward(given) if direction is Direction.FORWARD else _gradients(program, given)
    return tuple(part.to(like.dtype) for part, like in zip(found, one.native, strict=True))


def _gradients(program: Any, given: Values) -> Results:
    """Compute the results of backward from its arguments: upstream gradients, forward's arguments, saved tensors."""
    signature, count = program.task.forward, len(program.task.forward.results)
    grads, arguments = given[:count], given[count : count + len(signature.arguments)]
    saved = given[count + len(arguments) :]
    function = partial(program.chosen, kept=saved) if isinstance(program, Choosing) else program.forward
    found = gradients(function, signature, arguments, [grad for grad in grads if isinstance(grad, Tensor)])
    return tuple(found[place] for place in gradient_order(signature, arguments, program.task.backward.results))


def _ratio(place: int, found: Tensor, one: Problem, budget: Budget) -> float:
    native, expected = one.native[place], one.expected[place]
    if dtype_of(native).numbers is not Numbers.ROUNDED or not found.numel():
        return 0.0

    def sizes() -> Tensor | None:
        known = one.sizes()
        return known[place] if known is not None else None

    return deciding_ratio(found, native, expected, budget, sizes)


def rounding_rows(source: torch.Generator) -> Iterator[str]:
    """Yield by count and weights of elements the largest sum of squared roundings, over what the bound has for it."""
    yield "roundings: elements, largest norm over the mean one in 10^5 slices, and B for one in 10^10"
    for count in (16, 64, 256, 4096):
        rows, largest = CHUNK // count, 0.0
        for _ in range(SLICES // rows + 1):
            x = torch.randn(rows, count, generator=source)
            error = (x.bfloat16().float() - x).square().sum(1) / (ROUNDING * 2.0**-16 * x.square().sum(1))
            largest = max(largest, float(error.max()))
        few = RARE / count
        yield f"{count:6} {sqrt(largest):6.2f} {sqrt(min(1 / ROUNDING, 1 + 2 * sqrt(few) + 2 * few)):6.2f}"


def sum_rows(source: torch.Generator) -> Iterator[str]:
    """Yield by length of a sum the error of plain float32 sums in v sqrt(K) of their terms' size."""
    yield f"plain sums: terms, root mean square, largest of 10^4 norms of 16 sums; the bound has {PLAIN_SUM:g}"
    for length in (16, 256, 4096):
        squares, sizes = torch.zeros(SLICES // 10), torch.zeros(SLICES // 10)
        for _ in range(16):  # elements of the smallest slice
            total, size = torch.zeros(SLICES // 10), torch.zeros(SLICES // 10, dtype=torch.float64)
            exact = torch.zeros_like(size)
            for _ in range(length):
                part = torch.randn(SLICES // 10, generator=source)
                total, exact, size = total + part, exact + part, size + part.double().square()
            squares += (total - exact).square()
            sizes += 2.0**-48 * length * size
        error = (squares / sizes).double().sqrt()
        yield f"{length:6} {float(error.square().mean().sqrt()):6.2f} {float(error.max()):6.2f}"


def evaluation_rows(names: Sequence[str], seconds: float) -> Iterator[str]:
    """Yield by task and direction the largest ratio of a slice and the probability of a refusal."""
    yield "evaluations: slices of one, calls, largest ratio, probability that an evaluation is refused"
    worst = 0.0
    pairs = [(name, direction) for name in names for direction in Direction]
    for name, direction in pairs:
        until, seed, found = time.monotonic() + seconds / len(pairs), 1, LargestRatios()
        while time.monotonic() < until:
            simulate(name, direction, seed, found, until)
            seed += 1
        worst = max(worst, found.refused)
        yield (
            f"{name:16} {direction.value:9} {found.slices_each:9.0f} {found.calls:6} {found.largest:6.2f} "
            f"10^{_exponent(found.refused)}"
        )
    yield f"largest probability 10^{_exponent(worst)}; at most 10^{_exponent(ALLOWED)} is allowed"


def _exponent(probability: float) -> str:
    return f"{log10(max(probability, 1e-99)):.0f}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="for the table of evaluations")
    parser.add_argument("--tasks", default="", help="names, with commas; all by default")
    given = parser.parse_args()
    torch.set_num_threads(1)
    source = torch.Generator().manual_seed(1)
    names = [name for name in given.tasks.split(",") if name] or [task.name for task in suite()]
    rows: Callable[[], Iterator[str]]
    for rows in (
        lambda: rounding_rows(source),
        lambda: sum_rows(source),
        lambda: evaluation_rows(names, given.seconds),
    ):
        for row in rows():
            print(row, flush=True)


if __name__ == "__main__":
    main()
