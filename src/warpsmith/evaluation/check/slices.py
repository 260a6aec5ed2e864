"""Slices of a result (rows, heads, columns and blocks of them), from its shape alone, and sums over each slice."""

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import torch
from torch import Tensor

BLOCK = 16  # neighbours that are a slice together as well
STACKED = 1 << 20  # elements up to which several tensors are summed at once


def slice_sums(tensors: Sequence[Tensor]) -> Tensor:
    """Return the sums of tensors of one shape over every slice: one row per tensor, one column per slice.

    A slice has the first axes in common (a matrix of a batch, a row) or one other axis (a token, a column). Blocks of
    16 neighbouring slices are slices too, and so is the whole result.
    """
    first = tensors[0]
    if len(tensors) > 1 and first.numel() <= STACKED:
        return _sums(torch.stack(list(tensors)))
    return torch.cat([_sums(one.unsqueeze(0)) for one in tensors])


def slice_counts(shape: Sequence[int], device: torch.device) -> Tensor:
    """Return the number of elements of each slice."""
    return _counts(tuple(shape)).to(device)


def slice_name(shape: Sequence[int], number: int) -> str:
    """Return a slice as indexes (`[3, :]` is a row); raise IndexError."""
    for axes, count, block in _layout(_dense(shape)):
        if number < count:
            return _place(shape, axes, number, block)
        number -= count
    raise IndexError(number)


def _sums(stack: Tensor) -> Tensor:
    """Return the sums of each stacked tensor."""
    several, shape = stack.shape[0], _dense(stack.shape[1:])
    x = stack.reshape(several, *shape)
    rows = x.sum(-1)
    parts: list[Tensor] = []
    for axes, _, block in _layout(shape):
        if block:
            parts.append(_blocks(parts[-1]))
        elif axes and axes[-1] == len(shape) - 1:
            parts.append(x.reshape(several, -1, shape[-1]).sum(1))
        else:
            others = [place + 1 for place in range(len(shape) - 1) if place not in axes]
            parts.append((rows.sum(others) if others else rows).reshape(several, -1))
    return torch.cat(parts, 1)


def _blocks(sums: Tensor) -> Tensor:
    """Return the sums of blocks of 16 neighbours.

    The last block ends with the last slice.
    """
    whole = sums.shape[1] // BLOCK * BLOCK
    blocks = sums[:, :whole].reshape(sums.shape[0], -1, BLOCK).sum(-1)
    return torch.cat([blocks, sums[:, -BLOCK:].sum(-1, keepdim=True)], 1)


@lru_cache(maxsize=256)
def _counts(shape: tuple[int, ...]) -> Tensor:
    """Return the number of elements of each slice of a shape."""
    return slice_sums([torch.ones(shape, dtype=torch.float64)])[0]


@lru_cache(maxsize=256)
def _layout(shape: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], int, bool], ...]:
    """Return the kinds of slices of a shape.

    For each kind the fixed axes, the number of slices, and whether they are blocks.
    """
    last = len(shape) - 1
    kinds = [tuple(range(count)) for count in range(last + 1)] + [(axis,) for axis in range(1, last)]
    if last >= 0:
        kinds.append((last,))
    found = []
    for axes in dict.fromkeys(kinds):
        count = prod(shape[axis] for axis in axes)
        found.append((axes, count, False))
        if count >= 2 * BLOCK:
            found.append((axes, count // BLOCK + 1, True))
    return tuple(found)


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes above one, at least one size."""
    return tuple(size for size in shape if size != 1) or (1,)


def _place(shape: Sequence[int], axes: tuple[int, ...], number: int, block: bool) -> str:
    """Return the place of a slice of one kind as text."""
    dense = [place for place, size in enumerate(shape) if size != 1]
    sizes = [shape[dense[axis]] for axis in axes] if dense else []
    total = prod(sizes)
    first = min(number * BLOCK, total - BLOCK) if block else number
    words = {dense[axis]: index for axis, index in zip(axes, _unravelled(first, sizes), strict=True)} if dense else {}
    text = f"[{', '.join(words.get(place, ':') for place in range(len(shape)))}]"
    return f"the {BLOCK} slices from {text} on" if block else text


def _unravelled(number: int, sizes: Sequence[int]) -> list[str]:
    """Return the index along each axis of a flat number."""
    found = []
    for size in reversed(sizes):
        number, index = divmod(number, size)
        found.append(str(index))
    return found[::-1]
