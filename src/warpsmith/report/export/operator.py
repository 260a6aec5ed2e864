"""The source text of a package's operators."""

import keyword
from collections.abc import Iterable, Mapping, Sequence

from warpsmith.base import UsageError
from warpsmith.languages import find_language
from warpsmith.records import Argument, ArgumentKind, Direction, Role, Signature, Task

TYPES = {
    ArgumentKind.TENSOR: "Tensor",
    ArgumentKind.OPTIONAL_TENSOR: "Optional[Tensor]",
    ArgumentKind.TENSORS: "Sequence[Tensor]",
    ArgumentKind.FLOAT: "float",
    ArgumentKind.INT: "int",
    ArgumentKind.BOOL: "bool",
    ArgumentKind.INTS: "Sequence[int]",
}
DIFFERENTIABLE = (Role.INPUT, Role.PARAMETER)
# Names of arguments are the task's, so everything else in the text begins with an underscore.
HEAD = '''"""{summary}"""

from typing import Optional, Sequence

import torch
from torch import Tensor

from {name} import building as _building
from {name} import reference as _reference

__all__ = {names}
'''
FORWARD = '''

@torch.library.custom_op("{name}::forward", mutates_args=(), device_types="cuda")
def forward({parameters}) -> {returns}:
    """{summary}"""
    _given = _building.dense([{arguments}])
{call}
    return {given}


@forward.register_fake
def _forward_shapes({parameters}) -> {returns}:
    _results = _building.flat(_reference.forward({arguments}))
    return {given}
'''
BACKWARD = '''

@torch.library.custom_op("{name}::backward", mutates_args=(), device_types="cuda")
def backward({parameters}) -> {returns}:
    """Gradients of forward: {results}."""
    _given = _building.dense([{arguments}])
{call}
    return {given}


@backward.register_fake
def _backward_shapes({parameters}) -> {returns}:
    _results = [torch.empty_like(_like, memory_format=torch.contiguous_format) for _like in [{likes}]]
    return {given}
'''
AUTOGRAD = """

def _setup(ctx, inputs, output) -> None:
    _ctx, _inputs, _results = ctx, inputs, _building.flat(output)
    {arguments}, = _inputs
{kept}    _ctx.save_for_backward({saved})
    _ctx.constants = ({constants})


def _gradient(_ctx, {grads}):
    {saved}, = _ctx.saved_tensors
{constants_back}    _results = _building.flat(backward({backward_arguments}))
    return {gradients}


forward.register_autograd(_gradient, setup_context=_setup)
"""


def python_names(signature: Signature) -> Signature:
    """Return the signature with names that Python accepts."""
    arguments = [a.model_copy(update={"name": _name(a.name)}) for a in signature.arguments]
    return Signature(arguments=tuple(arguments), results=tuple(_name(name) for name in signature.results))


def operators(name: str, task: Task, languages: Mapping[Direction, str]) -> str:
    """Return the module that registers one operator per direction, and autograd if both exist."""
    parts = [
        HEAD.format(summary=one_line(task.description), name=name, names=[d.value for d in Direction if d in languages])
    ]
    for direction, language in languages.items():
        parts.append(_operator(name, task, direction, language))
    # Autograd needs both directions.
    if len(languages) == len(Direction):
        parts.append(_autograd(task))
    return "".join(parts)


def _operator(name: str, task: Task, direction: Direction, language: str) -> str:
    signature = python_names(task.signature(direction))
    single = len(signature.results) == 1
    form = FORWARD if direction is Direction.FORWARD else BACKWARD
    # A fake implementation of backward needs the shapes of the gradients without running it.
    likes = "" if direction is Direction.FORWARD else ", ".join(_gradient_shapes(signature))
    return form.format(
        name=name,
        summary=one_line(task.description),
        parameters=", ".join(f"{a.name}: {TYPES[a.kind]}" for a in signature.arguments),
        arguments=_join_names(a.name for a in signature.arguments),
        returns="Tensor" if single else f"tuple[{', '.join('Tensor' for _ in signature.results)}]",
        given="_results[0]" if single else "tuple(_results)",
        results=", ".join(signature.results),
        call=_call(direction, language, likes, [a.name for a in signature.arguments]),
        likes=likes,
    )


def _call(direction: Direction, language: str, likes: str, names: Sequence[str]) -> str:
    """Return the call of a kernel; a plain kernel gets its result tensors as arguments."""
    if not find_language(language).results_preallocated:
        return f'    _results = _building.flat(_building.call("{direction}", _given))'
    function = "_reference.forward"
    if direction is Direction.BACKWARD:
        function = f"lambda {', '.join(names)}: [{likes}]"
    return f'    _results = _building.empty({function}, _given)\n    _building.call("{direction}", _given, _results)'


def _gradient_shapes(signature: Signature) -> Iterable[str]:
    """Yield the argument whose shape each gradient has. Raise UsageError if there is none."""
    names = {a.name: a for a in signature.arguments}
    for result in signature.results:
        like = names.get(result.removeprefix("grad_"))
        if like is None or like.kind is not ArgumentKind.TENSOR:
            raise UsageError(
                f"Result {result} of backward is not the gradient of one tensor argument, so its shape is not known "
                "without running it. Export the forward kernel alone."
            )
        yield like.name


def _autograd(task: Task) -> str:
    forward, backward = (python_names(task.signature(direction)) for direction in Direction)
    tensors = [a for a in forward.arguments if a.kind is ArgumentKind.TENSOR]
    others = [a for a in forward.arguments if a.kind is not ArgumentKind.TENSOR]
    # torch's autograd functions take tensors only; a list with gradients would lose them.
    if odd := next((a for a in others if a.role in DIFFERENTIABLE), None):
        raise UsageError(
            f"Argument {odd.name} is {odd.kind}: autograd is made for tensors. Export one direction alone."
        )
    kept = [a.name for a in backward.arguments if a.role is Role.SAVED]
    grads = [a.name for a in backward.arguments if a.role is Role.GRAD]
    local = {name: f"_saved_{name}" for name in kept}
    constants = _join_names(a.name for a in others)
    return AUTOGRAD.format(
        arguments=_join_names(a.name for a in forward.arguments),
        kept=_saved_tensors(forward, kept, local),
        saved=", ".join([*(a.name for a in tensors), *local.values()]),
        constants=f"{constants}," if constants else "",
        constants_back=f"    {constants}, = _ctx.constants\n" if constants else "",
        grads=", ".join(grads),
        backward_arguments=_join_names(
            local.get(a.name, a.name) if a.role is Role.SAVED else a.name for a in backward.arguments
        ),
        gradients=f"({', '.join(_gradients(forward.arguments, backward.results))},)",
    )


def _saved_tensors(forward: Signature, kept: Sequence[str], local: Mapping[str, str]) -> str:
    """Return the lines that take each saved tensor from forward's results or from torch's operators."""
    # A saved tensor that is also a result of forward need not be computed again.
    outputs = {name: f"_results[{i}]" for i, name in enumerate(forward.results)}
    lines = []
    if any(name not in outputs for name in kept):
        lines.append(
            f"    _kept = _building.flat(_reference.saved({_join_names(a.name for a in forward.arguments)}))\n"
        )
    lines += [f"    {local[name]} = {outputs.get(name, f'_kept[{i}]')}\n" for i, name in enumerate(kept)]
    return "".join(lines)


def _gradients(arguments: Sequence[Argument], results: Sequence[str]) -> Iterable[str]:
    # autograd expects one gradient, or None, for each argument of forward.
    for argument in arguments:
        wanted = f"grad_{argument.name}"
        yield f"_results[{results.index(wanted)}]" if wanted in results else "None"


def one_line(text: str) -> str:
    """Return a description as one quotable line."""
    return " ".join(text.replace("\\", "/").replace('"', "'").split())


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _name(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name
