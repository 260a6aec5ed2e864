"""Source text with blanked comments and strings; character positions stay the same."""

import re

# An unclosed comment or string ends with the text or the line. Otherwise each of a million openings would search the
# rest of the text.
# Raw strings end at their own delimiter, so quotes and comment signs inside do not count.
TOKENS = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|R"(?P<mark>[^()\s\\]{0,16})\(.*?(?:\)(?P=mark)"|\Z)'
    r'|"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n]){1,12}\'',
    re.DOTALL,
)
PRINTABLE = re.compile(r"[^\n]")
PAIRS = {"(": ")", "[": "]", "{": "}"}


def code_of(source: str, strings: bool = False) -> str:
    """Return the source with blank comments, and blank strings unless `strings` is set."""
    # Blanks instead of removal: positions and line numbers of matches hold for the source.
    return TOKENS.sub(_blank_comment if strings else _blank_text, source)


def line_of(source: str, position: int) -> int:
    """Return the line number of a position, from 1."""
    return source.count("\n", 0, position) + 1


def find_closing(code: str, opening: int) -> int:
    """Return the matching bracket's position, or the end."""
    close, depth = PAIRS[code[opening]], 0
    for place in range(opening, len(code)):
        if code[place] == code[opening]:
            depth += 1
        elif code[place] == close:
            depth -= 1
            if depth == 0:
                return place
    return len(code)


def _blank_comment(found: re.Match[str]) -> str:
    """Return a comment as spaces, and any other match unchanged."""
    return PRINTABLE.sub(" ", found[0]) if found[0].startswith("/") else found[0]


def _blank_text(found: re.Match[str]) -> str:
    """Return a comment or string as spaces."""
    text = found[0]
    if text.startswith("/"):
        return PRINTABLE.sub(" ", text)
    return text[0] + PRINTABLE.sub(" ", text[1:-1]) + text[-1]
