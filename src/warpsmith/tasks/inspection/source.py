"""The interface of a foreign task in its own form."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from warpsmith.base import UsageError
from warpsmith.records import Case, Origin, Signature
from warpsmith.tasks.inputs import Values, dtype_of, mapped
from warpsmith.tasks.inspection.bound import BoundArgument


@dataclass(frozen=True)
class TaskHead:
    """Facts of a task before its code runs."""

    name: str
    version: str
    origin: Origin
    description: str
    text: str
    path: Path


class Source(Protocol):
    """A foreign task in its own form."""

    @property
    def head(self) -> TaskHead: ...

    def cases(self) -> tuple[Case, ...]:
        """Return the cases; their element type is found later."""
        ...

    def bind(self, case: Case, seed: int) -> tuple[BoundArgument, ...]:
        """Return the arguments of one call of the torch function."""
        ...

    def call(self, arguments: Values) -> Any:
        """Call the torch function."""
        ...

    def backward(self, forward: Signature, smallest: Sequence[BoundArgument]) -> Signature | None:
        """Return backward's signature for a differentiable forward, or None if the task has no backward."""
        ...

    def backward_values(self, arguments: Values, grads: Sequence[Tensor]) -> Values:
        """Return backward's arguments in the order of its signature."""
        ...


def call_on_copies(source: Source, arguments: Values) -> tuple[Tensor, ...]:
    """Call the torch function on copies of the arguments and flatten nested results."""
    # Copies, because a foreign function may write its arguments, and the caller compares them later.
    results = tuple(_flatten(source.call(mapped(arguments, Tensor.clone))))
    strange = next((part for part in results if not isinstance(part, Tensor)), results)
    if strange is results and results:
        for part in results:
            dtype_of(part)  # one that no kernel can return is refused here
        return results
    what = "nothing" if not results else f"a {type(strange).__name__}"
    raise UsageError(f"{source.head.path}: forward returns {what}; a kernel returns tensors, alone or in tuples.")


def _flatten(result: Any) -> Iterator[Any]:
    """Yield the parts of nested results."""
    if isinstance(result, tuple | list):
        for part in result:
            yield from _flatten(part)
    else:
        yield result


@contextmanager
def override_names(place: dict[str, Any], changes: Mapping[str, Any]) -> Iterator[None]:
    """Set names of a module to other values inside the block."""
    before = {name: place[name] for name in changes if name in place}
    place.update(changes)
    try:
        yield
    # Names that the module did not have stay; a foreign module belongs to this process alone.
    finally:
        place.update(before)
