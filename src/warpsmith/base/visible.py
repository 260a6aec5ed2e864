"""Text as it is safe to show: a kernel, its compiler's words and its own errors may hold what a terminal obeys."""

import re
import shlex

# Controls but tab and line feed (escape sequences begin with one), and marks that turn the direction of writing.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text with a sign in the place of each character that would do something instead of being seen."""
    return OBEYED.sub("\ufffd", text)


def shell_line(*words: object) -> str:
    """Words as a line that a shell takes apart into the same words: what is printed to be run next."""
    return shlex.join(map(str, words))
