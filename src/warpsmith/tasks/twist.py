"""Arguments changed in a way that a seed decides: one element, or the order of all. Knows no reference."""

import torch
from torch import Tensor

from warpsmith.records import Role, Signature, Trial, Twist
from warpsmith.tasks.values import Value, Values, tensors

TWISTED = (Role.INPUT, Role.PARAMETER)
FAR = 8.0  # times the largest magnitude: past the tolerance of every element type after a sum of thousands


def twisted(arguments: Values, signature: Signature, trial: Trial) -> Values:
    """The arguments of a trial after its twist; other tensors than inputs and parameters stay as they are."""
    if trial.twist is Twist.NONE:
        return arguments
    source = torch.Generator().manual_seed(trial.seed ^ 0x7157)
    pairs = list(zip(signature.arguments, arguments, strict=True))
    open_ones = [value for spec, value in pairs if spec.role in TWISTED]
    fit = [tensor for tensor in tensors(open_ones) if tensor.is_floating_point() and tensor.numel()]
    if trial.twist is Twist.SHUFFLED:
        changed = {id(tensor): _shuffled(tensor, source) for tensor in fit}
    else:
        place = int(torch.randint(len(fit), (), generator=source)) if fit else 0
        changed = {id(tensor): _nudged(tensor, source) for tensor in fit[place : place + 1]}
    return tuple(_exchanged(value, changed) for value in arguments)


def _exchanged(value: Value, changed: dict[int, Tensor]) -> Value:
    if isinstance(value, Tensor):
        return changed.get(id(value), value)
    return tuple(changed.get(id(part), part) for part in value) if isinstance(value, tuple) else value


def _nudged(tensor: Tensor, source: torch.Generator) -> Tensor:
    found = tensor.clone()
    index = torch.unravel_index(torch.randint(tensor.numel(), (), generator=source), tensor.shape)
    found[index] = (FAR * tensor.abs().max().double() + 1).to(tensor.dtype)
    return found


def _shuffled(tensor: Tensor, source: torch.Generator) -> Tensor:
    order = torch.randperm(tensor.numel(), generator=source)
    found = torch.empty_like(tensor)  # keeps the strides
    return found.copy_(tensor.reshape(-1)[order.to(tensor.device)].reshape(tensor.shape))
