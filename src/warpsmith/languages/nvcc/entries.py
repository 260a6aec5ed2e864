"""An artifact's entry points, compared with a task."""

from collections.abc import Mapping
from dataclasses import dataclass

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
    """One function: its name and the kinds of its arguments and results.

    A kind `&tensor` is a result that the caller passes.
    """

    name: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def text(self) -> str:
        """The signature as in `WsEntry.signature`."""
        return f"{','.join(self.arguments)}->{','.join(self.results)}"


def to_entries(texts: Mapping[str, str]) -> tuple[EntryPoint, ...]:
    """Return the entry points of signatures by name."""
    found = {name: text.partition("->") for name, text in texts.items()}
    return tuple(EntryPoint(name, _kinds(taken), _kinds(given)) for name, (taken, _, given) in found.items())


def _kinds(text: str) -> tuple[str, ...]:
    """Return the kinds in a comma-separated list."""
    return tuple(kind for kind in text.split(",") if kind)


def check_entry(entries: tuple[EntryPoint, ...], direction: Direction, signature: Signature | None) -> Failure | None:
    """Return a failure if the direction's entry point is missing or does not fit the task."""
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
    # Without a signature only the name is compared: the caller compiles without a task.
    if signature is None or _accepts(entry, signature):
        return None
    expected = f"{','.join(argument.kind for argument in signature.arguments)}->{_expected_results(signature)}"
    names = ", ".join(argument.name for argument in signature.arguments)
    return Failure(
        Reason.WRONG_SIGNATURE,
        f"`{direction}` has the wrong signature: expected {expected} for ({names}), found {entry.text[:400]}.",
    )


def _expected_results(signature: Signature) -> str:
    """Return the kinds of a signature's results."""
    return ",".join("tensor" for _ in signature.results)


def _accepts(entry: EntryPoint, signature: Signature) -> bool:
    """Whether an entry point accepts a task's arguments and returns its results."""
    kinds = [argument.kind for argument in signature.arguments]
    if len(kinds) != len(entry.arguments):
        return False
    taken = all(given in ACCEPTS.get(found, (found,)) for found, given in zip(entry.arguments, kinds, strict=True))
    return taken and _returns_count(entry.results, len(signature.results))


def _returns_count(results: tuple[str, ...], count: int) -> bool:
    """Whether an entry point returns `count` tensors; a vector's length is unknown here."""
    if results == ("tensors",):
        return True
    return len(results) == count and all(kind in ("tensor", "&tensor", "optional_tensor") for kind in results)
