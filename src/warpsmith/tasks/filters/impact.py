"""Check that every input and parameter changes the result."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from warpsmith.records import Origin, Role
from warpsmith.tasks.filters.numbers import relative_change, rms
from warpsmith.tasks.filters.outputs import judge_smallest
from warpsmith.tasks.filters.report import Filter, FilterResult, Measure, Skip
from warpsmith.tasks.filters.subject import REFUSALS, FilteredProgram, Sample
from warpsmith.tasks.filters.thresholds import IMPACT, IMPACT_UNITS
from warpsmith.tasks.inputs import Value, Values, tensors
from warpsmith.tasks.reference import gradients

DIRECT = 8  # so many arguments are tried by one call each; more are first looked at through one backward pass
ROLES = {
    Filter.INPUT_IMPACT: (Role.INPUT, Role.FIXED),
    Filter.PARAMETER_IMPACT: (Role.PARAMETER,),
}


@dataclass(frozen=True)
class PerturbedTensor:
    """A tensor among the arguments: the argument's index, and its index in a tuple."""

    name: str
    place: int
    part: int | None
    role: Role

    def read_from(self, arguments: Values) -> Tensor:
        """Return the tensor."""
        value = arguments[self.place]
        found = value if self.part is None else value[self.part]  # type: ignore[index]
        assert isinstance(found, Tensor)
        return found

    def replace_in(self, arguments: Values, tensor: Tensor) -> Values:
        """Return the arguments with another tensor at this place."""
        held: Value = tensor
        if self.part is not None:
            parts = list(arguments[self.place])  # type: ignore[arg-type]
            held = tuple(tensor if place == self.part else part for place, part in enumerate(parts))
        return (*arguments[: self.place], held, *arguments[self.place + 1 :])


def list_tensors(subject: FilteredProgram, arguments: Values) -> list[PerturbedTensor]:
    """List every tensor among the arguments."""
    found: list[PerturbedTensor] = []
    for place, (spec, value) in enumerate(zip(subject.signature.arguments, arguments, strict=True)):
        if isinstance(value, Tensor):
            found.append(PerturbedTensor(spec.name, place, None, spec.role))
        elif isinstance(value, tuple):
            found.extend(PerturbedTensor(f"{spec.name}[{part}]", place, part, spec.role) for part in range(len(value)))
    return found


def check_impact(subject: FilteredProgram, base: Sample, other: Sample, filter_: Filter) -> FilterResult | Skip:
    """Measure the relative change of the outputs when one argument of a role changes alone."""
    every = [t for t in list_tensors(subject, base.arguments) if t.role in ROLES[filter_]]
    chosen = [
        t for t in every if t.read_from(base.arguments).numel() and not _is_unused_buffer(subject, t, base, other)
    ]
    noun = "inputs" if filter_ is Filter.INPUT_IMPACT else "parameters"
    if not chosen:
        return Skip(filter=filter_, reason=f"the task has no {noun}")
    measures, left = _measure_impacts(subject, base, other, chosen)
    sentence = "changing {what} alone moves the outputs by {value:.3g} of their largest value"
    if left:
        sentence += f"; {len(left)} of {len(chosen)} were not tried for lack of time"
    return judge_smallest(filter_, measures, _impact_threshold(base), sentence)


def _impact_threshold(base: Sample) -> float:
    """Return the relative change that counts as impact."""
    # The coarsest type of the outputs decides how small a change can show.
    units = [torch.finfo(output.dtype).eps for output in base.outputs if output.is_floating_point()]
    return max(IMPACT, IMPACT_UNITS * max(units, default=0.0))


def _measure_impacts(
    subject: FilteredProgram, base: Sample, other: Sample, chosen: Sequence[PerturbedTensor]
) -> tuple[list[Measure], list[PerturbedTensor]]:
    """Return a measure for each tensor, and the tensors that the time limit left out."""
    # One backward pass estimates the impact of many tensors; only small estimates are measured by calls.
    known = _estimate_impacts(subject, base, other, chosen) if len(chosen) > DIRECT else {}
    measures: list[Measure] = []
    left: list[PerturbedTensor] = []
    for target in chosen:
        if known.get(target.name, 0.0) >= _impact_threshold(base):
            measures.append(Measure(what=f"'{target.name}'", value=known[target.name]))
        elif measures and not subject.clock.allows(1):
            left.append(target)
        else:
            value = _largest_change(subject, base, other, target)
            measures.append(Measure(what=f"'{target.name}'", value=value))
    return measures, left


def _largest_change(subject: FilteredProgram, base: Sample, other: Sample, target: PerturbedTensor) -> float:
    """Return the largest output change over all perturbations; stop at the first visible one."""
    most = 0.0
    for changed in perturbations(target, base.arguments, other.arguments):
        try:
            after = subject.call(target.replace_in(base.arguments, changed))
        except REFUSALS:
            return float("inf")  # a value that the function refuses has been looked at
        most = max(most, relative_change(base.outputs, after))
        if most >= _impact_threshold(base):
            break
    return most


def perturbations(target: PerturbedTensor, arguments: Values, redrawn: Values) -> Iterator[Tensor]:
    """Yield other values for a tensor: another draw, and another scale.

    Means of many values hardly change from draw to draw, so the scale changes too.
    """
    old, new = target.read_from(arguments), target.read_from(redrawn)
    if new.shape == old.shape and not torch.equal(new, old):
        yield new
        if new.is_floating_point():
            yield new * 2
    else:
        yield perturb_values(old)
    # The mean of many products of unrelated values is zero for any draw, and not when they are related.
    alike = (t for t in tensors(arguments) if t is not old and t.shape == old.shape and t.dtype == old.dtype)
    yield from islice(alike, 1)


def perturb_values(tensor: Tensor) -> Tensor:
    """Return other values of the same kind for a tensor that every draw repeats; positive values stay positive."""
    source = torch.Generator().manual_seed(7)
    if tensor.dtype is torch.bool:
        return ~tensor
    if not tensor.is_floating_point():
        return (
            tensor.roll(1, 0)
            if tensor.ndim and bool((tensor != tensor.flatten()[0]).any())
            else torch.zeros_like(tensor)
        )
    noise = torch.rand(tensor.shape, generator=source, dtype=torch.float64).to(tensor.dtype)
    return tensor * (1 + noise) + noise * (rms(tensor.double()) or 1.0)


def _is_unused_buffer(subject: FilteredProgram, target: PerturbedTensor, base: Sample, other: Sample) -> bool:
    """Return whether a tensor is a module's buffer, such as a counter, which may lack impact."""
    if subject.program.task.origin is Origin.SUITE or target.role is not Role.FIXED:
        return False
    return torch.equal(target.read_from(base.arguments), target.read_from(other.arguments))


def _estimate_impacts(
    subject: FilteredProgram, base: Sample, other: Sample, chosen: Sequence[PerturbedTensor]
) -> dict[str, float]:
    # The inner product of gradient and change is the first-order change of a random combination of outputs.
    """Estimate the impact of many tensors by one backward pass: |<gradient, change>|, random upstream signs."""
    source = torch.Generator().manual_seed(11)
    outputs = [output for output in base.outputs if output.is_floating_point()]
    if len(outputs) != len(base.outputs) or not subject.clock.allows(4):
        return {}
    signs = [torch.randint(0, 2, o.shape, generator=source).mul(2).sub(1).to(o.dtype) for o in outputs]
    try:
        found = gradients(subject.program.forward, subject.signature, base.arguments, signs)
    except REFUSALS:
        return {}
    flowing = [t for t in list_tensors(subject, base.arguments) if _has_gradient(t, base.arguments)]
    size = sum(float(output.double().square().sum()) for output in outputs) ** 0.5
    wanted = {target.name for target in chosen}
    estimates: dict[str, float] = {}
    for target, grad in zip(flowing, found, strict=True):
        if target.name in wanted:
            step = next(perturbations(target, base.arguments, other.arguments)) - target.read_from(base.arguments)
            estimates[target.name] = abs(float((grad.double() * step.double()).sum())) / (size or 1.0)
    return estimates


def _has_gradient(target: PerturbedTensor, arguments: Values) -> bool:
    """Whether backward can reach the tensor."""
    return target.role in (Role.INPUT, Role.PARAMETER) and target.read_from(arguments).is_floating_point()
