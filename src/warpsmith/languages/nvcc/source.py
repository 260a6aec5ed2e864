"""The compiled text: checks of a source, and additions to it."""

import re
from collections.abc import Mapping

from warpsmith.languages.cuda import code_of, line_of
from warpsmith.languages.nvcc.diagnose import SOURCE
from warpsmith.records import Candidate, Direction, Failure, Language, Reason

LIMIT_BYTES = 1 << 20
MACRO_NAME = re.compile(r"[A-Za-z_]\w{0,63}")
MACRO_VALUE = re.compile(r"[\w.+\-*/<>=(),: ]{0,100}")
PREFIXES: Mapping[str, str] = {Language.TORCH: "warpsmith/torch/all.h", Language.PLAIN: "warpsmith/plain.h"}
INCBIN = re.compile(r"""\.incbin\s*\\?["']?([^"'\\\s]*)""")
# Names of CUDA's 16-bit headers, which a source may use without including them because torch's headers do.
CUDA_HALF = re.compile(
    r"half|bfloat|gpuAtomicAdd|cuda_fp16|cuda_bf16|\b__h(?!ost__)[a-z]+\w*\b|\b__(?:low|high)s?2\w+\b"
    r"|\bh2?(?:exp|log|sqrt|rsqrt|rcp|sin|cos|tanh|ceil|floor|rint|trunc|div)\w*\b"
)
SHIM = """
#line 1 "warpsmith-shim"
static void warpsmith_fill(::warpsmith::Table& table) {{
{adds}
}}
WARPSMITH_EXPORTS(warpsmith_fill)
"""


def check_bytes(raw: bytes) -> Failure | None:
    # The checks run before a compiler starts, so a bad text costs no compilation.
    """Return a failure if a file cannot be a source."""
    if not raw.strip():
        return Failure(Reason.BAD_SOURCE, "The source is empty.")
    if len(raw) > LIMIT_BYTES:
        return Failure(Reason.BAD_SOURCE, f"The source has {len(raw)} bytes; at most {LIMIT_BYTES} are compiled.")
    # A zero byte ends the text for some tools and not for others, so two readers could see different programs.
    if (place := raw.find(b"\0")) >= 0:
        return Failure(Reason.BAD_SOURCE, f"The source has a zero byte at {place}; it must be text.")
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return Failure(Reason.BAD_SOURCE, f"The source is not UTF-8 (byte {error.start}).")
    return None


def check_files(source: str) -> Failure | None:
    """Return a failure for .incbin, else None."""
    # A source that hides .incbin from this pattern meets the confinement: the compiler cannot open other files.
    code = code_of(source, strings=True)
    if (found := INCBIN.search(code)) is None:
        return None
    line = line_of(code, found.start())
    return Failure(Reason.FORBIDDEN_FILE, f"The source reads the file {found[1]} by .incbin in line {line}.")


def check_macros(macros: Mapping[str, str]) -> Failure | None:
    """Return a failure for an unusable macro."""
    # A macro becomes one line of the translation unit: newlines, comments and quotes are refused.
    for name, value in macros.items():
        if not MACRO_NAME.fullmatch(name) or not MACRO_VALUE.fullmatch(value):
            return Failure(
                Reason.BAD_SOURCE,
                f"Macro {name[:80]!r} = {value[:80]!r} cannot be defined: a name is an identifier, and a value has "
                "letters, digits, spaces and .+-*/<>=(),: only.",
            )
    return None


def translation_unit(candidate: Candidate) -> str | Failure:
    """Return our header, the macros, the source and the table of its functions."""
    prefix = PREFIXES.get(candidate.language)
    if prefix is None:
        return Failure(Reason.BAD_SOURCE, f"nvcc compiles {', '.join(PREFIXES)}, not {candidate.language}.")
    added = "" if candidate.language == Language.TORCH else _shim(candidate)
    if isinstance(added, Failure):
        return added
    # The macros come after the header: a tunable called N would change names in the header.
    macros = "".join(f"#define {name} {value}\n" for name, value in sorted(candidate.macros.items()))
    # Looked for in the source as written: a match in a comment includes a header in vain, and changes nothing else.
    wide = "#define WARPSMITH_CUDA_HALF 1\n" if CUDA_HALF.search(candidate.source) else ""
    # `#line 1` makes the compiler's messages name lines of the source as its author numbers them.
    head = f'{wide}#include <{prefix}>\n{macros}#line 1 "{SOURCE}"\n'
    return f"{head}{candidate.source}\n{added}"


def _shim(candidate: Candidate) -> str | Failure:
    """Return the table of a plain source's functions, or a failure."""
    # A C++ parser is not needed: a plain function is declared as `int forward(`, and the compiler checks the rest.
    names = exported_directions(candidate.source)
    if candidate.direction.value not in names:
        return Failure(
            Reason.NO_ENTRY,
            f'The source has no function `{candidate.direction}`; a plain kernel is extern "C" int '
            f"{candidate.direction}(…, cudaStream_t stream).",
        )
    adds = "\n".join(f'  ::warpsmith::plain::add(table, WARPSMITH_NAME("{name}"), &::{name});' for name in names)
    return SHIM.format(adds=adds)


def exported_directions(source: str) -> tuple[str, ...]:
    """Return the directions that a plain source has a function for."""
    code = code_of(source)
    return tuple(name.value for name in Direction if re.search(rf"\bint\s+{name.value}\s*\(", code))
