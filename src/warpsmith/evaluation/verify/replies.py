"""Stored answers of reviewers, parsed anew each time."""

from collections.abc import Mapping
from pathlib import Path

from warpsmith.base import UsageError
from warpsmith.evaluation.verify.aggregate import Decision
from warpsmith.evaluation.verify.pipeline import Verified
from warpsmith.evaluation.verify.review import Review, ReviewerRole, UnusableReview, read_panel, read_review
from warpsmith.evaluation.verify.specimens import Label, LabelledKernel, lines_of
from warpsmith.records import Candidate, Model

REVIEWS, ATTACKS = "reviews.jsonl", "attacks.jsonl"


class ReviewReply(Model):
    """One answer, to one role or to all."""

    candidate: str  # its id
    answer: str
    role: ReviewerRole | None = None
    model: str = ""
    usd: float = 0.0
    seconds: float = 0.0

    def reviews(self) -> tuple[Review | UnusableReview, ...]:
        """Return the reviews in the answer."""
        return read_panel(self.answer) if self.role is None else (read_review(self.answer, self.role),)


def read_replies(folder: Path) -> Mapping[str, tuple[ReviewReply, ...]]:
    """Read stored answers by candidate; raise UsageError if damaged."""
    found: dict[str, tuple[ReviewReply, ...]] = {}
    for number, line in enumerate(lines_of(folder / REVIEWS), 1):
        reply = ReviewReply.read(line)
        if isinstance(reply, str):
            raise UsageError(f"Line {number} of {folder / REVIEWS} is no answer: {reply}.")
        found[reply.candidate] = (*found.get(reply.candidate, ()), reply)
    return found


def read_attacks(folder: Path) -> list[LabelledKernel]:
    """Read the attacks for reviewers, labelled wrong."""
    lines = lines_of(folder / ATTACKS)
    return [LabelledKernel(candidate=Candidate.parse(line), label=Label.WRONG, stage="attack") for line in lines]


def reviewed(verified: Verified, replies: tuple[ReviewReply, ...]) -> Verified:
    """Return results with the reviewers' answers added."""
    said = [one for reply in replies for one in reply.reviews()]
    return verified.model_copy(
        update={
            "reviews": tuple(one for one in said if isinstance(one, Review)),
            "bad_answers": tuple(one for one in said if isinstance(one, UnusableReview)),
            "usd": sum(reply.usd for reply in replies),
        }
    )


def unseen(candidate: str) -> Verified:
    """Return a kernel without any verifier's result."""
    return Verified(candidate=candidate, decision=Decision(go=True, odds=0.0))
