"""The functions an artifact offers, read from the file without running it, and whether a task's call fits one."""

import re
from dataclasses import dataclass

from warpsmith.languages.nvcc.fault import Fault
from warpsmith.records import ArgumentKind, Direction, Reason, Signature

MARK = b"\x7fWARPSMITH-ENTRY\x7f"
RECORD = re.compile(re.escape(MARK) + rb"([^\0]{1,200})\0([^\0]{0,4000})\0")

# What a parameter takes besides its own kind: the conversions that Python's callers are used to.
ACCEPTS = {
    "optional_tensor": (ArgumentKind.OPTIONAL_TENSOR, ArgumentKind.TENSOR),
    "float": (ArgumentKind.FLOAT, ArgumentKind.INT),
    "int": (ArgumentKind.INT, ArgumentKind.BOOL),
}


@dataclass(frozen=True)
class EntryPoint:
    """One function: its name, the kinds of its arguments and of its results; the caller gives a `&tensor`."""

    name: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def text(self) -> str:
        """As in `WsEntry.signature`."""
        return f"{','.join(self.arguments)}->{','.join(self.results)}"


def read_entries(artifact: bytes) -> tuple[EntryPoint, ...]:
    """The entries in the file, each once."""
    found: dict[str, EntryPoint] = {}
    for match in RECORD.finditer(artifact):
        name = match.group(1).decode(errors="replace")
        arguments, _, results = match.group(2).decode(errors="replace").partition("->")
        found[name] = EntryPoint(name, _kinds(arguments), _kinds(results))
    return tuple(found.values())


def _kinds(text: str) -> tuple[str, ...]:
    return tuple(kind for kind in text.split(",") if kind)


def check_entry(entries: tuple[EntryPoint, ...], direction: Direction, signature: Signature | None) -> Fault | None:
    """Whether the entry of a direction is there and takes what the task gives."""
    if not entries:
        return Fault(
            Reason.NO_ENTRY,
            "The source exports no function. End it with PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) "
            f'{{ m.def("{direction}", &{direction}); }}, or write it in the plain style.',
        )
    entry = next((entry for entry in entries if entry.name == direction.value), None)
    if entry is None:
        names = ", ".join(entry.name for entry in entries)
        return Fault(
            Reason.NO_ENTRY, f'The source exports {names}, but no `{direction}`. Name it so in m.def("{direction}", …).'
        )
    if signature is None or _fits(entry, signature):
        return None
    expected = f"{','.join(argument.kind for argument in signature.arguments)}->{_wanted(signature)}"
    names = ", ".join(argument.name for argument in signature.arguments)
    return Fault(
        Reason.WRONG_SIGNATURE,
        f"`{direction}` has the wrong signature: expected {expected} for ({names}), found {entry.text}.",
    )


def _wanted(signature: Signature) -> str:
    return ",".join("tensor" for _ in signature.results)


def _fits(entry: EntryPoint, signature: Signature) -> bool:
    kinds = [argument.kind for argument in signature.arguments]
    if len(kinds) != len(entry.arguments):
        return False
    taken = all(given in ACCEPTS.get(found, (found,)) for found, given in zip(entry.arguments, kinds, strict=True))
    return taken and _returns(entry.results, len(signature.results))


def _returns(results: tuple[str, ...], count: int) -> bool:
    """A vector's length is known when it runs; everything else must be that many tensors."""
    if results == ("tensors",):
        return True
    return len(results) == count and all(kind in ("tensor", "&tensor", "optional_tensor") for kind in results)
