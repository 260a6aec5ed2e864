"""Models' answers: a kernel, a patch, or an error."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from warpsmith.languages import LanguageSpec, find_language
from warpsmith.records import Language


@dataclass(frozen=True)
class PatchFault:
    """The reason for a patch that does not apply."""

    message: str


@dataclass(frozen=True)
class Hunk:
    """Lines to find, and the lines that replace them."""

    old: tuple[str, ...]
    new: tuple[str, ...]


def hunks(patch: str) -> Iterator[Hunk]:
    """Yield the hunks of a diff. Line numbers are ignored, because models guess them."""
    old: list[str] = []
    new: list[str] = []
    for line in patch.splitlines():
        if line.startswith(("@@", "--- ", "+++ ", "diff ", "index ")):
            if old or new:
                yield Hunk(tuple(old), tuple(new))
            old, new = [], []
            continue
        mark, rest = line[:1], line[1:]
        # A line without a mark is taken as context: models forget the leading blank.
        if not mark or mark not in "+-\\":
            old.append(rest if mark == " " else line)
            new.append(rest if mark == " " else line)
        elif mark == "-":
            old.append(rest)
        elif mark == "+":
            new.append(rest)
    if old or new:
        yield Hunk(tuple(old), tuple(new))


def apply_patch(text: str, patch: str) -> str | PatchFault:
    """Return the text with every hunk applied."""
    lines, at = text.splitlines(), 0
    found = list(hunks(patch))
    if not found:
        return PatchFault("The patch has no hunk.")
    for number, hunk in enumerate(found, 1):
        place = _find(lines, hunk.old, at)
        if place is None:
            shown = next((line.strip() for line in hunk.old if line.strip()), "")
            return PatchFault(f"Hunk {number} of the patch does not apply: '{shown[:100]}' is not there as it says.")
        lines[place : place + len(hunk.old)] = hunk.new
        # Later hunks are searched from here first, so repeated lines match in the order of the patch.
        at = place + len(hunk.new)
    return "\n".join(lines) + "\n"


def _find(lines: list[str], old: tuple[str, ...], start: int) -> int | None:
    """Return where the old lines start, first after the last hunk; trailing blanks are ignored."""
    # Models drop or add blanks at the ends of lines; the compiler does not see the difference.
    wanted = [line.rstrip() for line in old]
    if not any(wanted):
        return None
    there = [line.rstrip() for line in lines]
    places = [*range(start, len(there)), *range(start)]
    return next((at for at in places if there[at : at + len(wanted)] == wanted), None)


FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([\w+.#-]*)([^`]*)")
LABEL = re.compile(r"^[#* \t]*(name|thought|thoughts|reasoning)[*\s]*:[*\s]*(.*)$", re.IGNORECASE | re.MULTILINE)
PATCH = ("diff", "patch")
REFUSAL = re.compile(
    r"\b(?:I(?:'m| am) (?:sorry|unable)|I can(?:no|')t (?:help|assist|do|provide|comply)|I must decline|as an AI\b)",
    re.IGNORECASE,
)
OTHER = re.compile(r"^[ \t]*(?:import |from \w+ import|@triton|def \w+\(|fn \w+|use std)", re.MULTILINE)
MOST_BYTES = 1 << 18  # of an answer's code
NAME_WORDS = 80


class AnswerFault(StrEnum):
    """Why an answer gives no kernel."""

    EMPTY = "empty"
    NO_CODE = "no_code"
    SEVERAL_BLOCKS = "several_blocks"  # more than one kernel, without a choice
    WRONG_LANGUAGE = "wrong_language"
    REFUSAL = "refusal"
    CUT_OFF = "cut_off"  # the last block is not closed
    TOO_LONG = "too_long"
    PATCH_FAILED = "patch_failed"


@dataclass(frozen=True)
class Draft:
    """The kernel that an answer proposes."""

    name: str
    thought: str
    code: str


@dataclass(frozen=True)
class Block:
    """A block of code in an answer."""

    language: str
    body: str


@dataclass(frozen=True)
class UnusableProposal:
    """An answer without a usable kernel, and the reason."""

    fault: AnswerFault
    detail: str


def read_answer(text: str, original: str = "", key: str = Language.TORCH) -> Draft | UnusableProposal:
    """Return the draft of an answer in a language; `original` is the text that a patch in it changes."""
    wanted = find_language(key)
    text = _plain(text)
    if not text.strip():
        return UnusableProposal(AnswerFault.EMPTY, "The answer has no text.")
    blocks, whole = _blocks(text)
    if not blocks:
        return _without_block(text, whole, wanted)
    code = _code(blocks, original, wanted)
    if isinstance(code, UnusableProposal):
        return code
    if len(code) > MOST_BYTES:
        return UnusableProposal(
            AnswerFault.TOO_LONG, f"The code has {len(code)} characters; at most {MOST_BYTES} are taken."
        )
    return Draft(_labelled(text, "name"), _labelled(text, "thought"), code)


def _plain(text: str) -> str:
    """Return the answer without the model's thoughts, with plain line ends."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    # Some models print their reasoning before this tag, with drafts of kernels that must not be read.
    return lines.rpartition("</think>")[2] or lines


def _blocks(text: str) -> tuple[list[Block], bool]:
    """Return the code blocks, and whether the last one is closed. One pass, so that a hostile answer is cheap."""
    found: list[Block] = []
    fence, language, body = "", "", list[str]()
    for line in text.split("\n"):
        mark = FENCE.fullmatch(line)
        if not fence and mark:
            # rpartition: a language may be written with a prefix, as in `cuda.cu`.
            fence, language, body = mark[1], mark[2].lower().rpartition(".")[2], []
        elif fence and mark and mark[1].startswith(fence) and not (mark[2] + mark[3]).strip():
            found.append(Block(language, "".join(f"{one}\n" for one in body)))
            fence = ""
        else:
            body.append(line)
    return found, not fence


def _without_block(text: str, whole: bool, wanted: LanguageSpec) -> Draft | UnusableProposal:
    """Return the draft of an answer without a code block, or why there is none."""
    if REFUSAL.search(text[:400]):
        return UnusableProposal(AnswerFault.REFUSAL, f"The model refused: {' '.join(text.split())[:160]}")
    if not whole:
        return UnusableProposal(
            AnswerFault.CUT_OFF, "The code block is opened and never closed: the answer was cut off."
        )
    if wanted.kernel.search(text) and wanted.opening in text:
        start = text.index(wanted.opening)
        return Draft(_labelled(text[:start], "name"), _labelled(text[:start], "thought"), text[start:].rstrip() + "\n")
    return UnusableProposal(
        AnswerFault.NO_CODE,
        f"The answer has no code block; put the whole kernel into one ```{wanted.fences[0]} block.",
    )


def _code(blocks: list[Block], original: str, wanted: LanguageSpec) -> str | UnusableProposal:
    """Return the kernel of the code blocks: one kernel, or a patch of the original."""
    kernels = [one.body for one in blocks if one.language in wanted.fences and wanted.kernel.search(one.body)]
    patches = [one.body for one in blocks if one.language in PATCH]
    # Equal blocks are one kernel that was repeated.
    if len(kernels) > 1 and len(set(kernels)) > 1:
        return UnusableProposal(
            AnswerFault.SEVERAL_BLOCKS,
            f"The answer has {len(kernels)} code blocks with kernels; give one file in one block.",
        )
    if kernels:
        return kernels[0]
    if patches and original:
        return _patched(original, patches)
    if patches:
        return UnusableProposal(
            AnswerFault.PATCH_FAILED, "The answer is a patch, and there is no file it was asked for."
        )
    return _no_kernel(blocks, wanted)


def _patched(original: str, patches: list[str]) -> str | UnusableProposal:
    """Return the original with all patches applied."""
    text = original
    for patch in patches:
        made = apply_patch(text, patch)
        if isinstance(made, PatchFault):
            return UnusableProposal(AnswerFault.PATCH_FAILED, made.message)
        text = made
    if text == original:
        return UnusableProposal(AnswerFault.PATCH_FAILED, "The patch changes nothing.")
    return text


def _no_kernel(blocks: list[Block], wanted: LanguageSpec) -> UnusableProposal:
    """Return why no code block holds a kernel."""
    named = next((one.language for one in blocks if one.language not in wanted.fences), "")
    if named or any(OTHER.search(one.body) for one in blocks):
        what = named or "another language"
        return UnusableProposal(AnswerFault.WRONG_LANGUAGE, f"The code is {what}; {wanted.title} is wanted.")
    return UnusableProposal(AnswerFault.NO_CODE, "No code block holds a __global__ function or a launch.")


def _labelled(text: str, label: str) -> str:
    """Return the text after `name:` or `thought:`, shortened for a record."""
    wanted = ("name",) if label == "name" else ("thought", "thoughts", "reasoning")
    found = next((match for match in LABEL.finditer(text) if match[1].lower() in wanted), None)
    if found is None:
        return ""
    if label == "name":
        return found[2].strip(" `*")[:NAME_WORDS]
    rest = text[found.start(2) :].split("```", 1)[0]
    return " ".join(rest.split())[:600]
