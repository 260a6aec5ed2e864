"""C++ identifiers from Python names."""

import re
from collections.abc import Iterable

# Python identifiers that C++ keeps for itself, and the few names that a kernel file has already taken.
WORDS = (
    "alignas alignof and asm auto bitand bitor bool break case catch char class compl concept const consteval "
    "constexpr constinit continue decltype default delete do double else enum explicit export extern false float for "
    "friend goto if inline int long mutable namespace new noexcept not nullptr operator or private protected public "
    "register requires return short signed sizeof static struct switch template this throw true try typedef typeid "
    "typename union unsigned using virtual void volatile while xor at c10 std stream torch forward backward"
)
TAKEN = frozenset(WORDS.split())


def identifier(name: str) -> str:
    """Return a C++ identifier: `conv.weight` becomes `conv_weight`, `default` becomes `default_`."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name) or "value"
    plain = f"_{plain}" if plain[0].isdigit() else plain
    return f"{plain}_" if plain in TAKEN else plain


def identifiers(names: Iterable[str]) -> list[str]:
    """Return distinct C++ identifiers in order."""
    made: list[str] = []
    for name in names:
        plain = base = identifier(name)
        count = 1
        while plain in made:
            count += 1
            plain = f"{base}_{count}"
        made.append(plain)
    return made
