"""Reviewers: a question holds all they need, and any answer becomes a review or says why it is none."""

import pytest

from warpsmith.evaluation.verify.review import (
    Review,
    ReviewedKernel,
    ReviewerRole,
    UnusableReview,
    objection,
    panel_prompt,
    read_panel,
    read_review,
    review_prompt,
)
from warpsmith.records import (
    Candidate,
    Checker,
    Direction,
    Finding,
    Place,
    Reason,
    StageResult,
    StaticFacts,
    Verdict,
)
from warpsmith.tasks.host import open_task

TASK = open_task("layernorm").describe()
CANDIDATE = Candidate(task="layernorm", direction=Direction.FORWARD, source="int a;\nint b;\n", macros={"BLOCK": "128"})
SIGN = Finding(checker=Checker.RULE, message="thread: a thread", place=Place(file="kernel.cu", line=2))
SAID = (
    StageResult(stage="static", verdict=Verdict.PASS, facts=StaticFacts(findings=(SIGN,))),
    StageResult(
        stage="virtual", verdict=Verdict.FAIL, reason=Reason.FINDINGS, detail="/tmp/build-x/kernel.cu:9: race: two"
    ),
)
SUBJECT = ReviewedKernel(CANDIDATE, TASK, SAID)


@pytest.mark.parametrize("role", list(ReviewerRole))
def test_a_question_holds_reference_cases_tolerance_command_and_findings(role: ReviewerRole) -> None:
    prompt = review_prompt(SUBJECT, role)
    assert prompt.kind == "review" and "You review CUDA kernels" in prompt.system
    for part in ("F.layer_norm", "rows = 37", "held out", "4e-06", "nvcc -O1", "-DBLOCK=128", "   2 int b;"):
        assert part in prompt.user
    assert "line 2: rule: thread: a thread" in prompt.user
    assert "virtual: fail (findings): kernel.cu:9: race" in prompt.user and "/tmp/" not in prompt.user


def test_roles_are_asked_different_things_and_a_panel_all_of_them() -> None:
    asked = {review_prompt(SUBJECT, role).user for role in ReviewerRole}
    assert len(asked) == 4
    panel = panel_prompt(SUBJECT).user
    assert all(f'"role": "{role}"' in panel for role in ReviewerRole)
    assert panel.count("   2 int b;") == 1


def test_without_findings_the_question_says_so() -> None:
    assert "- nothing yet" in review_prompt(ReviewedKernel(CANDIDATE, TASK), ReviewerRole.MEMORY).user


GOOD = '{"verdict": "wrong", "confidence": 0.9, "line": 12, "why": "no bound", "fix": "if (i < n)"}'
CALM = '{"role": "numerical", "verdict": "right", "confidence": 1}'
OWN = GOOD.replace("{", '{"role": "memory", ')


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"I think {{so}}.\n```json\n{GOOD}\n```\n",
        f'```json\n{{"verdict": "right", "confidence": 1}}\n```\nNo, wait:\n```json\n{GOOD}\n```',
        f"```\n[{GOOD}]\n```",
        GOOD.replace("0.9", '"90 %"').replace('"wrong"', '"WRONG."').replace("12", '"line 12"'),
        f"[{CALM}, {OWN}]",
    ],
    ids=["bare", "fenced", "two", "list", "loose", "panel"],
)
def test_a_verdict_is_found_however_it_is_wrapped(text: str) -> None:
    review = read_review(text, ReviewerRole.MEMORY)
    assert isinstance(review, Review)
    assert review.objects and review.confidence == pytest.approx(0.9) and review.line == 12
    assert objection(review) == "memory reviewer (90% sure): line 12: no bound Fix: if (i < n)"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "is empty"),
        ("I cannot help with that.", "no JSON object"),
        ('{"verdict": "maybe", "confidence": 0.5}', "'maybe', neither right nor wrong"),
        ('{"verdict": "wrong", "confidence": "very"}', "cannot be read"),
        ('{"verdict": "wrong", "confidence": -3}', "cannot be read"),
        ('{"verdict": "wro', "no JSON object"),
        ("[" * 20000, "no JSON object"),
    ],
    ids=["empty", "refusal", "maybe", "words", "negative", "cut", "deep"],
)
def test_an_answer_without_a_verdict_is_a_value(text: str, error: str) -> None:
    found = read_review(text, ReviewerRole.COMPILE)
    assert isinstance(found, UnusableReview) and error in found.error and found.role is ReviewerRole.COMPILE


def test_a_panel_is_read_role_by_role() -> None:
    rows = ", ".join(f'{{"role": "{role}", "verdict": "right", "confidence": 0.8}}' for role in list(ReviewerRole)[:3])
    compiled, memory, numerical, cheating = read_panel(f"```json\n[{rows}]\n```")
    assert all(isinstance(one, Review) and not one.objects for one in (compiled, memory, numerical))
    assert isinstance(cheating, UnusableReview) and "no cheating verdict" in cheating.error
