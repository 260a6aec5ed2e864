"""Test inputs from a seed: distributions, perturbations, held-out shapes."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.tasks.inputs.draw import Draw, RandomWords, scattered, unrepeated
    from warpsmith.tasks.inputs.families import FAMILIES, OFFSET, families_of
    from warpsmith.tasks.inputs.heldout import LONG, NEAR, heldout_cases, long_cases, longest_cases, near_cases
    from warpsmith.tasks.inputs.keyed import SCHEME, SEED_BITS, KeyedRandom, input_seed, secret_source
    from warpsmith.tasks.inputs.shapes import ExampleShape, read_shape, shape_text
    from warpsmith.tasks.inputs.twist import twisted
    from warpsmith.tasks.inputs.values import (
        TORCH,
        Value,
        Values,
        computable,
        dtype_of,
        mapped,
        outputs,
        tensors,
        widened,
    )

__getattr__ = lazy_members(__name__)
