"""How much is read of what a compilation leaves. More is refused: ordinary artifacts have a tenth of it or less."""

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
TEXT_CHARACTERS = 4096  # of what it says, and of the name of a file in it
COMPLAINTS = 1000


class Exceeded(ValueError):
    """More than is read."""


def check_count(count: int, most: int, what: str) -> None:
    """Raise Exceeded if there are more than `most`; `what` is a plural."""
    if count > most:
        raise Exceeded(f"it has {count} {what}; at most {most} are read")


def check_names(names: "list[str]", what: str) -> None:
    """Raise Exceeded if names are too many, or together too long."""
    check_count(len(names), NAMES, what)
    check_count(max((len(name) for name in names), default=0), NAME_BYTES, f"bytes in the name of one of its {what}")
    check_count(sum(map(len, names)), NAMES_BYTES, f"bytes in the names of its {what}")
