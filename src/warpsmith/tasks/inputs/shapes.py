"""Input shapes as the command line writes them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from warpsmith.base import UsageError
from warpsmith.records import Dtype

FORM = re.compile(r"^(?:(?P<name>[A-Za-z_]\w*)=)?(?P<dims>[\dx-]*)(?::(?P<dtype>\w+)(?:<(?P<high>\d+))?)?$")
LARGEST = 1 << 33  # elements of one tensor, as in a task file


@dataclass(frozen=True)
class ExampleShape:
    """One example input: its sizes, its element type, and the limit of its values if they are integers."""

    dims: tuple[int, ...]
    dtype: str = "float32"
    high: int = 2
    name: str = ""


def read_shape(text: str) -> ExampleShape:
    """Parse an input's text. Raise UsageError for a text that is not an input."""
    # The shape is typed by a user, so the message shows both forms.
    match = FORM.match(text.strip())
    if match is None:
        raise UsageError(
            f"Input '{text}' cannot be read. Write sizes and an element type: 32x1024:float32, 64:int64<1000, "
            "or with a name: x=32x1024."
        )
    dims = tuple(_size(text, part) for part in match["dims"].split("x")) if match["dims"] else ()
    dtype = match["dtype"] or Dtype.FLOAT32.value  # the version of a task hashes its text
    if dtype not in tuple(Dtype):
        raise UsageError(f"Input '{text}': element type '{dtype}' does not exist; known are {', '.join(Dtype)}.")
    _bounded(text, dims)
    return ExampleShape(dims, dtype, int(match["high"] or 2), match["name"] or "")


def shape_text(name: str, dims: Iterable[int], dtype: str) -> str:
    """Return an input as text that `read_shape` parses."""
    return f"{name}={'x'.join(map(str, dims))}:{dtype}"


def _size(text: str, part: str) -> int:
    if not part.isdigit() or int(part) < 1:
        raise UsageError(f"Input '{text}': size '{part}' is not a whole number of 1 or more.")
    return int(part)


def _bounded(text: str, dims: tuple[int, ...]) -> None:
    count = 1
    for size in dims:
        count *= size
    if count > LARGEST:
        raise UsageError(f"Input '{text}' has {count} elements; at most {LARGEST} are taken. Lower its sizes.")
