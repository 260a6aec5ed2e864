"""The functions an artifact offers, read from the file without running it, and whether a task's call fits one."""

from collections.abc import Mapping
from dataclasses import dataclass

from warpsmith.languages.nvcc.artifact import entry_texts
from warpsmith.records import ArgumentKind, Direction, Failure, Reason, Signature

SHOWN = 8  # functions in a message

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
    return to_entries(entry_texts(artifact))


def to_entries(texts: Mapping[str, str]) -> tuple[EntryPoint, ...]:
    """Return the entry points of signatures by name."""
    found = {name: text.partition("->") for name, text in texts.items()}
    return tuple(EntryPoint(name, _kinds(taken), _kinds(given)) for name, (taken, _, given) in found.items())


def _kinds(text: str) -> tuple[str, ...]:
    return tuple(kind for kind in text.split(",") if kind)


def check_entry(entries: tuple[EntryPoint, ...], direction: Direction, signature: Signature | None) -> Failure | None:
    """Whether the entry of a direction is there and takes what the task gives."""
    if not entries:
        return Failure(
            Reason.NO_ENTRY,
            "The source exports no function. End it with PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) "
            f'{{ m.def("{direction}", &{direction}); }}, or write it in the plain style.',
        )
    entry = next((entry for entry in entries if entry.name == direction.value), None)
    if entry is None:
        names = ", ".join(entry.name for entry in entries[:SHOWN]) + (", …" if len(entries) > SHOWN else "")
        return Failure(
            Reason.NO_ENTRY, f'The source exports {names}, but no `{direction}`. Name it so in m.def("{direction}", …).'
        )
    if signature is None or _fits(entry, signature):
        return None
    expected = f"{','.join(argument.kind for argument in signature.arguments)}->{_wanted(signature)}"
    names = ", ".join(argument.name for argument in signature.arguments)
    return Failure(
        Reason.WRONG_SIGNATURE,
        f"`{direction}` has the wrong signature: expected {expected} for ({names}), found {entry.text[:400]}.",
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
