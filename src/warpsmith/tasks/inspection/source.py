"""A foreign task in its own form, and a call of its torch function. Knows no particular format."""

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
class Head:
    """What a task says of itself before anything runs."""

    name: str
    version: str
    origin: Origin
    description: str
    text: str
    path: Path


class Source(Protocol):
    """A foreign task in its own form."""

    @property
    def head(self) -> Head: ...

    def cases(self) -> tuple[Case, ...]:
        """The cases; their element type is found out later."""
        ...

    def bind(self, case: Case, seed: int) -> tuple[BoundArgument, ...]:
        """The arguments of one call of the torch function."""
        ...

    def call(self, arguments: Values) -> Any:
        """The torch function on such arguments."""
        ...

    def backward(self, forward: Signature, smallest: Sequence[BoundArgument]) -> Signature | None:
        """The signature of backward, once forward's is known and found differentiable; none where it is not written."""
        ...

    def backward_values(self, arguments: Values, grads: Sequence[Tensor]) -> Values:
        """Backward's arguments in the order of that signature."""
        ...


def called(source: Source, arguments: Values) -> tuple[Tensor, ...]:
    """The results of one call on copies of the arguments, nested tuples laid flat."""
    results = tuple(_flat(source.call(mapped(arguments, Tensor.clone))))
    strange = next((part for part in results if not isinstance(part, Tensor)), results)
    if strange is results and results:
        for part in results:
            dtype_of(part)  # one that no kernel can return is refused here
        return results
    what = "nothing" if not results else f"a {type(strange).__name__}"
    raise UsageError(f"{source.head.path}: forward returns {what}; a kernel returns tensors, alone or in tuples.")


def _flat(result: Any) -> Iterator[Any]:
    if isinstance(result, tuple | list):
        for part in result:
            yield from _flat(part)
    else:
        yield result


@contextmanager
def overridden(place: dict[str, Any], changes: Mapping[str, Any]) -> Iterator[None]:
    """Names of a module set to other values for a while."""
    before = {name: place[name] for name in changes if name in place}
    place.update(changes)
    try:
        yield
    finally:
        place.update(before)
