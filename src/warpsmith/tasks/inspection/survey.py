"""Description of a foreign task: shapes from the meta device, values from the smallest case."""

from collections.abc import Collection, Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from warpsmith.base import UsageError
from warpsmith.records import (
    Argument,
    ArgumentKind,
    Axis,
    Case,
    Direction,
    Dtype,
    Group,
    Role,
    Signature,
    Task,
    Tolerance,
)
from warpsmith.tasks.formats import ELEMENTS
from warpsmith.tasks.inputs import Values, dtype_of, shape_text, tensors
from warpsmith.tasks.inspection.bound import BoundArgument, argument_values, merge_arguments
from warpsmith.tasks.inspection.source import Source, call_on_copies
from warpsmith.tasks.inspection.work import WorkEstimate, have_equal_results
from warpsmith.tasks.reference import differentiable, gradient_names, leaves

BATCH = 4  # two rows are a degenerate batch for a batch normalization
SIDE = 32  # a warp: enough to show what a kernel does with a row
FLOORS = {dtype: dtype.norm_floor for dtype in Dtype if dtype.norm_floor}


def describe_task(source: Source) -> Task:
    """Return the task as data."""
    head, cases = source.head, source.cases()
    # The meta device holds shapes without memory, so cases larger than this machine are sized as well.
    seen = {case.name: size_arguments(source, case) for case in cases}
    arguments = merge_arguments(seen, str(head.path))
    smallest = min(cases, key=lambda case: _count_elements(seen[case.name]))
    with torch.no_grad():
        found = source.bind(smallest, 0)
    # Values decide about determinism and gradients; the smallest case costs least.
    results = _call_twice(source, smallest, argument_values(found))
    forward = Signature(arguments=arguments, results=_result_names(len(results)))
    dtype = _choose_dtype([*tensors(argument_values(found)), *results])
    backward = source.backward(forward, found) if _is_differentiable(source, forward, found) else None
    ledger = WorkEstimate(source, forward, argument_values(found))
    ways = tuple(Direction) if backward else (Direction.FORWARD,)
    return Task(
        name=head.name,
        version=head.version,
        origin=head.origin,
        description=head.description,
        source=head.text,
        forward=forward,
        backward=backward,
        axes=_find_axes(cases),
        shapes={}
        if _names_all_sizes(cases, seen)
        else {name: _tensor_shapes(arguments) for name, arguments in seen.items()},
        cases=tuple(case.model_copy(update={"dtype": dtype}) for case in cases),
        tolerance=Tolerance(norm_floor=FLOORS, reduction=str(_longest_reduction(list(seen.values()), results))),
        work={direction: ledger.estimate_cases(direction, seen) for direction in ways},
    )


def size_arguments(source: Source, case: Case) -> tuple[BoundArgument, ...]:
    """Return the arguments of a case, on the meta device if the code allows it.

    Raise UsageError for sizes that no GPU holds.
    """
    found = meta_arguments(source, case) or source.bind(case, 0)
    count = _count_elements(found)
    # Checked before anything is allocated.
    if count > ELEMENTS:
        sizes = ", ".join(f"{name}={size}" for name, size in case.axes.items())
        raise UsageError(
            f"{source.head.path}: case '{case.name}' ({sizes or 'no named sizes'}) has arguments of {count} elements; "
            f"at most {ELEMENTS} are taken. Lower its sizes."
        )
    return found


def meta_arguments(source: Source, case: Case) -> tuple[BoundArgument, ...] | None:
    """Return the arguments of a case as meta tensors, or None if the code needs real values."""
    try:
        with torch.device("meta"), torch.no_grad():
            return source.bind(case, 0)
    except Exception:  # noqa: BLE001 -- any failure here is told by the run with real tensors that follows
        return None


def runs_on_meta(source: Source, case: Case) -> bool:
    """Return whether the torch function accepts a case's shapes, as far as the meta device shows."""
    found = meta_arguments(source, case)
    if found is None:
        return False
    try:
        with torch.device("meta"), torch.no_grad():
            return all(result.numel() for result in call_on_copies(source, argument_values(found)))
    except Exception:  # noqa: BLE001 -- a case that fails here is not offered; nothing else follows from it
        return False


def _call_twice(source: Source, case: Case, arguments: Values) -> tuple[Tensor, ...]:
    # A kernel is compared with a reference for equal arguments, so the function must repeat its result.
    """Return the results of a real call. Raise UsageError if a second call gives others."""
    state = torch.get_rng_state()
    with torch.no_grad():
        first = call_on_copies(source, arguments)
        # If the generator moved, random numbers were drawn; otherwise the task holds a state.
        moved = not torch.equal(state, torch.get_rng_state())
        second = call_on_copies(source, arguments)
    if not have_equal_results(first, second):
        cause = "it draws random numbers (dropout in train mode?)" if moved else "it keeps state between calls"
        raise UsageError(
            f"{source.head.path}: case '{case.name}': two forwards on the same arguments differ: {cause}. "
            "A kernel cannot repeat that; call .eval() in __init__ or take the random part out."
        )
    return first


def _is_differentiable(source: Source, forward: Signature, found: Sequence[BoundArgument]) -> bool:
    """Whether every result depends on an argument with a gradient."""
    # Without a path of gradients to every result, autograd has no backward for it.
    fresh = leaves(forward, argument_values(found))
    with torch.enable_grad():
        return bool(differentiable(forward, fresh)) and all(r.requires_grad for r in call_on_copies(source, fresh))


def default_backward(forward: Signature, smallest: Sequence[BoundArgument]) -> Signature:
    """Return the default signature: upstream gradients, forward's arguments; gradients of differentiable ones."""
    grads = tuple(Argument(name=f"grad_{name}", kind=ArgumentKind.TENSOR, role=Role.GRAD) for name in forward.results)
    return Signature(
        arguments=(*grads, *forward.arguments), results=tuple(gradient_names(forward, argument_values(smallest)))
    )


def _result_names(count: int) -> tuple[str, ...]:
    """Return `out`, or `out_0`, `out_1`, … for several results."""
    return ("out",) if count == 1 else tuple(f"out_{i}" for i in range(count))


def _count_elements(arguments: Sequence[BoundArgument]) -> int:
    """Return the number of elements of all tensors."""
    return sum(tensor.numel() for tensor in tensors(argument_values(arguments)))


def _choose_dtype(found: Sequence[Tensor]) -> Dtype:
    """Return the first floating-point type, or the first type if all are integers."""
    dtypes = [dtype_of(tensor) for tensor in found]
    return next((one for one in dtypes if one.floating), dtypes[0] if dtypes else Dtype.FLOAT32)


def _names_all_sizes(cases: Sequence[Case], seen: Mapping[str, Sequence[BoundArgument]]) -> bool:
    """Return whether every size of every tensor is an axis of its case."""
    sizes = ((case, size) for case in cases for one in tensors(argument_values(seen[case.name])) for size in one.shape)
    return all(size in (1, *case.axes.values()) for case, size in sizes)


def _tensor_shapes(arguments: Sequence[BoundArgument]) -> tuple[str, ...]:
    """Return the shapes of all tensors; parts of a tuple are numbered."""
    named = ((argument.name, tensors([argument.value])) for argument in arguments)
    labelled = [
        (f"{name}_{i}" if len(parts) > 1 else name, one) for name, parts in named for i, one in enumerate(parts)
    ]
    return tuple(shape_text(label, one.shape, dtype_of(one)) for label, one in labelled)


def _find_axes(cases: Sequence[Case]) -> tuple[Axis, ...]:
    """Return the axes that the cases name."""
    names = dict.fromkeys(name for case in cases for name in case.axes)
    largest = {name: max(1, *(abs(case.axes.get(name, 1)) for case in cases)) for name in names}
    return tuple(Axis(name=name, meaning="named so in the task's own file", maximum=largest[name]) for name in names)


def _longest_reduction(cases: Sequence[Sequence[BoundArgument]], results: Sequence[Tensor]) -> int:
    """Estimate the terms of one output's sum."""
    outputs = max(1, sum(result.numel() for result in results))
    longest = 1
    for arguments in cases:
        for argument in arguments:
            for tensor in tensors([argument.value]):
                # A weight's first axis is taken as the outputs, and the other axes as summed.
                fan_in = prod(tensor.shape[1:]) if argument.role is Role.PARAMETER else 1
                whole = tensor.numel() if outputs == 1 else 1
                longest = max(longest, fan_in, whole, *tensor.shape)
    return longest


def smaller_axes(axes: Mapping[str, int], free: Collection[str]) -> Sequence[Mapping[str, int]]:
    """Return smaller sizes, smallest first, of axes that no parameter uses."""
    # Sizes are recognized by name, because the meaning of a size stands nowhere else.
    batch = {name: BATCH for name in free if "batch" in name.lower() and axes[name] > BATCH}
    # Batch and sides are made smaller first, then the batch alone: some sizes cannot change.
    sides = {name: SIDE for name in free if name not in batch and axes[name] > SIDE}
    tried = [{**axes, **batch, **sides}, {**axes, **batch}]
    return [sizes for sizes in tried if sizes != axes]


def smoke_case(source: Source, given: Case, options: Sequence[Case]) -> Case:
    """Return the first option that runs, else the given case, named and grouped as smoke."""
    chosen = next((case for case in options if runs_on_meta(source, case)), given)
    return chosen.model_copy(update={"name": "smoke", "group": Group.SMOKE})
