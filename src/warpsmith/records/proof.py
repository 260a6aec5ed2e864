"""The rule for handing out kernels: only fully evaluated ones, or marked ones."""

from warpsmith.base import UnprovenError
from warpsmith.records.record import Record

UNPROVEN = "UNPROVEN"
PARTS = {  # options that leave a part of the evaluation out, with what they do
    "without": "it was evaluated without {}",
    "until": "its evaluation ended after the stage {}",
    "most_cases": "it was timed on {} of its cases",
}


def unproven_reason(record: Record) -> str:
    """Return the reason why a record is no full evaluation; "" without one.

    A full evaluation makes all planned calls, held-out shapes included, from a secret seed. On a GPU it is final.
    """
    # The order is from the strongest restriction to the weakest; the first one is named.
    options, calls = record.options, record.checked.calls if record.checked else 0
    if options.effort == "sketch":
        return f"it passed {calls} calls of a quick check, without held-out shapes"
    if options.is_search_tier:
        return "it was evaluated as a search does and not as a final claim"
    if options.cases:
        return f"it was evaluated on {' and '.join(options.cases)} cases alone"
    # A kernel can be written for a known seed; only a secret one tests for other inputs.
    if options.is_seed_given:
        return "it was evaluated from a seed that was known before"
    values = {"without": ",".join(sorted(options.without)), "until": options.until, "most_cases": options.most_cases}
    return next((text.format(values[name]) for name, text in PARTS.items() if values[name]), "")


def require_proven(record: Record, subject: str, cure: str) -> None:
    """Raise UnprovenError if the record is no full evaluation."""
    if why := unproven_reason(record):
        raise UnprovenError(
            f"{subject} was not evaluated fully: {why}. {cure}; --unproven takes the kernel as it is, and marks it."
        )


def mark_source(source: str, why: str, comment: str = "//") -> str:
    """Return a kernel's text with the reason on its first line, if there is one."""
    # The reason stands in the text itself, so it stays with the kernel when its file is copied.
    return f"{comment} {UNPROVEN}: {why}.\n{source}" if why else source


def unmark_source(source: str, comment: str = "//") -> str:
    """Return a kernel's text without the line that `mark_source` adds."""
    first, _, rest = source.partition("\n")
    return rest if first.startswith(f"{comment} {UNPROVEN}: ") else source


def mark_name(stem: str, why: str) -> str:
    """Return a file name's stem, marked if the kernel is unproven."""
    return stem if not why or UNPROVEN.lower() in stem.lower() else f"{stem}-{UNPROVEN.lower()}"
