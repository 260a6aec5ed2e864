"""What a foreign task is, learnt by running it: on the meta device for shapes, on the smallest case for values."""

from collections.abc import Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from warpsmith.base import UsageError
from warpsmith.records import Argument, ArgumentKind, Axis, Case, Direction, Dtype, Role, Signature, Task, Tolerance
from warpsmith.tasks.formats import ELEMENTS
from warpsmith.tasks.inputs import Values, dtype_of, shape_text, tensors
from warpsmith.tasks.inspection.bound import BoundArgument, merged, values
from warpsmith.tasks.inspection.source import Source, called
from warpsmith.tasks.inspection.work import WorkEstimate, same
from warpsmith.tasks.reference import differentiable, gradient_names, leaves

FLOORS = {dtype: dtype.norm_floor for dtype in Dtype if dtype.norm_floor}


def described(source: Source) -> Task:
    """The task as data."""
    head, cases = source.head, source.cases()
    seen = {case.name: sized(source, case) for case in cases}
    arguments = merged(seen, str(head.path))
    smallest = min(cases, key=lambda case: _elements(seen[case.name]))
    with torch.no_grad():
        found = source.bind(smallest, 0)
    results = _steady(source, smallest, values(found))
    forward = Signature(arguments=arguments, results=_numbered(len(results)))
    dtype = _dtype([*tensors(values(found)), *results])
    backward = source.backward(forward, found) if _differentiable(source, forward, found) else None
    ledger = WorkEstimate(source, forward, values(found))
    ways = tuple(Direction) if backward else (Direction.FORWARD,)
    return Task(
        name=head.name,
        version=head.version,
        origin=head.origin,
        description=head.description,
        source=head.text,
        forward=forward,
        backward=backward,
        axes=_axes(cases),
        shapes={} if _told(cases, seen) else {name: _shapes(arguments) for name, arguments in seen.items()},
        cases=tuple(case.model_copy(update={"dtype": dtype}) for case in cases),
        tolerance=Tolerance(norm_floor=FLOORS, reduction=str(_reduction(list(seen.values()), results))),
        work={direction: ledger.works(direction, seen) for direction in ways},
    )


def sized(source: Source, case: Case) -> tuple[BoundArgument, ...]:
    """The arguments of a case without their memory where the code allows it; sizes no GPU holds are refused."""
    found = weightless(source, case) or source.bind(case, 0)
    count = _elements(found)
    if count > ELEMENTS:
        sizes = ", ".join(f"{name}={size}" for name, size in case.axes.items())
        raise UsageError(
            f"{source.head.path}: case '{case.name}' ({sizes or 'no named sizes'}) has arguments of {count} elements; "
            f"at most {ELEMENTS} are taken. Lower its sizes."
        )
    return found


def weightless(source: Source, case: Case) -> tuple[BoundArgument, ...] | None:
    """The arguments of a case as meta tensors, or nothing where the code does more than make tensors."""
    try:
        with torch.device("meta"), torch.no_grad():
            return source.bind(case, 0)
    except Exception:  # noqa: BLE001 -- any failure here is told by the run with real tensors that follows
        return None


def runs_weightless(source: Source, case: Case) -> bool:
    """Whether the torch function accepts the shapes of a case, as far as the meta device can tell."""
    found = weightless(source, case)
    if found is None:
        return False
    try:
        with torch.device("meta"), torch.no_grad():
            return all(result.numel() for result in called(source, values(found)))
    except Exception:  # noqa: BLE001 -- a case that fails here is not offered; nothing else follows from it
        return False


def _steady(source: Source, case: Case, arguments: Values) -> tuple[Tensor, ...]:
    """The results of a real call, which a second call on the same arguments must repeat."""
    state = torch.get_rng_state()
    with torch.no_grad():
        first = called(source, arguments)
        moved = not torch.equal(state, torch.get_rng_state())
        second = called(source, arguments)
    if not same(first, second):
        cause = "it draws random numbers (dropout in train mode?)" if moved else "it keeps state between calls"
        raise UsageError(
            f"{source.head.path}: case '{case.name}': two forwards on the same arguments differ: {cause}. "
            "A kernel cannot repeat that; call .eval() in __init__ or take the random part out."
        )
    return first


def _differentiable(source: Source, forward: Signature, found: Sequence[BoundArgument]) -> bool:
    fresh = leaves(forward, values(found))
    with torch.enable_grad():
        return bool(differentiable(forward, fresh)) and all(r.requires_grad for r in called(source, fresh))


def plain_backward(forward: Signature, smallest: Sequence[BoundArgument]) -> Signature:
    """The contract of design: upstream gradients, forward's arguments; the gradients of what is differentiable."""
    grads = tuple(Argument(name=f"grad_{name}", kind=ArgumentKind.TENSOR, role=Role.GRAD) for name in forward.results)
    return Signature(arguments=(*grads, *forward.arguments), results=tuple(gradient_names(forward, values(smallest))))


def _numbered(count: int) -> tuple[str, ...]:
    return ("out",) if count == 1 else tuple(f"out_{i}" for i in range(count))


def _elements(arguments: Sequence[BoundArgument]) -> int:
    return sum(tensor.numel() for tensor in tensors(values(arguments)))


def _dtype(found: Sequence[Tensor]) -> Dtype:
    """The first element type with a fraction; of whole numbers alone the first."""
    dtypes = [dtype_of(tensor) for tensor in found]
    return next((one for one in dtypes if one.floating), dtypes[0] if dtypes else Dtype.FLOAT32)


def _told(cases: Sequence[Case], seen: Mapping[str, Sequence[BoundArgument]]) -> bool:
    """Whether every size of every tensor is one that its case names."""
    sizes = ((case, size) for case in cases for one in tensors(values(seen[case.name])) for size in one.shape)
    return all(size in (1, *case.axes.values()) for case, size in sizes)


def _shapes(arguments: Sequence[BoundArgument]) -> tuple[str, ...]:
    """The tensors among the arguments; the parts of a tuple are numbered."""
    named = ((argument.name, tensors([argument.value])) for argument in arguments)
    labelled = [
        (f"{name}_{i}" if len(parts) > 1 else name, one) for name, parts in named for i, one in enumerate(parts)
    ]
    return tuple(shape_text(label, one.shape, dtype_of(one)) for label, one in labelled)


def _axes(cases: Sequence[Case]) -> tuple[Axis, ...]:
    names = dict.fromkeys(name for case in cases for name in case.axes)
    largest = {name: max(1, *(abs(case.axes.get(name, 1)) for case in cases)) for name in names}
    return tuple(Axis(name=name, meaning="named so in the task's own file", maximum=largest[name]) for name in names)


def _reduction(cases: Sequence[Sequence[BoundArgument]], results: Sequence[Tensor]) -> int:
    """How many terms one output may sum: the longest side, a whole tensor into one number, a weight's fan-in."""
    outputs = max(1, sum(result.numel() for result in results))
    longest = 1
    for arguments in cases:
        for argument in arguments:
            for tensor in tensors([argument.value]):
                fan_in = prod(tensor.shape[1:]) if argument.role is Role.PARAMETER else 1
                whole = tensor.numel() if outputs == 1 else 1
                longest = max(longest, fan_in, whole, *tensor.shape)
    return longest
