"""Signatures from the text of a task file."""

import ast
from pathlib import Path

from warpsmith.base import UsageError
from warpsmith.records import Argument, ArgumentKind, Role, Signature

ROLES = {"Input": Role.INPUT, "Parameter": Role.PARAMETER, "Fixed": Role.FIXED}
NUMBERS = {
    "float": ArgumentKind.FLOAT,
    "int": ArgumentKind.INT,
    "bool": ArgumentKind.BOOL,
    "list[int]": ArgumentKind.INTS,
}


def read_signature(path: Path, text: str, results: tuple[str, ...]) -> Signature:
    """Return the signature of `forward` from its annotations."""
    forward = _function(path, text, "forward")
    extra = [*forward.args.posonlyargs, *forward.args.kwonlyargs]
    # Kernels are called by position with a fixed number of arguments.
    if extra or forward.args.vararg or forward.args.kwarg:
        raise UsageError(f"{path}:{forward.lineno}: forward takes plain arguments only: no *, / or **.")
    return Signature(arguments=tuple(_argument(path, arg) for arg in forward.args.args), results=results)


def backward_signature(forward: Signature, saved: tuple[str, ...]) -> Signature:
    """Return backward's signature: upstream gradients, forward's arguments, saved tensors."""
    grads = tuple(Argument(name=f"grad_{name}", kind=ArgumentKind.TENSOR, role=Role.GRAD) for name in forward.results)
    kept = tuple(Argument(name=name, kind=ArgumentKind.TENSOR, role=Role.SAVED) for name in saved)
    wanted = [a.name for a in forward.arguments if a.role in (Role.INPUT, Role.PARAMETER)]
    return Signature(arguments=(*grads, *forward.arguments, *kept), results=tuple(f"grad_{name}" for name in wanted))


def has_function(text: str, name: str) -> bool:
    """Whether the text defines a top-level function."""
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in ast.parse(text).body)


def _function(path: Path, text: str, name: str) -> ast.FunctionDef:
    """Return a top-level function. Raise UsageError without one."""
    # Parsed and not imported: reading a signature must run no code of the task.
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        raise UsageError(f"{path}:{error.lineno}: not Python: {error.msg}.") from None
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise UsageError(f"{path}: no function '{name}'. A task file defines forward(...) and inputs(case, draw).")


def _argument(path: Path, arg: ast.arg) -> Argument:
    """Return an annotated argument. Raise UsageError otherwise."""
    note = ast.unparse(arg.annotation) if arg.annotation else ""
    if note in NUMBERS:
        return Argument(name=arg.arg, kind=NUMBERS[note], role=Role.CONSTANT)
    bare, kind = note, ArgumentKind.TENSOR
    if note.endswith(" | None"):
        bare, kind = note.removesuffix(" | None"), ArgumentKind.OPTIONAL_TENSOR
    elif note.startswith("tuple[") and note.endswith(", ...]"):
        bare, kind = note[len("tuple[") : -len(", ...]")], ArgumentKind.TENSORS
    if bare not in ROLES:
        allowed = ", ".join([*ROLES, "Input | None", "tuple[Input, ...]", *NUMBERS])
        raise UsageError(f"{path}:{arg.lineno}: argument '{arg.arg}' is annotated '{note}'; allowed are {allowed}.")
    return Argument(name=arg.arg, kind=kind, role=ROLES[bare])
