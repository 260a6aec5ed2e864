"""Bounds on reading a compilation's output; ordinary artifacts reach a tenth of them."""

# A candidate shapes the artifact and the tools' output. Each count is checked before memory or time is spent on it.
ARTIFACT_BYTES = 128 << 20
SECTIONS = 4096
TABLE_BYTES = 2 << 20  # of all tables of symbols, and of all dynamic sections
NAME_BYTES = 4096
NAMES = 4096  # undefined symbols, libraries, functions, kernels: each kind
NAMES_BYTES = 256 << 10  # of all names of a kind together: they are part of a record
ENTRIES = 256
LIST_BYTES = 16 << 20  # of the preprocessor's list of files
FILES = 16384
LINE_CHARACTERS = 16384  # of a line that a tool prints
TEXT_CHARACTERS = 4096  # of a message, and of the name of a file in it
COMPLAINTS = 1000


class Exceeded(ValueError):
    """More input than a bound allows."""


def check_count(count: int, most: int, plural: str) -> None:
    """Raise Exceeded if a count is above `most`; `plural` names the counted things."""
    if count > most:
        raise Exceeded(f"it has {count} {plural}; at most {most} are read")


def check_names(names: "list[str]", plural: str) -> None:
    """Raise Exceeded for too many or too long names."""
    check_count(len(names), NAMES, plural)
    check_count(max((len(name) for name in names), default=0), NAME_BYTES, f"bytes in the name of one of its {plural}")
    check_count(sum(map(len, names)), NAMES_BYTES, f"bytes in the names of its {plural}")
