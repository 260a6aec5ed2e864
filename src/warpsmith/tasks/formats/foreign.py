"""A program over the source of a foreign format."""

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
    """A foreign task that can run. Forward gets copies, so it may write its inputs."""

    def __init__(self, source: Source) -> None:
        self._source = source
        with run_on_device():
            self.task = describe_task(source)

    def arguments(self, trial: Trial) -> Values:
        """Draw the task's own inputs; other families and inits replace or scale them."""
        with run_on_device(), torch.no_grad():
            found = self._source.bind(trial.case, trial.seed)
            draw = Draw(trial)
            return tuple(_apply_trial(argument, trial, draw) for argument in found)

    def forward(self, arguments: Values) -> tuple[Tensor, ...]:
        """Run the torch function, in float64 throughout if the arguments are."""
        # Arguments in float64 of a task that has none ask for the reference, so casts inside must not narrow it.
        native = TORCH[self.task.cases[0].dtype]
        widths = {tensor.dtype for tensor in tensors(arguments) if tensor.is_floating_point()}
        wide = widths == {torch.float64} and native is not torch.float64
        with run_on_device(_device(arguments)), cast_to_float64() if wide else nullcontext():
            return call_on_copies(self._source, arguments)

    def backward_arguments(self, arguments: Values, grads: Sequence[Tensor]) -> Values:
        """Return the arguments that the format passes to a backward kernel."""
        with run_on_device(_device(arguments)), torch.no_grad():
            return self._source.backward_values(arguments, grads)


def _device(arguments: Values) -> torch.device:
    """Return the device of the first tensor."""
    return next((tensor.device for tensor in tensors(arguments)), CPU)


def _apply_trial(argument: BoundArgument, trial: Trial, draw: Draw) -> Value:
    """Return an argument changed by the trial's family or init."""
    # The task's own inputs serve as the normal family; other families replace them.
    value = argument.value
    if argument.role is Role.INPUT and trial.family is not Family.NORMAL:
        return mapped([value], lambda t: draw.input(*t.shape).to(t.dtype) if t.is_floating_point() else t)[0]
    if argument.role is Role.PARAMETER and trial.init is Init.WIDE:
        return mapped([value], lambda t: (computable(t) * 4).to(t.dtype))[0]
    if argument.role is Role.PARAMETER and trial.init is Init.SIGNED:
        return mapped([value], lambda t: (computable(t) * (1 - 2 * draw.bits(2, *t.shape))).to(t.dtype))[0]
    return value
