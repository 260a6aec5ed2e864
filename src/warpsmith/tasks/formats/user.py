"""A user's `file.py:Name` as a task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from warpsmith.base import UsageError, find_nearest, read_text
from warpsmith.records import Origin
from warpsmith.tasks.formats.cnames import identifier
from warpsmith.tasks.formats.codefile import first_function, load
from warpsmith.tasks.formats.foreign import ForeignProgram
from warpsmith.tasks.formats.kernelbench import build_model, describe_object
from warpsmith.tasks.formats.module import Inputs, ModuleSource, globals_read, parameters, to_sequence
from warpsmith.tasks.formats.target import TaskFormat, TaskTarget, version_of
from warpsmith.tasks.inputs import ExampleShape
from warpsmith.tasks.inspection import TaskHead

BATCH_AXIS = "batch"
EXAMPLES = ("inputs", "example_inputs", "get_inputs")


def user_program(path: Path, name: str, shapes: Sequence[ExampleShape] = ()) -> ForeignProgram:
    """Return the program of a name in a user's file; its code runs in this process."""
    code = load(path)
    thing = _find_object(code, path, name)
    make_init = getattr(code, "get_init_inputs", list)
    is_class = isinstance(thing, type) and issubclass(thing, nn.Module)
    # A named shape at another position would be passed to the wrong argument.
    _check_names(shapes, parameters(thing), path, name)
    head = TaskHead(
        name=identifier(f"{path.stem}_{name}"),
        version=version_of(TaskTarget(TaskFormat.MODULE, path, name), shapes),
        origin=Origin.MODULE,
        description=describe_object(thing, f"{name} of {path.name}."),
        text=read_text(path),
        path=path,
    )
    inputs = _inputs_from_shapes(shapes) if shapes else _inputs_from_file(code, path, name)
    return ForeignProgram(
        ModuleSource(head, code, inputs, lambda: build_model(thing, make_init()) if is_class else thing)
    )


def _find_object(code: ModuleType, path: Path, name: str) -> Any:
    """Find a module or function. Raise UsageError otherwise."""
    thing = getattr(code, name, None)
    if isinstance(thing, nn.Module) or (callable(thing) and not _is_other_class(thing)):
        return thing
    known = [key for key, value in vars(code).items() if callable(value) and not key.startswith("_")]
    near = find_nearest(name, known) or known
    what = f"'{name}' is a {type(thing).__name__}" if hasattr(code, name) else f"no '{name}' in it"
    raise UsageError(f"{path}: {what}. Name a torch.nn.Module or a function: {', '.join(near) or 'there is none'}.")


def _check_names(shapes: Sequence[ExampleShape], known: Sequence[str], path: Path, name: str) -> None:
    """Raise UsageError for a named input at another argument's position."""
    for place, shape in enumerate(shapes):
        if shape.name and known and [shape.name] != [*known[place : place + 1]]:
            raise UsageError(
                f"{path}: argument {place + 1} of {name} is not '{shape.name}'; it takes {', '.join(known)}. "
                "Give --input once an argument, in that order."
            )


def _is_other_class(thing: Any) -> bool:
    """Whether an object is a class but no module class."""
    return isinstance(thing, type) and not issubclass(thing, nn.Module)


def _inputs_from_file(code: ModuleType, path: Path, name: str) -> Inputs:
    """Return the example inputs that the file defines."""
    function = first_function(code, EXAMPLES)
    if function is None:
        raise UsageError(
            f"{path}: {name} has no example inputs. Define {', '.join(f'{f}()' for f in EXAMPLES)} in the file, "
            "or give --input 32x1024:float32 once an input."
        )
    sizes = globals_read(code, function)
    free = frozenset(sizes) - frozenset(globals_read(code, getattr(code, "get_init_inputs", list)))
    return Inputs(lambda _: to_sequence(function()), sizes, free)


def _inputs_from_shapes(shapes: Sequence[ExampleShape]) -> Inputs:
    """Return random inputs of the shapes that a user gave."""
    named = [(_labels(i, shape, shapes[0]), shape) for i, shape in enumerate(shapes)]
    sizes = {label: size for labels, shape in named for label, size in zip(labels, shape.dims, strict=True)}

    def make(given: Mapping[str, int]) -> list[Tensor]:
        """Return random inputs of the given sizes."""
        return [_draw_input(tuple(given[label] for label in labels), shape) for labels, shape in named]

    return Inputs(make, sizes, frozenset({BATCH_AXIS} & set(sizes)))


def _labels(place: int, shape: ExampleShape, first: ExampleShape) -> list[str]:
    """Return names for an input's sizes; a leading size shared with the first input is the batch."""
    labels = [f"{shape.name or f'input_{place}'}_{i}" for i in range(len(shape.dims))]
    # Inputs with an equal leading size share the batch, so smaller cases cut all of them.
    if shape.dims and first.dims and shape.dims[0] == first.dims[0]:
        labels[0] = BATCH_AXIS
    return labels


def _draw_input(dims: tuple[int, ...], shape: ExampleShape) -> Tensor:
    """Return a random tensor of a shape."""
    dtype: torch.dtype = getattr(torch, shape.dtype)
    if dtype.is_floating_point:
        return torch.randn(dims).to(dtype)
    return torch.randint(0, min(shape.high, torch.iinfo(dtype).max) if dtype is not torch.bool else 2, dims).to(dtype)
