"""A task's torch calls and value producers."""

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

from warpsmith.tasks.filters.fingerprint import Fingerprint, take_fingerprint
from warpsmith.tasks.filters.subject import FilteredProgram
from warpsmith.tasks.inputs import Values, mapped, tensors
from warpsmith.tasks.inspection import modes

TORCH = str(Path(torch.__file__).parent)
MODULES = str(Path(TORCH) / "nn" / "modules")
# The suite lies in this package too, but is code of tasks: its lines are shown.
HERE = tuple(str(path) for path in Path(__file__).parents[1].iterdir() if path.name != "suite")
WATCHERS = (__file__, modes.__file__, torch.overrides.__file__)


def split_names(text: str) -> frozenset[str]:
    """Return the names in a space-separated line."""
    return frozenset(text.split())


# What only asks for the shape or the kind of a tensor; any other call that returns no tensor has read its values.
METADATA = split_names(
    "shape size dim ndim numel nelement stride dtype device layout is_contiguous element_size itemsize nbytes "
    "requires_grad is_leaf is_floating_point is_complex is_cuda is_cpu is_mps is_sparse is_quantized is_nested "
    "is_signed is_meta is_inference is_shared is_pinned __len__ __hash__ data_ptr storage_offset names _version "
    "has_names get_device type is_same_size broadcast_shapes result_type can_cast promote_types dense_dim "
    "sparse_dim is_conj is_neg retain_grad grad grad_fn _base output_nr requires_grad_ untyped_storage"
)

Source: TypeAlias = tuple[str, int, int]  # ("call" | "argument" | "unknown", which, which of its tensors)


@dataclass(frozen=True)
class TensorView:
    """A place in memory: tensors with equal views hold equal values in equal order."""

    address: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class TensorSnapshot:
    """A tensor at one moment: the producer of its value, a fingerprint, its view."""

    source: Source
    mark: Fingerprint | None
    view: TensorView
    version: int
    storage: int


@dataclass(frozen=True)
class TracedCall:
    """One call, with line, inputs and results."""

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
    def is_alias(self) -> bool:
        """Whether a result shares memory with an input, as views and in-place operations do."""
        storages = {read.storage for read in self.reads}
        return any(result.storage in storages for result in self.results)

    @property
    def label(self) -> str:
        """The call in words."""
        return f"{self.name} at {self.line}" if self.line else self.name


@dataclass(frozen=True)
class Trace:
    """The calls of one run, the producers of its outputs, and whether a value came from elsewhere."""

    calls: tuple[TracedCall, ...]
    outputs: tuple[Source, ...]
    values: tuple[Tensor, ...]
    strangers: bool


def trace_calls(subject: FilteredProgram, arguments: Values) -> Trace:
    """Run forward once on copies of the arguments and return its calls."""
    copies = mapped(arguments, torch.clone)
    recorder = CallTracer(tensors(copies))
    with torch.no_grad(), recorder:
        found = subject.program.forward(copies)
    outputs = tuple(recorder.source(tensor) for tensor in found)
    return Trace(tuple(recorder.calls), outputs, tuple(t.detach() for t in found), recorder.strangers)


class CallTracer(TorchFunctionMode):
    """A mode that records calls to torch."""

    def __init__(self, arguments: Sequence[Tensor]) -> None:
        super().__init__()
        self.calls: list[TracedCall] = []
        self.strangers = False
        # The weak reference shows whether the id still belongs to the same tensor: Python reuses ids.
        self._owners: dict[int, tuple[weakref.ref[Tensor], Source]] = {}
        self._places: dict[int, Source] = {}  # by storage: who wrote it last
        self._marks: dict[tuple[Source, TensorView], Fingerprint | None] = {}
        self._argument_storages = {_storage_id(tensor) for tensor in arguments}
        # Tensors stay alive during the trace, so that addresses are not reused.
        self._held = list(arguments)
        for place, tensor in enumerate(arguments):
            self._set_source(tensor, ("argument", place, 0))

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Make the call and record it; copies made by this package stand for their originals."""
        kwargs, caller = kwargs or {}, _find_caller()
        if caller.f_code.co_filename.startswith(HERE):
            return self._pass_through(func(*args, **kwargs), args)
        given, name = list(_iterate_tensors([*args, *kwargs.values()])), _function_name(func)
        reads = tuple(self._take_snapshot(tensor) for tensor in given)
        key = f"{name}({self._token(args)}, {self._token(kwargs)})"
        result = func(*args, **kwargs)
        made = list(_iterate_tensors([result]))
        changed = [t for t, read in zip(given, reads, strict=True) if _version(t) != read.version]
        # A call that returns no tensor and asks for no metadata has read values, such as item().
        if made or changed or name not in METADATA:
            self._record_call(made, changed, {read.storage for read in reads})
            self.calls.append(
                TracedCall(
                    index=len(self.calls),
                    name=name,
                    line=_author_line(caller),
                    inside=caller.f_code.co_filename.startswith(MODULES),
                    key=key,
                    reads=reads,
                    results=tuple(self._take_snapshot(tensor) for tensor in made),
                    mutates=bool(changed),
                    escapes=not made or any(_storage_id(t) in self._argument_storages for t in changed),
                )
            )
        return result

    def _pass_through(self, result: Any, args: Sequence[Any]) -> Any:
        """Return a result whose producer is the first argument's."""
        if isinstance(result, Tensor) and args and isinstance(args[0], Tensor):
            self._held.append(result)
            self._set_source(result, self.source(args[0]))
            if _storage_id(args[0]) in self._argument_storages:
                self._argument_storages.add(_storage_id(result))
        return result

    def source(self, tensor: Tensor) -> Source:
        """Return the producer of a tensor's value: the last call that wrote it, or an argument."""
        written = self._places.get(_storage_id(tensor))
        owner = self._owners.get(id(tensor))
        if owner and owner[0]() is tensor:
            # A later in-place write to the same memory replaces the producer.
            late = written is not None and written[0] == "call" and owner[1][0:2] < written[0:2]
            return written if late and written else owner[1]
        if written is not None:
            return written
        # A tensor that no traced call made: from a script, or a constant of the module.
        self.strangers = True
        return ("unknown", _storage_id(tensor), 0)

    def _record_call(self, made: Sequence[Tensor], changed: Sequence[Tensor], read: set[int]) -> None:
        """Make the next call the producer of its results and of everything that shares their memory."""
        index = len(self.calls)
        for place, tensor in enumerate(made):
            self._set_source(tensor, ("call", index, place), fresh=_storage_id(tensor) not in read)
        for tensor in changed:
            self._places[_storage_id(tensor)] = ("call", index, 0)

    def _take_snapshot(self, tensor: Tensor) -> TensorSnapshot:
        """Return the snapshot of a tensor now."""
        source, view = self.source(tensor), _view_of(tensor)
        if (source, view) not in self._marks:
            self._marks[source, view] = take_fingerprint(tensor)
        return TensorSnapshot(source, self._marks[source, view], view, _version(tensor), _storage_id(tensor))

    def _set_source(self, tensor: Tensor, source: Source, fresh: bool = True) -> None:
        """Set the producer of a tensor's value."""
        self._owners[id(tensor)] = (weakref.ref(tensor), source)
        if fresh:
            self._places[_storage_id(tensor)] = source

    def _token(self, value: Any) -> str:
        """Return arguments as text in which a tensor is replaced by its producer."""
        if isinstance(value, Tensor):
            return f"{self.source(value)}@{_view_of(value)}"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key}: {self._token(part)}" for key, part in value.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(self._token(part) for part in value) + "]"
        return repr(value)


def _iterate_tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    """Yield all tensors in nested values."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _iterate_tensors(value)


def _storage_id(tensor: Tensor) -> int:
    """Return an identity of a tensor's memory."""
    # Meta tensors and empty tensors have the address 0, so their identity is the object's.
    return tensor.untyped_storage().data_ptr() or id(tensor)


def _version(tensor: Tensor) -> int:
    """Return the counter of in-place writes."""
    # Inference tensors count no versions.
    return 0 if tensor.is_inference() else tensor._version


def _view_of(tensor: Tensor) -> TensorView:
    """Return the memory view of a tensor."""
    return TensorView(tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)


def _function_name(func: Callable[..., Any]) -> str:
    """Return the name of a torch function."""
    full = str(resolve_name(func) or getattr(func, "__name__", repr(func)))
    return full.removesuffix(".__get__").removesuffix(".__set__").rsplit(".", 1)[-1]


def _find_caller() -> FrameType:
    """Return the frame that called torch, past the modes that watch the call."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_code.co_filename in WATCHERS:
        frame = frame.f_back
    return frame


def _author_line(frame: FrameType) -> str:
    """Return the innermost line outside torch and this package's folder of tasks."""
    while frame.f_back and frame.f_code.co_filename.startswith((TORCH, *HERE)):
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    return f"{path.name}:{frame.f_lineno}" if path.exists() else ""
