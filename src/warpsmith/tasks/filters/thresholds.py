"""Thresholds of the filters, each with its source."""

# robust-kbench and KernelBench compare with 1e-2, absolute and relative, at their loosest: what cannot be told apart
# from nothing under that has been gamed.
LOOSE = 1e-2
RANGE = LOOSE  # the largest output, absolute
DEVIATION = LOOSE  # standard deviation of the outputs over their root mean square
VARIATION = LOOSE  # standard deviation along an axis, over the same

# What cancels (a bias before a normalization) moves a float32 output by rounding, below 1e-5 of it; a bias beside a
# sum of 100000 terms moves it by about 2e-3. Narrower types round more: there it is this many units in the last place.
IMPACT = 1e-4
IMPACT_UNITS = 4

# Sums on several threads may round differently from call to call; a random operation differs by about one.
REPEAT = 1e-3

# Two float32 results of different inputs that agree to this are the same constant.
CONSTANT = 1e-5
