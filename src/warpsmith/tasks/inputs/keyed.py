"""Random numbers from a secret by a keyed one-way hash."""

import random
from hashlib import blake2b

SCHEME = 2  # how test inputs follow from a secret seed; 1: by Mersenne Twister, in records that name no scheme
KEYED = 1 << 62  # set in the seed of every test input of scheme 2, and in none of scheme 1
SEED_BITS = 62
HASH_BITS = 512


class KeyedRandom(random.Random):
    """A source of keyed BLAKE2b hashes of a counter."""

    def __init__(self, secret: int, purpose: str = "") -> None:
        # The purpose is part of the key: draws for two purposes say nothing about each other.
        # BLAKE2b is one-way: inputs that a kernel has seen tell neither the secret nor later inputs (design/draws.md).
        self._key, self._count = blake2b(f"{purpose}:{secret}".encode(), digest_size=32).digest(), 0
        super().__init__()

    def seed(self, *_arguments: object, **_named: object) -> None:
        """Change nothing: the secret alone decides."""

    def getrandbits(self, k: int, /) -> int:
        """Return `k` random bits, at most 512."""
        # A counter as message: equal numbers of calls give equal numbers, on every machine.
        self._count += 1
        word = blake2b(self._count.to_bytes(8, "little"), key=self._key).digest()
        # The highest bits of the hash, as many as wanted.
        return int.from_bytes(word, "little") >> (HASH_BITS - k)

    def random(self) -> float:
        """Return a number in [0, 1) with 53 random bits."""
        return self.getrandbits(53) / (1 << 53)


def secret_source(secret: int, purpose: str, scheme: int = SCHEME) -> random.Random:
    """Return the random source of a scheme."""
    return KeyedRandom(secret, purpose) if scheme >= SCHEME else random.Random(secret)


def input_seed(source: random.Random) -> int:
    """Return a test input's seed in the source's scheme."""
    return source.getrandbits(SEED_BITS) | (KEYED if isinstance(source, KeyedRandom) else 0)


def is_keyed(seed: int) -> bool:
    """Return whether a test input's seed is of scheme 2."""
    return seed >= KEYED


def word_start(seed: int, number: int) -> int:
    """Return the 64-bit start of a tensor's random words."""
    # Sixteen signed bytes hold the seeds of every scheme.
    key = seed.to_bytes(16, "little", signed=True)
    return int.from_bytes(blake2b(number.to_bytes(8, "little"), key=key, digest_size=8).digest(), "little")
