"""Static rules: signs in a kernel's text that something else than the work is going on. A sign is never a verdict."""

import re
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from warpsmith.languages.cuda.text import code_of, line_of
from warpsmith.languages.nvcc import SOURCE
from warpsmith.records import Candidate, Checker, Finding, Model, Place, Severity, StageResult, StaticFacts, Verdict

STAGE = "static"
RULES = Path(__file__).parent / "static_rules.toml"
OBJECT = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+((?:[^\n\\]|\\\n)+)$", re.MULTILINE)
ROUNDS = 3  # of expanding macros in macros
LIMIT = 1 << 18  # characters that are looked at: the judge reads them, and must not be kept busy by a bad one
NAME = re.compile(r"\b[A-Za-z_]\w*")


class Rule(Model):
    """One sign: a pattern over the code, a sentence, and what silences it."""

    id: str
    message: str
    pattern: str
    unless: str = ""
    strings: bool = False
    allowed_by: str = ""


def look_static(candidate: Candidate, libraries: Sequence[str] = ()) -> StageResult:
    """PASS always; the facts hold the signs, for whoever explains a later failure or ranks candidates."""
    started = time.perf_counter()
    findings = tuple(signs(candidate.source, candidate.macros, libraries))
    said = ", ".join(dict.fromkeys(finding.message.partition(":")[0] for finding in findings))
    return StageResult(
        stage=STAGE,
        verdict=Verdict.PASS,
        detail=f"signs: {said}" if said else "",
        facts=StaticFacts(findings=findings),
        seconds=time.perf_counter() - started,
    )


def signs(source: str, macros: Mapping[str, str] | None = None, libraries: Sequence[str] = ()) -> Iterator[Finding]:
    """One finding for each rule that has a place, at its first one, in the order of the rules."""
    texts = {strings: expanded(code_of(source[:LIMIT], strings), macros or {}) for strings in (False, True)}
    for rule in rules():
        code = texts[rule.strings]
        if rule.allowed_by in libraries or (rule.unless and re.search(rule.unless, code)):
            continue
        places = list(re.finditer(rule.pattern, code))
        if places:
            yield _finding(rule, line_of(code, places[0].start()), len(places))


@cache
def rules() -> tuple[Rule, ...]:
    """The rules of the file, in its order."""
    found: Mapping[str, Any] = tomllib.loads(RULES.read_text())
    return tuple(Rule.model_validate(row) for row in found["rule"])


def expanded(code: str, macros: Mapping[str, str]) -> str:
    """The code with names that stand for other text replaced, lines kept; a cheap preprocessor, not a whole one."""
    known = {name: " ".join(text.replace("\\\n", " ").split()) for name, text in OBJECT.findall(code)}
    known = {name: text for name, text in {**known, **macros}.items() if text}
    for _ in range(ROUNDS if known else 0):
        if len(code) + sum(len(known.get(name[0], "")) for name in NAME.finditer(code)) > LIMIT:
            break
        code = NAME.sub(lambda name: known.get(name[0], name[0]), code)
    return code


def _finding(rule: Rule, line: int, count: int) -> Finding:
    return Finding(
        checker=Checker.RULE,
        message=f"{rule.id}: {rule.message}",
        severity=Severity.WARNING,
        place=Place(file=SOURCE, line=line),
        count=count,
    )
