"""How large the error of a slice may be: from the reference's magnitudes, the lengths of sums, and torch's own error.

For the elements of a slice with reference e, torch's own result t and the kernel's f, with the roundoffs u of the
element type and v of float32, K the length of the reduction and s the size of the terms that a result sums:

    ||f - e||^2 <= max((1.5 ||t - e||)^2, (R B u)^2 0.185 ||e||^2 + (2 v)^2 K (||e||^2 + ||s||^2) + drift)

0.185 u^2 is the mean square of one rounding, R^2 how many there may be. B^2 = 1 + 2 sqrt(x / n) + 2 x / n with x = 23
is how far the sum of n squares is above its mean once in 10^10 slices (Laurent and Massart, 2000); n counts the
elements by their weight, (sum e^2)^2 / sum m e^4, where m results are equal and so rounded alike. A plain float32 sum
of K terms is off by 0.29 to 0.41 v sqrt(K), and by 2 once in 10^10 sums (`benchmarks/slices.py` prints both tables).
Inputs that are not plain have the task's own floors as well.

Where the elements of a slice share a sum (softmax, norms), an error of that sum moves all of them one way, which a norm
hides behind their roundings. The sum of errors, each with its reference's sign, shows it:

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

LEAST = 16  # elements: of fewer the bound of each element says as much
ROUNDING = 0.185  # mean square of one rounding, in roundoffs of the element type: 0.43 of one
RARE = 23.0  # natural logarithm of how many slices there are for one that is beyond: 10^10
PLAIN_SUM = 2.0  # v sqrt(K), times the size of the terms
OWN = 1.5  # times torch's own error
LEANING = 7.0  # deviations of a sum of independent roundings
COUNTED = 1 << 24  # elements up to which equal results are counted
NEAR = 1.5  # times the bound: up to here three more inputs decide


def worst_slice(
    found: Tensor, native: Tensor, expected: Tensor, budget: "Budget", sizes: Callable[[], Tensor | None]
) -> tuple[float, str]:
    """Return the largest error of a slice over its bound, and what is said of the slice where that is above one."""
    counts = slice_counts(expected.shape, expected.device)
    if int(counts.max()) < LEAST:
        return 0.0, ""
    slices = _Slices(found, native, expected, budget, counts)
    share, number = slices.worst(slices.quick())
    if share > 1:
        share, number = slices.worst(slices.whole(None))
    if share > 1:
        terms = sizes()
        share, number = slices.worst(slices.whole(slices.magnitudes(terms)))
    if share > 1:
        where = slice_name(expected.shape, number)
        return share, f"{where}: the error's norm is {share:.3g} times what a slice of this size may have"
    if slices.rule.shared and expected.numel() <= COUNTED:
        share, number = max((share, -1), slices.worst(slices.leaning(slices.size)))
        if share > 1:
            share, number = slices.worst(slices.leaning(slices.tied()))
        if share > 1:
            where = slice_name(expected.shape, number)
            return share, f"{where}: the errors lean one way {share:.3g} times as far as roundings do"
    return share, ""


class _Slices:
    """The sums of one result over its slices."""

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

    def worst(self, bound: tuple[Tensor, Tensor]) -> tuple[float, int]:
        """The largest ratio of squares, its root, and the slice."""
        over, allowed = bound
        ratio = torch.where(self._counts >= LEAST, over / allowed, 0.0)
        largest, number = ratio.max(0)
        return sqrt(max(0.0, float(largest))), int(number)

    def quick(self) -> tuple[Tensor, Tensor]:
        """The least that the bound can be, from the sums that are there."""
        return self.errors, self._rounded(self._counts) + self._plain(self.size) + self._least()

    def whole(self, terms: Tensor | None) -> tuple[Tensor, Tensor]:
        """The bound; `terms` are the squares of the sizes of what was summed."""
        fourth, own = slice_sums([self.exact.square().square() * self._equals(), self._own().square()])
        weight = self.size.square() / fourth.clamp_min(1e-300)
        plain = self._rounded(weight) + self._plain(self.size if terms is None else self.size + terms) + self._least()
        allowed = torch.maximum(plain, OWN**2 * own)
        return self.errors, allowed if self.rule.is_tight else torch.maximum(allowed, self._wide(own))

    def magnitudes(self, terms: Tensor | None) -> Tensor:
        """The squares of the sizes of terms; where nobody knows them, those of a result as its likes are."""
        if terms is None:
            return self._likes()
        return slice_sums([terms.to(self.exact.device).square()])[0]

    def leaning(self, size: Tensor) -> tuple[Tensor, Tensor]:
        """The squares of the sums of errors with the reference's sign, and their bound for the squares of roundings."""
        sign = self.exact.sign()
        leans, own, most = slice_sums([self.error * sign, self._own() * sign, self.exact.abs()])
        squares = ROUNDING * self._unit**2 * size + self._last_bit**2 / 12 * self._counts  # of denormals, too
        random = LEANING * self.rule.roundings * squares.sqrt()
        plain = random + sqrt(2) * PLAIN_SUM * self._budget.sums * most
        return leans.square(), torch.maximum(plain, OWN * own.abs()).square()

    def tied(self) -> Tensor:
        """The sums of squares where equal results are rounded together."""
        return slice_sums([self.exact.square() * self._equals()])[0]

    def _equals(self) -> Tensor | float:
        """How many results are equal to each one; all of them where that is not counted."""
        if self.exact.numel() > COUNTED:
            return float(self.exact.numel())
        found: tuple[Tensor, Tensor, Tensor]
        found = torch.unique(self.exact.float(), return_inverse=True, return_counts=True)
        _, places, counts = found
        return counts[places].double()

    def _own(self) -> Tensor:
        own = self._native - self.exact
        return own if self._finite is None else torch.where(self._finite, own, 0.0).nan_to_num(0.0, 0.0, 0.0)

    def _likes(self) -> Tensor:
        return self._counts * (self.size[0] / self._counts[0])

    def _rounded(self, weight: Tensor) -> Tensor:
        """Roundings of so many elements of equal weight; none is ever more than its roundoff."""
        few = RARE / weight.clamp_min(1.0)
        above = (1 + 2 * few.sqrt() + 2 * few).clamp_max(1 / ROUNDING)
        most = max(1.0, self.rule.roundings) * self._unit
        return above * (ROUNDING * most**2) * self.size

    def _plain(self, magnitude: Tensor) -> Tensor:
        return (PLAIN_SUM * self._budget.sums) ** 2 * magnitude

    def _least(self) -> Tensor:
        """What equal terms add, and the last bit of a denormal."""
        drift = (self._budget.tolerance.factor * self._budget.drift) ** 2
        last = self._last_bit**2 * self._counts
        return drift * (self.size + self._likes()) + last if drift else last

    def _wide(self, own: Tensor) -> Tensor:
        """What the task allows by norm, for inputs that are not plain."""
        floor = self._budget.floor(self._native) ** 2 * (self.size + self._likes())
        return torch.maximum(self._budget.tolerance.norm_factor**2 * own, floor)
