"""Text inside an artifact: external functions of its PTX, and exported signatures."""

import re

from warpsmith.languages.nvcc.bounds import ENTRIES, NAME_BYTES, NAMES, check_count, check_names

# Possessive quantifiers (`++`) never give characters back, and no part crosses the bracket of another match, so the
# time is linear in the bytes.
PTX_EXTERN = re.compile(rb"^\.extern \.func\s++(?:\([^()]*+\)\s*+)?([\w$]{1,%d})" % (NAME_BYTES + 1), re.MULTILINE)
MARK = b"\x7fWARPSMITH-ENTRY\x7f"
RECORD = re.compile(re.escape(MARK) + rb"([^\0]{1,200})\0([^\0]{0,4000})\0")


def ptx_externs(artifact: bytes) -> tuple[str, ...]:
    """Return the functions that the PTX inside an artifact expects from elsewhere. Raise Exceeded beyond a bound."""
    found: set[bytes] = set()
    for match in PTX_EXTERN.finditer(artifact):
        found.add(match[1])
        check_count(len(found), NAMES, "functions from elsewhere")
    names = sorted(name.decode() for name in found)
    check_names(names, "functions from elsewhere")
    return tuple(names)


def entry_texts(artifact: bytes) -> dict[str, str]:
    """Return the signature of each function that an artifact offers, by its name. Raise Exceeded beyond a bound."""
    found: dict[str, str] = {}
    for match in RECORD.finditer(artifact):
        found[match[1].decode(errors="replace")] = match[2].decode(errors="replace")
        check_count(len(found), ENTRIES, "functions to call")
    return found
