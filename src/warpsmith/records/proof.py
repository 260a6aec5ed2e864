"""What may be handed out: a kernel that was evaluated fully. The one rule for `best`, `show`, `report` and `export`."""

from warpsmith.base import UnprovenError
from warpsmith.records.record import Record

UNPROVEN = "UNPROVEN"
PARTS = {  # options that leave a part of the evaluation out, with what they do
    "without": "it was evaluated without {}",
    "until": "its evaluation ended after the stage {}",
    "most_cases": "it was timed on {} of its cases",
}


def unproven(record: Record) -> str:
    """Return why a record is no full evaluation of its kernel; empty for one that is.

    A full evaluation makes all planned calls, on held-out shapes too, from a secret seed; on a GPU it is a final claim.
    """
    options, calls = record.options, record.checked.calls if record.checked else 0
    if options.effort == "sketch":
        return f"it passed {calls} calls of a quick check, without held-out shapes"
    if options.is_search_tier:
        return "it was evaluated as a search does and not as a final claim"
    if options.cases:
        return f"it was evaluated on {' and '.join(options.cases)} cases alone"
    if options.is_seed_given:
        return "it was evaluated from a seed that was known before"
    values = {"without": ",".join(sorted(options.without)), "until": options.until, "most_cases": options.most_cases}
    return next((text.format(values[name]) for name, text in PARTS.items() if values[name]), "")


def require_proven(record: Record, subject: str, cure: str) -> None:
    """Raise UnprovenError for the record of a kernel that was not evaluated fully."""
    if why := unproven(record):
        raise UnprovenError(
            f"{subject} was not evaluated fully: {why}. {cure}; --unproven takes the kernel as it is, and marks it."
        )


def marked_source(source: str, why: str, comment: str = "//") -> str:
    """Return a kernel's text with a first line that says why it is unproven; as it is where nothing is to be said."""
    return f"{comment} {UNPROVEN}: {why}.\n{source}" if why else source


def unmarked_source(source: str, comment: str = "//") -> str:
    """Return the text as it was evaluated: without the first line of `marked_source`."""
    first, _, rest = source.partition("\n")
    return rest if first.startswith(f"{comment} {UNPROVEN}: ") else source


def marked_name(stem: str, why: str) -> str:
    """Return the stem of a kernel's file name, which says so where the kernel is unproven."""
    return stem if not why or UNPROVEN.lower() in stem.lower() else f"{stem}-{UNPROVEN.lower()}"
