"""The bound of a slice's error, from the reference's magnitudes, the lengths of its sums, and torch's own error.

For the elements of a slice with reference e, torch's own result t and the kernel's f, with the roundoffs u of the
element type and v of float32, K the length of the reduction and s the size of the terms that a result sums:

    ||f - e||^2 <= max((1.5 ||t - e||)^2, (R B u)^2 0.185 ||e||^2 + (2 v)^2 (K + 16) (||e||^2 + ||s||^2) + drift)

0.185 u^2 is the mean square of one rounding and R^2 the number of roundings. B^2 = 1 + 2 sqrt(x / n) + 2 x / n with
x = 23 is exceeded by the sum of n squares once in 10^10 slices (Laurent and Massart, 2000). n counts the elements by
their weight, (sum e^2)^2 / sum m e^4, where m results are equal and so are rounded alike. A plain float32 sum of K
terms has an error of 0.3 v sqrt(K) on average; 2 leaves room for the rare large one. `benchmarks/slices.py` simulates
these factors, and design/slices.md has the result. Inputs that are not plain have the task's own bound as well.

If the elements of a slice share a sum (softmax, norms), an error of that sum moves all of them in one direction. A norm
hides such an error behind independent roundings; the sum of errors times the sign of the reference shows it:

    |sum (f - e) sign(e)| <= max(1.5 |sum (t - e) sign(e)|, 7 R 0.43 u ||e|| + 2.83 v sqrt(K) sum |e|)
"""

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from warpsmith.evaluation.check.slices import slice_counts, slice_name, slice_sums
from warpsmith.evaluation.check.terms import SliceRule

if TYPE_CHECKING:
    from warpsmith.evaluation.check.compare import Budget

ROUNDOFF = 2.0**-24  # v, of float32
LEAST = 16  # elements: of fewer the bound of each element says as much
ROUNDING = 0.185  # mean square of one rounding, in roundoffs of the element type: 0.43 of one
RARE = 23.0  # natural logarithm of how many slices there are for one that is beyond: 10^10
PLAIN_SUM = 2.0  # v sqrt(K + SPLIT), times the size of the terms
SPLIT = 16.0  # a product of three TF32 leaves out terms of up to 4 v, which counts if the sum is short
SPREAD = 2.5  # times the task's own bound: for inputs of very unequal sizes, one slice may have most of the error
OWN = 1.5  # times torch's own error
LEANING = 7.0  # deviations of a sum of independent roundings
COUNTED = 1 << 24  # elements up to which equal results are counted
NEAR = 1.5  # times the bound: below it three more inputs decide


def worst_slice(
    found: Tensor, native: Tensor, expected: Tensor, budget: "Budget", sizes: Callable[[], Tensor | None]
) -> tuple[float, str]:
    """Return the largest slice ratio, and a sentence above 1.

    `sizes` computes the sizes of the terms of each result; it is called only if the cheaper bounds are exceeded.
    """
    counts = slice_counts(expected.shape, expected.device)
    if int(counts.max()) < LEAST:
        return 0.0, ""
    slices = _SliceSums(found, native, expected, budget, counts)
    # Each bound is at least as large as the one before and costs more to compute.
    share, number = slices.largest_ratio(slices.quick_bound())
    if share > 1:
        share, number = slices.largest_ratio(slices.full_bound(None))
    if share > 1:
        share, number = slices.largest_ratio(slices.full_bound(slices.term_squares(sizes())))
    if share > 1:
        where = slice_name(expected.shape, number)
        return share, f"{where}: the error's norm is {share:.3g} times what a slice of this size may have"
    if slices.rule.shared and expected.numel() <= COUNTED:
        share, number = max((share, -1), slices.largest_ratio(slices.signed_bound(slices.size)))
        if share > 1:
            share, number = slices.largest_ratio(slices.signed_bound(slices.equal_results()))
        if share > 1:
            where = slice_name(expected.shape, number)
            return share, f"{where}: the errors lean one way {share:.3g} times as far as roundings do"
    return share, ""


def deciding_ratio(
    found: Tensor, native: Tensor, expected: Tensor, budget: "Budget", sizes: Callable[[], Tensor | None]
) -> float:
    """Return the ratio to the largest bound alone.

    This bound decides; `worst_slice` stops at a smaller bound that holds.
    """
    counts = slice_counts(expected.shape, expected.device)
    if int(counts.max()) < LEAST:
        return 0.0
    slices = _SliceSums(found, native, expected, budget, counts)
    ratio, _ = slices.largest_ratio(slices.full_bound(slices.term_squares(sizes())))
    if slices.rule.shared and expected.numel() <= COUNTED:
        ratio = max(ratio, slices.largest_ratio(slices.signed_bound(slices.equal_results()))[0])
    return ratio


class _SliceSums:
    """The sums of squares of one result over its slices, and the bounds that follow from them."""

    def __init__(self, found: Tensor, native: Tensor, expected: Tensor, budget: "Budget", counts: Tensor) -> None:
        finite = torch.isfinite(expected)
        whole = bool(finite.all())
        self.exact = expected if whole else torch.where(finite, expected, 0.0)
        error = found - self.exact
        self.error = error if whole else torch.where(finite, error, 0.0)
        self._native, self._finite = native, None if whole else finite
        self._budget, self._counts, self.rule = budget, counts, budget.rule or SliceRule()
        info = torch.finfo(native.dtype)
        self._unit, self._last_bit = info.eps / 2, info.tiny * info.eps
        sums = slice_sums([self.error.square(), self.exact.square()])
        self.errors, self.size = sums[0], sums[1]

    def largest_ratio(self, bound: tuple[Tensor, Tensor]) -> tuple[float, int]:
        """Return the largest ratio and its slice's number.

        Both sides are squares; the ratio is the root.
        """
        over, allowed = bound
        ratio = torch.where(self._counts >= LEAST, over / allowed, 0.0)
        largest, number = ratio.max(0)
        return sqrt(max(0.0, float(largest))), int(number)

    def quick_bound(self) -> tuple[Tensor, Tensor]:
        """Return the errors and a cheap lower limit of the bound."""
        return self.errors, self._rounding_squares(self._counts) + self._sum_squares(self.size) + self._drift_squares()

    def full_bound(self, terms: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the errors and the bound.

        `terms` are the sums of squares of the summed terms.
        """
        fourth, own = slice_sums([self.exact.square().square() * self._equal_counts(), self._torch_error().square()])
        weight = self.size.square() / fourth.clamp_min(1e-300)
        summed = self._sum_squares(self.size if terms is None else self.size + terms)
        plain = self._rounding_squares(weight) + summed + self._drift_squares()
        allowed = torch.maximum(plain, OWN**2 * own)
        return self.errors, allowed if self.rule.is_tight else torch.maximum(allowed, self._task_squares(own))

    def term_squares(self, terms: Tensor | None) -> Tensor:
        """Return the terms' sums of squares, estimated if unknown."""
        if terms is None:
            return self._mean_slice()
        return slice_sums([terms.to(self.exact.device).square()])[0]

    def signed_bound(self, size: Tensor) -> tuple[Tensor, Tensor]:
        """Return squared sums of signed errors, and their bound.

        The sign is that of the reference. `size` is the sum of squares of the values that are rounded independently.
        """
        sign = self.exact.sign()
        leans, own, most = slice_sums([self.error * sign, self._torch_error() * sign, self.exact.abs()])
        squares = ROUNDING * self._unit**2 * size + self._last_bit**2 / 12 * self._counts  # of denormals, too
        random = LEANING * self.rule.roundings * squares.sqrt()
        plain = random + sqrt(2) * PLAIN_SUM * self._budget.sums * most
        return leans.square(), torch.maximum(plain, OWN * own.abs()).square()

    def equal_results(self) -> Tensor:
        """Return the sums of squares if equal results are rounded alike."""
        return slice_sums([self.exact.square() * self._equal_counts()])[0]

    def _equal_counts(self) -> Tensor | float:
        """Return how many results equal each result.

        The number of all results if there are too many to count.
        """
        if self.exact.numel() > COUNTED:
            return float(self.exact.numel())
        found: tuple[Tensor, Tensor, Tensor]
        found = torch.unique(self.exact.float(), return_inverse=True, return_counts=True)
        _, places, counts = found
        return counts[places].double()

    def _torch_error(self) -> Tensor:
        """Return torch's own error, 0 at infinite references."""
        own = self._native - self.exact
        return own if self._finite is None else torch.where(self._finite, own, 0.0).nan_to_num(0.0, 0.0, 0.0)

    def _mean_slice(self) -> Tensor:
        """Return a mean slice's sum of squares."""
        return self._counts * (self.size[0] / self._counts[0])

    def _rounding_squares(self, weight: Tensor) -> Tensor:
        """Return the bound of squared roundings of each slice.

        `weight` is the effective number of elements.
        """
        few = RARE / weight.clamp_min(1.0)
        above = (1 + 2 * few.sqrt() + 2 * few).clamp_max(1 / ROUNDING)
        most = max(1.0, self.rule.roundings) * self._unit
        return above * (ROUNDING * most**2) * self.size

    def _sum_squares(self, magnitude: Tensor) -> Tensor:
        """Return the squared error that plain float32 sums of these magnitudes may have."""
        return PLAIN_SUM**2 * (self._budget.sums**2 + SPLIT * ROUNDOFF**2) * magnitude

    def _drift_squares(self) -> Tensor:
        """Return the squared error that equal terms may add.

        Also that of terms with a large mean, and the last bit of a denormal number.
        """
        drift = (self._budget.tolerance.factor * self._budget.drift) ** 2
        last = self._last_bit**2 * self._counts
        return drift * (self.size + self._mean_slice()) + last if drift else last

    def _task_squares(self, own: Tensor) -> Tensor:
        """Return the task's own bound by norm, for inputs that are not plain."""
        floor = self._budget.floor(self._native) ** 2 * (self.size + self._mean_slice())
        spread = SPREAD**2 if self.rule.is_uneven else 1.0
        return spread * torch.maximum(self._budget.tolerance.norm_factor**2 * own, floor)
