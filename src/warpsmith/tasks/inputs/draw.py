"""Inputs from a seed, the same on every machine and on every device: whole random numbers and exact float64 sums.

A random word is a hash of its tensor's start and of its number (splitmix64), so that the default device, CPU or GPU,
computes the same ones; a GPU draws in milliseconds what takes a CPU seconds. The start is a keyed one-way hash of the
seed: splitmix64 can be inverted, and what one tensor shows says nothing about another.

A normal value is the sum of six uniform ones of 32 bits (variance one, tails to 4.2): log and cosine differ between
machines in the last bit, integer sums do not. Inputs that nobody has to make again take their words from torch's own
generator, which is faster, and are made of them in the same way: a kernel cannot tell the two apart.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod

import torch
from torch import Tensor

from warpsmith.records import Dtype, Init, Trial
from warpsmith.tasks.inputs.families import FAMILIES
from warpsmith.tasks.inputs.keyed import is_keyed, word_start
from warpsmith.tasks.inputs.values import TORCH

BITS = 21  # of a uniform part of a normal value, in seeds of the first scheme
UNIT = 1 << BITS
PARTS = 6  # uniform ones of 32 bits whose sum is a normal value
BLOCK = 1 << 24  # normal values that are drawn at once: their words take 400 MB
WHOLE = 64  # whole numbers are drawn below this, and as far below zero where the element type has a sign
# splitmix64 (Steele, Lea and Flood, OOPSLA 2014): its step, its shifts and factors.
STEP = 0x9E3779B97F4A7C15
ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))

WHOLE_TYPES = frozenset(TORCH[dtype] for dtype in Dtype if not dtype.floating)
_secret: ContextVar[random.Random | None] = ContextVar("secret", default=None)


@contextmanager
def unrepeated(draw: random.Random) -> Iterator[None]:
    """Draw values inside from a fast, unrepeatable source."""
    # A context variable, so that threads that time other kernels do not share the source.
    token = _secret.set(draw)
    try:
        yield
    finally:
        _secret.reset(token)


def _generator(device: torch.device, seed: int) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


class RandomWords:
    """A stream of random words on the default device, derived from one seed."""

    def __init__(self, seed: int) -> None:
        self._seed, self._is_keyed = seed, is_keyed(seed)
        self._start = _signed(scattered(seed))  # neighbours among seeds start far from each other
        self._taken = 0
        self._secret = _secret.get()  # in place of the seed
        self._generators: dict[torch.device, torch.Generator] = {}

    @property
    def is_current(self) -> bool:
        """Whether normal values are made as in the current scheme; seeds of the first scheme keep theirs."""
        return self._is_keyed or self._secret is not None

    @property
    def generator(self) -> torch.Generator | None:
        """Torch's generator on the default device, or None if the seed decides."""
        if self._secret is None:
            return None
        device = torch.get_default_device()
        if device not in self._generators:
            self._generators[device] = _generator(device, word_start(self._secret.getrandbits(62), 0))
        return self._generators[device]

    def take(self, count: int) -> Tensor:
        """Return the next words, 63 bits each, as int64."""
        if (generator := self.generator) is not None:
            return torch.randint((1 << 63) - 1, (count,), dtype=torch.int64, generator=generator)
        return self._whole(count).bitwise_and_((1 << 63) - 1)

    def halves(self, count: int) -> Tensor:
        """Return an even number of words of 32 bits, as int32."""
        if (generator := self.generator) is not None:
            return torch.randint(-(1 << 31), 1 << 31, (count,), dtype=torch.int32, generator=generator)
        return self._whole(count // 2).view(torch.int32)

    def _whole(self, count: int) -> Tensor:
        """Return the next words of the seed with all 64 bits."""
        word = torch.arange(self._first(), self._first() + count, dtype=torch.int64)
        # int64 arithmetic of torch wraps modulo 2^64, as splitmix64 needs.
        word.mul_(_signed(STEP)).add_(self._begin())
        self._taken += count
        for shift, factor in ROUNDS:
            # torch shifts int64 arithmetically; the mask makes the shift logical.
            word.bitwise_xor_((word >> shift).bitwise_and_((1 << (64 - shift)) - 1)).mul_(_signed(factor))
        return word

    def pick(self, high: int) -> int:
        """Draw an integer below `high` without a tensor."""
        if self._secret is not None:
            return self._secret.randrange(high)
        self._taken += 1
        return word_start(self._seed, self._taken) % high

    def _first(self) -> int:
        # Seeds of scheme 1 count words through all tensors; keyed seeds begin anew with each tensor.
        return 1 if self._is_keyed else self._taken + 1

    def _begin(self) -> int:
        return _signed(word_start(self._seed, self._taken)) if self._is_keyed else self._start


def scattered(value: int) -> int:
    """Return the splitmix64 hash of one integer."""
    word = value * STEP & ((1 << 64) - 1)
    for shift, factor in ROUNDS:
        word = (word ^ (word >> shift)) * factor & ((1 << 64) - 1)
    return word


def _signed(value: int) -> int:
    """Return the int64 with the same low 64 bits."""
    low = value & ((1 << 64) - 1)
    return low - (1 << 64) if low >= 1 << 63 else low


class Draw:
    """The random source of a task's `inputs`: the family, initialization, element type and seed of a test input."""

    def __init__(self, trial: Trial) -> None:
        self.family = trial.family
        self.init = trial.init
        self.dtype = TORCH[trial.case.dtype]
        self._words = RandomWords(trial.seed)

    def input(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Draw data of the family, times `scale`."""
        if self.dtype in WHOLE_TYPES:
            return self._whole(shape)
        # An empty tensor takes no words, so that samplers need not handle size 0.
        values = FAMILIES[self.family].sample(self, shape) if prod(shape) else torch.zeros(shape, dtype=torch.float64)
        return (values if scale == 1.0 else values * scale).to(self.dtype)

    def _whole(self, shape: tuple[int, ...]) -> Tensor:
        if self.dtype is torch.bool:
            return self.bits(2, *shape).bool()
        low = max(torch.iinfo(self.dtype).min, -WHOLE)
        return (self.bits(WHOLE - low, *shape) + low).to(self.dtype)

    def parameter(self, *shape: int, mean: float = 0.0, std: float = 1.0) -> Tensor:
        """Draw a parameter by the initialization."""
        # A fresh module has constant parameters, but a mean of 0 would make every result 0.
        if self.init is Init.FRESH and mean:
            return torch.full(shape, mean, dtype=self.dtype)
        spread = 4 * std if self.init is Init.WIDE else std
        values = mean + spread * self.normal(*shape)
        if self.init is Init.SIGNED:
            values = values * (1 - 2 * self.bits(2, *shape).double())
        return values.to(self.dtype)

    def indices(self, high: int, *shape: int) -> Tensor:
        """Draw integers below `high`, as int64."""
        return self.bits(high, *shape)

    def normal(self, *shape: int) -> Tensor:
        """Draw float64 values with mean 0, variance 1 and full mantissas."""
        if not self._words.is_current:
            return self._first_normal(*shape)
        found = torch.empty(prod(shape), dtype=torch.float64)
        for block in torch.split(found, BLOCK):
            parts = self._words.halves(block.numel() * PARTS).reshape(PARTS, -1)
            # Sums of int32 in int64 are exact, so the bytes depend on the seed alone.
            block.copy_(parts.sum(0, dtype=torch.int64))
        # The sum of six uniform values has variance 1/2; the factor scales it to 1.
        return found.add_(PARTS / 2).mul_(2.0**-32 * 2**0.5).reshape(shape)

    def _first_normal(self, *shape: int) -> Tensor:
        """Draw normal values as in the first scheme: sums of six uniform values of 21 bits."""
        total = torch.zeros(shape, dtype=torch.float64)
        for _ in range(2):
            word = self.bits((1 << (3 * BITS)) - 1, *shape)
            for part in range(3):
                total += ((word >> (part * BITS)) & (UNIT - 1)).double()
        return (total - 3 * (UNIT - 1)) / UNIT * 2**0.5

    def uniform(self, *shape: int) -> Tensor:
        """Draw float64 values in [0, 1)."""
        return self.bits(1 << 53, *shape).double() / (1 << 53)

    def bits(self, high: int, *shape: int) -> Tensor:
        """Draw integers below `high`."""
        return self._words.take(prod(shape)).remainder_(high).reshape(shape)

    def axis(self, count: int) -> int:
        """Draw an axis, mostly the last, never the first of several. Outlines hold no numbers, so no tensor is used."""
        if count == 1 or self._words.pick(2):
            return count - 1
        return 1 + self._words.pick(count - 1)

    @property
    def smallest(self) -> float:
        """The smallest positive number of the element type, a denormal."""
        info = torch.finfo(self.dtype)
        return info.tiny * info.eps
