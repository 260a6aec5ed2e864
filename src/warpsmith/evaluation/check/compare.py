"""The error budget: elementwise and by norm, against a float64 reference, written so that NaN fails.

For a result with reference e, torch's own result t and the kernel's f, with u the unit roundoff of the element
type, v that of float32, in which sums are kept whatever the element type, and K the length of the reduction:

    elementwise   |f - e| <= factor * ((u + v * sqrt(K)) * (|e| + rms(e)) + v * sqrt(K) * s + max|t - e|)
    by norm       ||f - e|| <= max(norm_factor * ||t - e||, norm_floor * ||e||, factor * v * sqrt(K) * ||s||)

sqrt(K) is how rounding errors of a sum grow when their signs are as good as random: a plain sequential float32
accumulation passes. s is by how much the terms that a result sums are larger than |e| + rms(e), as the root of the
sum of their squares (`tasks/signs.py`): nothing for most results, but terms that cancel leave their rounding errors
behind. It is asked for only where a result would be wrong without it. Where the terms of a sum are equal
(`equal_terms`) every addition in a binade rounds the same way and the error grows as K: K/8 roundoffs of float32 are
added to sqrt(K), and both bounds have them. Where terms are m times as large as what is left of them when their mean
is taken away (`lift`), m sqrt(K) are: that is how far off a mean may be. Torch's own error is only ever a floor, since
it can be exactly zero. Of normal inputs (`easy`) the bound by norm is never more than twice torch's error or a share of
||e|| that is a little more than roundings make: floors are as wide as the hardest draws of a task ask for.

Whole numbers and bools are compared exactly: an element is right if it is the reference's or torch's own, which differ
where rounding decided it (the place of a maximum of sums).

Of a type that is only stored in (fp8) a kernel rounds once, whichever way: with w the spacing of its numbers at e, and
v that of bfloat16 for what was computed before,

    elementwise   |f - e| <= w + factor * ((v + v32 * sqrt(K)) * (|e| + rms(e)) + max(|t - e| - w, 0))
    by norm       ||f - e|| <= max(2 * ||t - e||, u * ||e||) + factor * (v + v32 * sqrt(K)) * ||e||

Where e is past the type's largest number, that number is right, and so is what torch makes of it.
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
EASY_COUNT = 64  # elements: of fewer a norm says little
STORED_ROUNDOFF = 2.0**-8  # what is stored in eight bits was computed in bfloat16 or better
EQUAL_SHARE = 8.0  # with the factor of 4 that is K/2; a plain sum of equal terms was seen to lose 0.17 K at most


@dataclass(frozen=True)
class Comparison:
    """The failure of a call or None, and the largest error over its bound; infinite if no values were compared."""

    failure: Failure | None
    worst: float  # largest error over its bound, over all results; above 1 is wrong
    near: bool = False  # whether a slice alone is beyond its bound, and by so little that more inputs are to decide

    @property
    def passed(self) -> bool:
        """Whether every result is right."""
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
    """A task's tolerance at one case."""

    tolerance: Tolerance
    growth: float
    drift: float = 0.0  # relative; what equal terms add, or terms that are larger than what is left of them
    easy: float = inf  # share of the reference's norm that is enough for this draw
    rule: SliceRule | None = None  # how closely slices are looked at; none: not at all

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
        """The budget for the sizes of a case; `equal` when most terms of a sum may be, `lift` by how much larger than
        what is left of them, `easy` what is enough for the draw.
        """
        length = max(1.0, float(evaluate_formula(tolerance.reduction, case.variables)))
        drift = length / EQUAL_SHARE if equal else lift * sqrt(length)
        return cls(tolerance, sqrt(length), SUM_ROUNDOFF * drift, easy, rule)

    @property
    def sums(self) -> float:
        """The share of its terms' size by which a sum may be off."""
        return SUM_ROUNDOFF * self.growth

    def rounding(self, dtype: torch.dtype) -> float:
        """The share of a value by which it may be off: its own rounding, and that of the sum behind it."""
        return torch.finfo(dtype).eps / 2 + self.sums + self.drift

    def floor(self, native: Tensor) -> float:
        """The share of the reference's norm that an error may always have."""
        return max(self.tolerance.norm_floor.get(dtype_of(native), 0.0), self.tolerance.factor * self.drift)

    def norm(self, native: Tensor, own: float, size: float) -> float:
        """How large an error's norm may be, from those of torch's own error and of the reference."""
        allowed = max(self.tolerance.norm_factor * own, self.floor(native) * size)
        return allowed if native.numel() < EASY_COUNT else min(allowed, max(EASY_FACTOR * own, self.easy * size))


def compare(
    found: Sequence[Tensor], problem: Problem, names: Sequence[str], budget: Budget, poison: bytes = b""
) -> Comparison:
    """Compare a kernel's results, of the right form, with a problem's reference; the first one wrong decides.

    `poison` is what the memory of the results was filled with before the call.
    """
    sizes_of, worst = cache(problem.sizes), 0.0
    for place, (name, result) in enumerate(zip(names, found, strict=True)):
        native, expected = problem.native[place], problem.expected[place]
        numbers = dtype_of(native).numbers
        if numbers is Numbers.EXACT:
            outcome = _exact(name, result, native, expected, poison)
        elif numbers is Numbers.STORED:
            outcome = _stored(name, result, native, expected, budget, poison)
        else:
            outcome = _one(name, result, native, expected, budget)
        if numbers is Numbers.ROUNDED and outcome.reason is Reason.WRONG_VALUE and (sizes := sizes_of()) is not None:
            outcome = _slow(name, result, native, expected, budget, sizes[place].to(expected.device))
        if numbers is Numbers.ROUNDED and outcome.passed and budget.rule is not None and result.numel():
            worst = max(worst, outcome.worst)
            outcome = _sliced(name, place, result, problem, budget, sizes_of)
        if not outcome.passed:
            return outcome
        worst = max(worst, outcome.worst)
    return Comparison(None, worst)


def _sliced(
    name: str, place: int, found: Tensor, problem: Problem, budget: Budget, sizes_of: Callable[[], Sizes]
) -> Comparison:
    """Compare the slices of a result whose elements and norm are right."""

    def sizes() -> Tensor | None:
        known = sizes_of()
        return known[place] if known is not None else None

    share, detail = worst_slice(found, problem.native[place], problem.expected[place], budget, sizes)
    if share <= 1:
        return Comparison(None, share)
    return Comparison(Failure(Reason.WRONG_VALUE, f"{name}{detail}"), share, near=share < NEAR)


def _exact(name: str, found: Tensor, native: Tensor, expected: Tensor, poison: bytes) -> Comparison:
    """Equal to the reference or to torch's own result, byte by byte: a bool other than 0 and 1 is neither."""
    given, own, truth = (_whole(one.to(native.dtype)) for one in (found, native, expected))
    wrong = (given != own) & (given != truth)
    if not bool(wrong.any()):
        return Comparison(None, 0.0)
    if _is_poison(given[wrong], poison):
        return Comparison(Failure(Reason.UNWRITTEN, UNWRITTEN.format(name)), inf)
    place, first = _first(name, wrong)
    detail = f"{place} is {int(given[first])}; expected {int(truth[first])}; {_count(wrong)}"
    return Comparison(Failure(Reason.WRONG_VALUE, detail), inf)


def _whole(tensor: Tensor) -> Tensor:
    return tensor.view(torch.uint8) if tensor.dtype is torch.bool else tensor


def _stored(name: str, found: Tensor, native: Tensor, expected: Tensor, budget: Budget, poison: bytes) -> Comparison:
    """The same for a type that numbers are only stored in."""
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
    """Whether all these elements hold nothing but the bytes that memory was filled with."""
    if not poison:
        return False
    filled = torch.tensor(list(poison), dtype=torch.uint8, device=elements.device)
    return bool(torch.isin(elements.contiguous().view(torch.uint8), filled).all())


def _one(name: str, found: Tensor, native: Tensor, expected: Tensor, budget: Budget) -> Comparison:
    if found.numel() == 0:
        return Comparison(None, 0.0)
    worst, share = _quick(found, native, expected, budget)
    if worst <= 1 and share <= 1:
        return Comparison(None, max(worst, share))
    return _slow(name, found, native, expected, budget)


def _quick(found: Tensor, native: Tensor, expected: Tensor, budget: Budget) -> tuple[float, float]:
    """The largest error over its bound and the norm's, in few passes; not-a-number where anything is not finite.

    Results may have hundreds of millions of elements, and every timed one is compared.
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


def _slow(
    name: str, found: Tensor, native: Tensor, expected: Tensor, budget: Budget, sizes: Tensor | None = None
) -> Comparison:
    """The same with infinities in the reference, with the sizes of the terms, and with the evidence."""
    sums = torch.zeros_like(expected) if sizes is None else budget.sums * _beyond(sizes, expected)
    ratio = _element_ratio(found, native, expected, budget, sums)
    worst = float(ratio.max())
    if not worst <= 1:
        return Comparison(Failure(Reason.WRONG_VALUE, _evidence(name, found, expected, ratio)), worst)
    share = _norm_ratio(found, native, expected, budget, sums)
    if not share <= 1:
        detail = f"{name}: the error's norm is {share:.3g} times what the tolerance allows"
        return Comparison(Failure(Reason.WRONG_VALUE, detail), share)
    return Comparison(None, max(worst, share))


def _beyond(sizes: Tensor, expected: Tensor) -> Tensor:
    """By how much the terms are larger than what a result and its likes are: nothing, where they do not cancel."""
    clean = expected.nan_to_num(0.0, 0.0, 0.0)
    return (sizes - clean.abs() - clean.square().mean().sqrt()).clamp_min(0.0)


def _element_ratio(found: Tensor, native: Tensor, expected: Tensor, budget: Budget, sums: Tensor) -> Tensor:
    """Error over bound, elementwise; not-a-number and a wrong infinity count as infinitely wrong."""
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
    """The first wrong element with what was expected and what was found, and how many are wrong."""
    wrong = ~(ratio <= 1)
    place, first = _first(name, wrong)
    return (
        f"{place} is {float(found[first]):.9g}; expected {float(expected[first]):.9g}, "
        f"off by {float(ratio[first]):.3g} times the bound; {_count(wrong)}"
    )


def _first(name: str, wrong: Tensor) -> tuple[str, tuple[int, ...]]:
    """The first wrong element in words, and where it is."""
    first = tuple(int(i) for i in wrong.nonzero()[0])
    return f"{name}[{', '.join(map(str, first))}]", first


def _count(wrong: Tensor) -> str:
    return f"{int(wrong.sum())} of {wrong.numel()} elements are wrong"
