"""A task's torch function, and example arguments."""

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue

from warpsmith.base import UsageError
from warpsmith.records import Direction, Origin, Role, Task

if TYPE_CHECKING:
    from torch import Tensor

    Value = Tensor | Sequence[Tensor] | Sequence[int] | float | int | bool | None

DRAWING = "inputs"  # draws from warpsmith's own generator; the exported test draws for itself
LAZY = "from __future__ import annotations\n"
# The module's own parameters are never used, so the meta device builds it without memory.
MODULE = '''

def _made():
    with torch.device("meta"):  # its own parameters are never used: the arguments stand in their place
        made = {made}
    for owner in made.modules() if isinstance(made, torch.nn.Module) else ():
        for name in [key for key, value in vars(owner).items() if isinstance(value, torch.Tensor)]:
            owner.register_buffer(name, vars(owner).pop(name).detach(), persistent=False)
    return made


_MADE = _made()


def forward(*arguments):
    """The module: its inputs, then what stands in the place of its parameters and buffers."""
    if not isinstance(_MADE, torch.nn.Module):
        return _MADE(*arguments)
    names = [name for name, _ in (*_MADE.named_parameters(), *_MADE.named_buffers())]
    taken = len(arguments) - len(names)
    return torch.func.functional_call(_MADE, dict(zip(names, arguments[taken:])), tuple(arguments[:taken]))
'''


def reference(task: Task, name: str = "") -> str:
    """Return the text of the torch function; `name` is its name in a file of modules."""
    match task.origin:
        case Origin.SUITE:
            return _strip_suite_source(task.source)
        case Origin.KERNELBENCH | Origin.MODULE:
            return _module(task, name or "Model")
    raise UsageError(
        f"Task {task.name} is of {task.origin}, whose functions are spread over classes that call a kernel themselves. "
        "Write it as file.py:Name or in our own format (docs/tasks.md), and export from there."
    )


def _strip_suite_source(source: str) -> str:
    """Remove imports of warpsmith and the function that draws inputs."""
    tree, lines = ast.parse(source), source.splitlines(keepends=True)
    # From the end, so that earlier line numbers stay valid.
    for node in reversed(tree.body):
        ours = isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "warpsmith"
        if ours or (isinstance(node, ast.FunctionDef) and node.name == DRAWING):
            del lines[node.lineno - 1 : node.end_lineno]
    first = tree.body[0]
    # A `from __future__` import must precede every other statement, except the docstring.
    start = (first.end_lineno or 1) if ast.get_docstring(tree) else 0
    return _collapse_blank_lines("".join([*lines[:start], "\n", LAZY, *lines[start:]]))


def _module(task: Task, name: str) -> str:
    tree = ast.parse(task.source)
    thing = next((node for node in tree.body if getattr(node, "name", "") == name), None)
    init = any(isinstance(node, ast.FunctionDef) and node.name == "get_init_inputs" for node in tree.body)
    made = f"{name}(*get_init_inputs())" if init else f"{name}()"
    if not isinstance(thing, ast.ClassDef):
        made = name
    return f"{task.source.rstrip()}\n\nimport torch  # noqa: E402\n{MODULE.format(made=made)}"


def _collapse_blank_lines(text: str) -> str:
    """Keep at most two blank lines in a row and none at the end."""
    while "\n\n\n\n" in text:
        text = text.replace("\n\n\n\n", "\n\n\n")
    return text.rstrip() + "\n"


def examples(
    task: Task, directions: Sequence[Direction], drawn: "Mapping[str, Sequence[Value]]"
) -> dict[str, JsonValue]:
    """Return the data of the exported test: arguments by case, differentiable arguments, tolerance."""
    floors: dict[str, JsonValue] = {dtype.value: floor for dtype, floor in task.tolerance.norm_floor.items()}
    return {
        "directions": [direction.value for direction in directions],
        "differentiable": [a.role in (Role.INPUT, Role.PARAMETER) for a in task.forward.arguments],
        "norm_factor": task.tolerance.norm_factor,
        "norm_floor": floors,
        "cases": [{"name": name, "arguments": [_example(value) for value in values]} for name, values in drawn.items()],
    }


def _example(value: "Value") -> JsonValue:
    """Return a tensor as shape, type and distribution; other values unchanged."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return (
        [_example(part) for part in value]
        if isinstance(value, list | tuple)
        else _summarize_tensor(cast("Tensor", value))
    )


def _summarize_tensor(tensor: "Tensor") -> JsonValue:
    wide = tensor.double()
    seen: dict[str, JsonValue] = {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}
    low, high = wide.min().item(), wide.max().item()
    if tensor.is_floating_point():
        return seen | {"mean": wide.mean().item(), "std": wide.std(unbiased=False).item(), "low": low, "high": high}
    return seen | {"low": int(low), "high": int(high)}
