"""A kernel's text as code: comments and the insides of strings blanked, so that places stay where they are."""

import re

# What nobody closes ends with the text or the line: else a megabyte of openings is searched once for each of them.
TOKENS = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|R"(?P<mark>[^()\s\\]{0,16})\(.*?(?:\)(?P=mark)"|\Z)'
    r'|"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n]){1,12}\'',
    re.DOTALL,
)
PRINTABLE = re.compile(r"[^\n]")
PAIRS = {"(": ")", "[": "]", "{": "}"}


def code_of(source: str, strings: bool = False) -> str:
    """The text with the same length and lines, without comments; what is in strings stays only when asked."""
    return TOKENS.sub(_uncommented if strings else _blanked, source)


def line_of(source: str, place: int) -> int:
    """The line of a place in a text, from 1."""
    return source.count("\n", 0, place) + 1


def closing(code: str, opening: int) -> int:
    """The place of the bracket that closes the one at `opening`, or the end of the text."""
    close, depth = PAIRS[code[opening]], 0
    for place in range(opening, len(code)):
        if code[place] == code[opening]:
            depth += 1
        elif code[place] == close:
            depth -= 1
            if depth == 0:
                return place
    return len(code)


def _uncommented(found: re.Match[str]) -> str:
    return PRINTABLE.sub(" ", found[0]) if found[0].startswith("/") else found[0]


def _blanked(found: re.Match[str]) -> str:
    """A comment as spaces; a string as its quotes around spaces, so that it is still one expression."""
    text = found[0]
    if text.startswith("/"):
        return PRINTABLE.sub(" ", text)
    return text[0] + PRINTABLE.sub(" ", text[1:-1]) + text[-1]
