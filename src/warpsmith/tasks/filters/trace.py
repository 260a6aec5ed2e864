"""The calls a task makes to torch, in order, with who reads whose result. Judges nothing.

Recorded where the author wrote them (`F.softmax`, `x + y`), not as the operators they become: a call that returns
an index nobody wants is one call here, and a finding can name the line.
"""

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name

from warpsmith.tasks.filters.fingerprint import Fingerprint, fingerprint
from warpsmith.tasks.filters.subject import FilteredProgram
from warpsmith.tasks.inputs import Values, mapped, tensors
from warpsmith.tasks.inspection import modes

TORCH = str(Path(torch.__file__).parent)
MODULES = str(Path(TORCH) / "nn" / "modules")
# The suite lies in this package too, but is code of tasks: its lines are shown.
HERE = tuple(str(path) for path in Path(__file__).parents[1].iterdir() if path.name != "suite")
WATCHERS = (__file__, modes.__file__, torch.overrides.__file__)


def words(text: str) -> frozenset[str]:
    """The names in a line of them."""
    return frozenset(text.split())


# What only asks for the shape or the kind of a tensor; any other call that returns no tensor has read its values.
METADATA = words(
    "shape size dim ndim numel nelement stride dtype device layout is_contiguous element_size itemsize nbytes "
    "requires_grad is_leaf is_floating_point is_complex is_cuda is_cpu is_mps is_sparse is_quantized is_nested "
    "is_signed is_meta is_inference is_shared is_pinned __len__ __hash__ data_ptr storage_offset names _version "
    "has_names get_device type is_same_size broadcast_shapes result_type can_cast promote_types dense_dim "
    "sparse_dim is_conj is_neg retain_grad grad grad_fn _base output_nr requires_grad_ untyped_storage"
)

Source: TypeAlias = tuple[str, int, int]  # ("call" | "argument" | "unknown", which, which of its tensors)


@dataclass(frozen=True)
class TensorView:
    """Where a tensor lies: two of equal views hold the same values in the same order."""

    address: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class TensorSnapshot:
    """A tensor as it was at one moment: whose value it held, what that was, and where it lay."""

    source: Source
    mark: Fingerprint | None
    view: TensorView
    version: int
    storage: int


@dataclass(frozen=True)
class TracedCall:
    """One call: what, where in the author's file, what it read, what came out."""

    index: int
    name: str
    line: str
    inside: bool  # made by torch's own modules on behalf of the author's line
    key: str  # equal for two calls of the same function on the same values
    reads: tuple[TensorSnapshot, ...]
    results: tuple[TensorSnapshot, ...]
    mutates: bool
    escapes: bool  # its values left torch (item, numpy), or it changed an argument of the task

    @property
    def alias(self) -> bool:
        """Whether a result lies in the memory of what was read: a view, an in-place operation, the tensor itself."""
        storages = {read.storage for read in self.reads}
        return any(result.storage in storages for result in self.results)

    @property
    def label(self) -> str:
        """The call in words, for a sentence."""
        return f"{self.name} at {self.line}" if self.line else self.name


@dataclass(frozen=True)
class Trace:
    """The calls of one run, whose results the outputs are, and whether some value came from outside the trace."""

    calls: tuple[TracedCall, ...]
    outputs: tuple[Source, ...]
    values: tuple[Tensor, ...]
    strangers: bool


def trace(subject: FilteredProgram, arguments: Values) -> Trace:
    """Run forward once on copies of the arguments and write down its calls."""
    copies = mapped(arguments, torch.clone)
    recorder = CallTracer(tensors(copies))
    with torch.no_grad(), recorder:
        found = subject.program.forward(copies)
    outputs = tuple(recorder.source(tensor) for tensor in found)
    return Trace(tuple(recorder.calls), outputs, tuple(t.detach() for t in found), recorder.strangers)


class CallTracer(TorchFunctionMode):
    """Sees every call to torch's Python interface while it is active."""

    def __init__(self, arguments: Sequence[Tensor]) -> None:
        super().__init__()
        self.calls: list[TracedCall] = []
        self.strangers = False
        self._owners: dict[int, tuple[weakref.ref[Tensor], Source]] = {}
        self._places: dict[int, Source] = {}  # by storage: who wrote it last
        self._marks: dict[tuple[Source, TensorView], Fingerprint | None] = {}
        self._argument_storages = {_storage(tensor) for tensor in arguments}
        self._held = list(arguments)
        for place, tensor in enumerate(arguments):
            self._own(tensor, ("argument", place, 0))

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Make the call and write it down; copies that this package makes stand for their originals."""
        kwargs, caller = kwargs or {}, _caller()
        if caller.f_code.co_filename.startswith(HERE):
            return self._passed_on(func(*args, **kwargs), args)
        given, name = list(_flat([*args, *kwargs.values()])), _name(func)
        reads = tuple(self._seen(tensor) for tensor in given)
        key = f"{name}({self._token(args)}, {self._token(kwargs)})"
        result = func(*args, **kwargs)
        made = list(_flat([result]))
        changed = [t for t, read in zip(given, reads, strict=True) if _version(t) != read.version]
        if made or changed or name not in METADATA:
            self._write_down(made, changed, {read.storage for read in reads})
            self.calls.append(
                TracedCall(
                    index=len(self.calls),
                    name=name,
                    line=_line(caller),
                    inside=caller.f_code.co_filename.startswith(MODULES),
                    key=key,
                    reads=reads,
                    results=tuple(self._seen(tensor) for tensor in made),
                    mutates=bool(changed),
                    escapes=not made or any(_storage(t) in self._argument_storages for t in changed),
                )
            )
        return result

    def _passed_on(self, result: Any, args: Sequence[Any]) -> Any:
        if isinstance(result, Tensor) and args and isinstance(args[0], Tensor):
            self._held.append(result)
            self._own(result, self.source(args[0]))
            if _storage(args[0]) in self._argument_storages:
                self._argument_storages.add(_storage(result))
        return result

    def source(self, tensor: Tensor) -> Source:
        """Whose value a tensor holds now: the last call that wrote it, or an argument."""
        written = self._places.get(_storage(tensor))
        owner = self._owners.get(id(tensor))
        if owner and owner[0]() is tensor:
            late = written is not None and written[0] == "call" and owner[1][0:2] < written[0:2]
            return written if late and written else owner[1]
        if written is not None:
            return written
        self.strangers = True
        return ("unknown", _storage(tensor), 0)

    def _write_down(self, made: Sequence[Tensor], changed: Sequence[Tensor], read: set[int]) -> None:
        """The next call owns what it made, and what lies where it wrote."""
        index = len(self.calls)
        for place, tensor in enumerate(made):
            self._own(tensor, ("call", index, place), fresh=_storage(tensor) not in read)
        for tensor in changed:
            self._places[_storage(tensor)] = ("call", index, 0)

    def _seen(self, tensor: Tensor) -> TensorSnapshot:
        source, view = self.source(tensor), _view(tensor)
        if (source, view) not in self._marks:
            self._marks[source, view] = fingerprint(tensor)
        return TensorSnapshot(source, self._marks[source, view], view, _version(tensor), _storage(tensor))

    def _own(self, tensor: Tensor, source: Source, fresh: bool = True) -> None:
        self._owners[id(tensor)] = (weakref.ref(tensor), source)
        if fresh:
            self._places[_storage(tensor)] = source

    def _token(self, value: Any) -> str:
        """Arguments as text in which a tensor is the call that made it."""
        if isinstance(value, Tensor):
            return f"{self.source(value)}@{_view(value)}"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key}: {self._token(part)}" for key, part in value.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(self._token(part) for part in value) + "]"
        return repr(value)


def _flat(values: Sequence[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _flat(value)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() or id(tensor)


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _view(tensor: Tensor) -> TensorView:
    return TensorView(tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)


def _name(func: Callable[..., Any]) -> str:
    full = str(resolve_name(func) or getattr(func, "__name__", repr(func)))
    return full.removesuffix(".__get__").removesuffix(".__set__").rsplit(".", 1)[-1]


def _caller() -> FrameType:
    """The frame that called torch, past the modes that watch the call."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_code.co_filename in WATCHERS:
        frame = frame.f_back
    return frame


def _line(frame: FrameType) -> str:
    """The innermost line outside torch and this package's own folder of tasks."""
    while frame.f_back and frame.f_code.co_filename.startswith((TORCH, *HERE)):
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    return f"{path.name}:{frame.f_lineno}" if path.exists() else ""
