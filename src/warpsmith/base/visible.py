"""Text made safe for a terminal."""

import re
import shlex

# Controls but tab and line feed (escape sequences begin with one), and marks that turn the direction of writing.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def escape_controls(text: str) -> str:
    """Replace each control character by a visible sign, so that a terminal does not obey it."""
    return OBEYED.sub("\ufffd", text)


def shell_line(*words: object) -> str:
    """Return the words quoted as one shell command line."""
    return shlex.join(map(str, words))
