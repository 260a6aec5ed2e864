"""The error budget: how far a result may be from a float64 reference, by element and by norm. NaN fails.

With reference e, torch's own result t, the kernel's result f, the unit roundoffs u of the element type and v of float32
(in which sums are kept, whatever the element type), the length K of the reduction, and s, d below:

    by element  |f - e| <= factor * ((u + v * sqrt(K) + d) * (|e| + rms(e)) + v * sqrt(K) * s + max|t - e|)
    by norm     ||f - e|| <= max(norm_factor * ||t - e||, norm_floor * ||e||, factor * d * ||e||,
                                 factor * v * sqrt(K) * ||s||)

sqrt(K): rounding errors of a sum grow like a random walk; a sequential float32 sum is within the bound.
s: the excess of the terms of a sum over |e| + rms(e), as the root of the sum of their squares. Terms that cancel leave
their rounding errors behind. s is 0 for most results, and is computed only if a result is wrong without it.
d: 0, except if terms are equal (K/8 roundoffs of float32: every addition rounds the same way, and the error grows as K)
or have a large mean (offset ratio times sqrt(K)).
max|t - e|: torch's own error widens the bound and is never the only bound, since it can be 0.
For normal inputs the bound by norm is at most twice torch's error or a share of ||e|| a little above plain roundings:
the task's norm_floor is as wide as its hardest inputs need.

Integers and bools are compared exactly, with the reference or with torch's own result. The two differ where a rounding
decided (the place of a maximum of sums).

A type that is only stored in (fp8) is rounded once. With w the spacing of its numbers at e, v8 of bfloat16:

    by element  |f - e| <= w + factor * ((v8 + v * sqrt(K)) * (|e| + rms(e)) + max(|t - e| - w, 0))
    by norm     ||f - e|| <= max(2 * ||t - e||, u * ||e||) + factor * (v8 + v * sqrt(K)) * ||e||

Beyond the largest number of the type, that number and torch's own result are right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite, nan, sqrt

import torch
from torch import Tensor
from torch.linalg import vector_norm

from warpsmith.base import evaluate_formula
from warpsmith.evaluation.check.sliced import NEAR, worst_slice
from warpsmith.evaluation.check.terms import EASY_FACTOR, SliceRule
from warpsmith.records import Case, Failure, Numbers, Reason, Tolerance
from warpsmith.tasks.inputs import dtype_of
from warpsmith.tasks.reference import Problem

Sizes = tuple[Tensor, ...] | None
SUM_ROUNDOFF = 2.0**-24  # sums are kept in float32, whatever the element type
UNWRITTEN = "{} holds memory that nobody wrote in this call"
EASY_COUNT = 64  # elements; a norm of fewer may consist of a few large roundings
STORED_ROUNDOFF = 2.0**-8  # a result stored in 8 bits was computed in bfloat16 or better
EQUAL_SHARE = 8.0  # with the factor of 4 it is K/2; the largest measured loss of a plain sum of equal terms is 0.17 K


@dataclass(frozen=True)
class Comparison:
    """The failure of a call or None, and the largest ratio of an error to its bound; infinite without a comparison."""

    failure: Failure | None
    worst: float  # largest error over its bound, over all results; above 1 is wrong
    near: bool = False  # whether only a slice exceeds its bound, by less than 1.5 times: more inputs decide

    @property
    def passed(self) -> bool:
        """Whether every result is within its bounds."""
        return self.failure is None

    @property
    def reason(self) -> Reason | None:
        """The reason of the failure, or None."""
        return self.failure.reason if self.failure else None

    @property
    def detail(self) -> str:
        """The sentence of the failure; empty without one."""
        return self.failure.detail if self.failure else ""


@dataclass(frozen=True)
class Budget:
    """The tolerance of a task for one test input."""

    tolerance: Tolerance
    growth: float
    drift: float = 0.0  # relative error that equal terms or terms with a large mean add
    easy: float = inf  # share of the reference's norm that is enough for this test input
    rule: SliceRule | None = None  # None: slices are not compared

    @classmethod
    def of(
        cls,
        tolerance: Tolerance,
        case: Case,
        equal: bool = False,
        lift: float = 0.0,
        easy: float = inf,
        rule: SliceRule | None = None,
    ) -> "Budget":
        """Return the budget for the sizes of a case.

        `equal`: most terms of a sum may be equal. `lift`: the ratio of the terms to what remains without their mean.
        `easy`: the share of the reference's norm that is enough for this test input.
        """
        length = max(1.0, float(evaluate_formula(tolerance.reduction, case.variables)))
        drift = length / EQUAL_SHARE if equal else lift * sqrt(length)
        return cls(tolerance, sqrt(length), SUM_ROUNDOFF * drift, easy, rule)

    @property
    def sums(self) -> float:
        """The error of a sum, relative to its terms."""
        return SUM_ROUNDOFF * self.growth

    def rounding(self, dtype: torch.dtype) -> float:
        """Return a value's error, relative to the value."""
        return torch.finfo(dtype).eps / 2 + self.sums + self.drift

    def floor(self, native: Tensor) -> float:
        """Return the always allowed error, relative to the norm."""
        return max(self.tolerance.norm_floor.get(dtype_of(native), 0.0), self.tolerance.factor * self.drift)

    def norm(self, native: Tensor, own: float, size: float) -> float:
        """Return the bound of the error's norm.

        `own` is the norm of torch's own error, `size` that of the reference.
        """
        allowed = max(self.tolerance.norm_factor * own, self.floor(native) * size)
        return allowed if native.numel() < EASY_COUNT else min(allowed, max(EASY_FACTOR * own, self.easy * size))


def compare(
    found: Sequence[Tensor], problem: Problem, names: Sequence[str], budget: Budget, poison: bytes = b""
) -> Comparison:
    """Compare results with the reference; return the first failure.

    `poison` is the byte pattern that filled the memory of the results before the call.
    """
    sizes_of, worst = cache(problem.sizes), 0.0
    for place, (name, result) in enumerate(zip(names, found, strict=True)):
        native, expected = problem.native[place], problem.expected[place]
        numbers = dtype_of(native).numbers
        if numbers is Numbers.EXACT:
            outcome = _compare_exact(name, result, native, expected, poison)
        elif numbers is Numbers.STORED:
            outcome = _compare_stored(name, result, native, expected, budget, poison)
        else:
            outcome = _compare_rounded(name, result, native, expected, budget)
        if numbers is Numbers.ROUNDED and outcome.reason is Reason.WRONG_VALUE and (sizes := sizes_of()) is not None:
            outcome = _compare_carefully(name, result, native, expected, budget, sizes[place].to(expected.device))
        if numbers is Numbers.ROUNDED and outcome.passed and budget.rule is not None and result.numel():
            worst = max(worst, outcome.worst)
            outcome = _compare_slices(name, place, result, problem, budget, sizes_of)
        if not outcome.passed:
            return outcome
        worst = max(worst, outcome.worst)
    return Comparison(None, worst)


def _compare_slices(
    name: str, place: int, found: Tensor, problem: Problem, budget: Budget, sizes_of: Callable[[], Sizes]
) -> Comparison:
    """Compare the slices of one result with their bounds."""

    def sizes() -> Tensor | None:
        """Return the sizes of the terms of this result, None if unknown."""
        known = sizes_of()
        return known[place] if known is not None else None

    share, detail = worst_slice(found, problem.native[place], problem.expected[place], budget, sizes)
    if share <= 1:
        return Comparison(None, share)
    return Comparison(Failure(Reason.WRONG_VALUE, f"{name}{detail}"), share, near=share < NEAR)


def _compare_exact(name: str, found: Tensor, native: Tensor, expected: Tensor, poison: bytes) -> Comparison:
    """Compare integers or bools bit by bit.

    A result may equal the reference or torch's own result. A bool that is stored as another byte than 0 and 1 equals
    neither.
    """
    given, own, truth = (_as_integers(one.to(native.dtype)) for one in (found, native, expected))
    wrong = (given != own) & (given != truth)
    if not bool(wrong.any()):
        return Comparison(None, 0.0)
    if _is_poison(given[wrong], poison):
        return Comparison(Failure(Reason.UNWRITTEN, UNWRITTEN.format(name)), inf)
    place, first = _first(name, wrong)
    detail = f"{place} is {int(given[first])}; expected {int(truth[first])}; {_count(wrong)}"
    return Comparison(Failure(Reason.WRONG_VALUE, detail), inf)


def _as_integers(tensor: Tensor) -> Tensor:
    """Return a tensor as integers; bools as their bytes."""
    return tensor.view(torch.uint8) if tensor.dtype is torch.bool else tensor


def _compare_stored(
    name: str, found: Tensor, native: Tensor, expected: Tensor, budget: Budget, poison: bytes
) -> Comparison:
    """Compare numbers of a type that is only stored in (fp8)."""
    if found.numel() == 0:
        return Comparison(None, 0.0)
    info, given, own = torch.finfo(native.dtype), found.double(), native.double()
    truth = expected.double()
    held = truth.abs() <= info.max
    clean = torch.where(held, truth, 0.0)
    step = torch.maximum(torch.exp2(clean.abs().log2().floor()), torch.tensor(info.tiny).to(clean)) * info.eps
    share = budget.tolerance.factor * (STORED_ROUNDOFF + budget.sums + budget.drift)
    own_error = torch.where(held, (own - clean).abs(), 0.0).nan_to_num(0.0)
    beyond = float((own_error - step).clamp_min(0.0).max())
    bound = step + share * (clean.abs() + clean.square().mean().sqrt()) + budget.tolerance.factor * beyond
    ratio = torch.where(held, (given - clean).abs() / bound, inf)
    largest = (given.abs() == info.max) & (given.sign() == truth.sign())
    same = (given == own) | (given.isnan() & own.isnan()) | (largest & ~truth.isnan())
    ratio = torch.where(held, ratio, torch.where(same, 0.0, inf)).nan_to_num(inf)
    worst = float(ratio.max())
    if not worst <= 1:
        if _is_poison(found[ratio > 1], poison):
            return Comparison(Failure(Reason.UNWRITTEN, UNWRITTEN.format(name)), worst)
        return Comparison(Failure(Reason.WRONG_VALUE, _evidence(name, given, truth, ratio)), worst)
    error = float(torch.where(held, given - clean, 0.0).norm())
    size, least = float(clean.norm()), info.tiny * info.eps * sqrt(clean.numel())
    allowed = max(EASY_FACTOR * float(own_error.norm()), info.eps / 2 * size, least) + share * size
    if error > allowed:
        detail = f"{name}: the error's norm is {error / allowed:.3g} times what the tolerance allows"
        return Comparison(Failure(Reason.WRONG_VALUE, detail), error / allowed)
    return Comparison(None, max(worst, error / allowed))


def _is_poison(elements: Tensor, poison: bytes) -> bool:
    """Return whether all elements consist of bytes of the poison."""
    if not poison:
        return False
    filled = torch.tensor(list(poison), dtype=torch.uint8, device=elements.device)
    return bool(torch.isin(elements.contiguous().view(torch.uint8), filled).all())


def _compare_rounded(name: str, found: Tensor, native: Tensor, expected: Tensor, budget: Budget) -> Comparison:
    """Compare floating-point numbers, quickly first and then carefully."""
    if found.numel() == 0:
        return Comparison(None, 0.0)
    worst, share = _ratios_in_few_passes(found, native, expected, budget)
    if worst <= 1 and share <= 1:
        return Comparison(None, max(worst, share))
    return _compare_carefully(name, found, native, expected, budget)


def _ratios_in_few_passes(found: Tensor, native: Tensor, expected: Tensor, budget: Budget) -> tuple[float, float]:
    """Return the largest element ratio and the norm ratio.

    NaN if a number is not finite. Results may have hundreds of millions of elements, and every timed result is
    compared, so each pass over memory counts.
    """
    info, count, factor = torch.finfo(native.dtype), expected.numel(), budget.tolerance.factor
    own = native - expected  # in float64, as expected is
    own_most, own_size, size = vector_norm(own, inf), vector_norm(own), vector_norm(expected)
    last_bit = info.tiny * info.eps  # a denormal's
    rounding = budget.rounding(native.dtype)
    beside = (size * (rounding / sqrt(count)) + own_most) * factor + last_bit
    bound = torch.add(beside, torch.abs(expected, out=own), alpha=factor * rounding, out=own)
    error = found - expected
    sizes = torch.stack([own_most, own_size, size, vector_norm(error), vector_norm(error.div_(bound), inf)])
    largest, own_norm, norm, error_norm, worst = sizes.tolist()  # one wait for the device
    if not isfinite(largest + norm):
        return nan, nan
    return worst, error_norm / max(budget.norm(native, own_norm, norm), last_bit * sqrt(count))


def _compare_carefully(
    name: str, found: Tensor, native: Tensor, expected: Tensor, budget: Budget, sizes: Tensor | None = None
) -> Comparison:
    """Compare with infinities, term sizes and evidence for a failure."""
    sums = torch.zeros_like(expected) if sizes is None else budget.sums * _excess_of_terms(sizes, expected)
    ratio = _element_ratio(found, native, expected, budget, sums)
    worst = float(ratio.max())
    if not worst <= 1:
        return Comparison(Failure(Reason.WRONG_VALUE, _evidence(name, found, expected, ratio)), worst)
    share = _norm_ratio(found, native, expected, budget, sums)
    if not share <= 1:
        detail = f"{name}: the error's norm is {share:.3g} times what the tolerance allows"
        return Comparison(Failure(Reason.WRONG_VALUE, detail), share)
    return Comparison(None, max(worst, share))


def _excess_of_terms(sizes: Tensor, expected: Tensor) -> Tensor:
    """Return the excess of the terms over the result."""
    clean = expected.nan_to_num(0.0, 0.0, 0.0)
    return (sizes - clean.abs() - clean.square().mean().sqrt()).clamp_min(0.0)


def _element_ratio(found: Tensor, native: Tensor, expected: Tensor, budget: Budget, sums: Tensor) -> Tensor:
    """Return each element's ratio of error to bound; NaN is infinite."""
    finite = torch.isfinite(expected)
    clean = torch.where(finite, expected, 0.0)
    error = torch.where(finite, (found.double() - clean).abs(), 0.0)
    own = torch.where(finite, (native.double() - clean).abs(), 0.0).nan_to_num(0.0, 0.0, 0.0).max()
    rms = clean.square().mean().sqrt()
    rounding = budget.rounding(native.dtype) * (clean.abs() + rms) + sums
    smallest = torch.finfo(native.dtype).tiny * torch.finfo(native.dtype).eps  # a denormal's last bit
    ratio = error / (budget.tolerance.factor * (rounding + own) + smallest)
    same = (found.double() == expected) | (found.isnan() & expected.isnan())
    wrong = torch.full_like(ratio, float("inf"))
    return torch.where(finite, torch.where(ratio.isnan(), wrong, ratio), torch.where(same, 0.0, wrong))


def _norm_ratio(found: Tensor, native: Tensor, expected: Tensor, budget: Budget, sums: Tensor) -> float:
    """Return the ratio of the error's norm to its bound."""
    finite = torch.isfinite(expected)
    clean = expected[finite]
    error = float((found.double()[finite] - clean).norm())
    own = float((native.double()[finite] - clean).norm())
    info = torch.finfo(native.dtype)
    last_bits = info.tiny * info.eps * sqrt(clean.numel())  # where all is zero, a denormal's last bit each
    terms = budget.tolerance.factor * float(sums[finite].norm())
    allowed = max(budget.norm(native, own, float(clean.norm())), last_bits, terms)
    return error / allowed if allowed else (0.0 if error == 0 else float("inf"))


def _evidence(name: str, found: Tensor, expected: Tensor, ratio: Tensor) -> str:
    """Return a sentence on the first wrong element."""
    wrong = ~(ratio <= 1)
    place, first = _first(name, wrong)
    return (
        f"{place} is {float(found[first]):.9g}; expected {float(expected[first]):.9g}, "
        f"off by {float(ratio[first]):.3g} times the bound; {_count(wrong)}"
    )


def _first(name: str, wrong: Tensor) -> tuple[str, tuple[int, ...]]:
    """Return the first wrong element as text and as an index."""
    first = tuple(int(i) for i in wrong.nonzero()[0])
    return f"{name}[{', '.join(map(str, first))}]", first


def _count(wrong: Tensor) -> str:
    """Return the number of wrong elements as text."""
    return f"{int(wrong.sum())} of {wrong.numel()} elements are wrong"
