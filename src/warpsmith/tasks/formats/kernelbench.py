"""KernelBench problems: one file with `Model`, `get_inputs` and `get_init_inputs`."""

from pathlib import Path
from typing import Any

from torch import nn

from warpsmith.base import UsageError, read_text
from warpsmith.records import Origin
from warpsmith.tasks.formats.cnames import identifier
from warpsmith.tasks.formats.codefile import load, require_attribute
from warpsmith.tasks.formats.foreign import ForeignProgram
from warpsmith.tasks.formats.module import Inputs, ModuleSource, globals_read, to_sequence
from warpsmith.tasks.formats.target import TaskFormat, TaskTarget, version_of
from warpsmith.tasks.inspection import TaskHead

FORM = "A KernelBench problem defines class Model, get_inputs() and get_init_inputs()."


def kernelbench(path: Path) -> ForeignProgram:
    """Return a problem's program; its code runs in this process."""
    code = load(path)
    model, get_inputs = require_attribute(code, path, "Model", FORM), require_attribute(code, path, "get_inputs", FORM)
    if not (isinstance(model, type) and issubclass(model, nn.Module)):
        raise UsageError(f"{path}: Model is a {type(model).__name__}, not a class of torch.nn.Module. {FORM}")
    get_init = getattr(code, "get_init_inputs", list)
    sizes = globals_read(code, get_inputs)
    # Sizes that the weights use cannot be made smaller alone.
    free = frozenset(sizes) - frozenset(globals_read(code, get_init))
    inputs = Inputs(lambda _: to_sequence(get_inputs()), sizes, free)
    head = TaskHead(
        name=identifier(path.stem).lstrip("_"),
        version=version_of(TaskTarget(TaskFormat.KERNELBENCH, path)),
        origin=Origin.KERNELBENCH,
        description=describe_object(model, f"The KernelBench problem {path.stem}."),
        text=read_text(path),
        path=path,
    )
    return ForeignProgram(ModuleSource(head, code, inputs, lambda: build_model(model, get_init())))


def build_model(model: Any, init: Any) -> Any:
    """Return the model for its init inputs, in either form that KernelBench uses."""
    match init:
        # KernelBench has two forms: a list of arguments, or a list and a dict of keywords.
        case [list() | tuple() as arguments, dict() as keywords]:
            return model(*arguments, **keywords)
        case dict():
            return model(**init)
    return model(*init)


def describe_object(thing: Any, otherwise: str) -> str:
    """Return the first paragraph of a docstring on one line, or the default."""
    text = (getattr(thing, "__doc__", None) or "").strip().split("\n\n")[0]
    line = " ".join(text.split())
    return line if len(line) >= 10 else otherwise
