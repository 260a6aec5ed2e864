"""Static rules: patterns in a kernel's text that are suspicious, never a verdict."""

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
LIMIT = 1 << 18  # characters; more would let a candidate keep the evaluator process busy
NAME = re.compile(r"\b[A-Za-z_]\w*")


class Rule(Model):
    """One rule: a pattern over the code, a sentence, and a pattern that silences it."""

    id: str
    message: str
    pattern: str
    unless: str = ""
    strings: bool = False
    allowed_by: str = ""


def run_static_rules(candidate: Candidate, libraries: Sequence[str] = ()) -> StageResult:
    """Return a PASS whose facts hold the rules' findings."""
    started = time.perf_counter()
    findings = tuple(match_rules(candidate.source, candidate.macros, libraries))
    said = ", ".join(dict.fromkeys(finding.message.partition(":")[0] for finding in findings))
    return StageResult(
        stage=STAGE,
        verdict=Verdict.PASS,
        detail=f"signs: {said}" if said else "",
        facts=StaticFacts(findings=findings),
        seconds=time.perf_counter() - started,
    )


def match_rules(
    source: str, macros: Mapping[str, str] | None = None, libraries: Sequence[str] = ()
) -> Iterator[Finding]:
    """Yield one finding per matching rule, at its first match."""
    # Both forms of the text are made once, for all rules.
    texts = {strings: expand_macros(code_of(source[:LIMIT], strings), macros or {}) for strings in (False, True)}
    for rule in load_rules():
        code = texts[rule.strings]
        if rule.allowed_by in libraries or (rule.unless and re.search(rule.unless, code)):
            continue
        places = list(re.finditer(rule.pattern, code))
        if places:
            yield _finding(rule, line_of(code, places[0].start()), len(places))


@cache
def load_rules() -> tuple[Rule, ...]:
    """Load the rules of static_rules.toml in order."""
    found: Mapping[str, Any] = tomllib.loads(RULES.read_text())
    return tuple(Rule.model_validate(row) for row in found["rule"])


def expand_macros(code: str, macros: Mapping[str, str]) -> str:
    """Return code with object-like macros replaced; lines stay in place."""
    known = {name: " ".join(text.replace("\\\n", " ").split()) for name, text in OBJECT.findall(code)}
    known = {name: text for name, text in {**known, **macros}.items() if text}
    # Not a preprocessor: a few rounds resolve names that stand for calls, which is how calls are hidden.
    for _ in range(ROUNDS if known else 0):
        # Macros can double the text in each round, so growth is bounded before the substitution.
        if len(code) + sum(len(known.get(name[0], "")) for name in NAME.finditer(code)) > LIMIT:
            break
        code = NAME.sub(lambda name: known.get(name[0], name[0]), code)
    return code


def _finding(rule: Rule, line: int, count: int) -> Finding:
    """Return the finding of a rule."""
    return Finding(
        checker=Checker.RULE,
        message=f"{rule.id}: {rule.message}",
        severity=Severity.WARNING,
        place=Place(file=SOURCE, line=line),
        count=count,
    )
