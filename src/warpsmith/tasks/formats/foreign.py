"""What every foreign format becomes: a `Program` over a `Source`. Nothing above knows which format it was."""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from warpsmith.records import Family, Init, Role, Trial
from warpsmith.tasks.inputs import TORCH, Draw, Value, Values, computable, mapped, tensors
from warpsmith.tasks.inspection import (
    CPU,
    BoundArgument,
    Source,
    call_on_copies,
    cast_to_float64,
    describe_task,
    run_on_device,
)


class ForeignProgram:
    """A foreign task that can be run. Forward works on copies, so a function that writes its inputs harms nothing."""

    def __init__(self, source: Source) -> None:
        self._source = source
        with run_on_device():
            self.task = describe_task(source)

    def arguments(self, trial: Trial) -> Values:
        """The task's own draw from the trial's seed; families and inits beyond the default replace or scale it."""
        with run_on_device(), torch.no_grad():
            found = self._source.bind(trial.case, trial.seed)
            draw = Draw(trial)
            return tuple(_restyled(argument, trial, draw) for argument in found)

    def forward(self, arguments: Values) -> tuple[Tensor, ...]:
        """The torch function; in float64 throughout where the arguments are."""
        native = TORCH[self.task.cases[0].dtype]
        widths = {tensor.dtype for tensor in tensors(arguments) if tensor.is_floating_point()}
        wide = widths == {torch.float64} and native is not torch.float64
        with run_on_device(_device(arguments)), cast_to_float64() if wide else nullcontext():
            return call_on_copies(self._source, arguments)

    def backward_arguments(self, arguments: Values, grads: Sequence[Tensor]) -> Values:
        """What the format passes to a backward kernel."""
        with run_on_device(_device(arguments)), torch.no_grad():
            return self._source.backward_values(arguments, grads)


def _device(arguments: Values) -> torch.device:
    return next((tensor.device for tensor in tensors(arguments)), CPU)


def _restyled(argument: BoundArgument, trial: Trial, draw: Draw) -> Value:
    value = argument.value
    if argument.role is Role.INPUT and trial.family is not Family.NORMAL:
        return mapped([value], lambda t: draw.input(*t.shape).to(t.dtype) if t.is_floating_point() else t)[0]
    if argument.role is Role.PARAMETER and trial.init is Init.WIDE:
        return mapped([value], lambda t: (computable(t) * 4).to(t.dtype))[0]
    if argument.role is Role.PARAMETER and trial.init is Init.SIGNED:
        return mapped([value], lambda t: (computable(t) * (1 - 2 * draw.bits(2, *t.shape))).to(t.dtype))[0]
    return value
