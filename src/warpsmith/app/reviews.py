"""Reviews that were answered through files, as verifiers of the candidates they are of."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from warpsmith.app.search import opinion_of, verified
from warpsmith.records import Candidate

if TYPE_CHECKING:
    from warpsmith.app.search import Session
    from warpsmith.search import Opinion


def screen_with(session: "Session", reviews: Mapping[str, str]) -> Callable[[Candidate], "Opinion"]:
    """Static signs, the compiler and the reviewers; a candidate without a review is judged by the others."""
    from warpsmith.evaluation.verify import ReviewerRole, Verifiers
    from warpsmith.languages.cuda import normal_key
    from warpsmith.llm import ModelAnswer, ModelError

    slots = {normal_key(one.candidate): one.proposal.slot.name for one in session.search.ledger.waiting()}

    def screen(candidate: Candidate) -> "Opinion":
        slot = slots.get(normal_key(candidate), "")
        roles = tuple(role for role in ReviewerRole if f"{slot}.{role}" in reviews)

        def ask(prompts: object) -> list[ModelAnswer | ModelError]:
            return [ModelAnswer(text=reviews[f"{slot}.{role}"], model="reviewer", usd=0.0) for role in roles]

        return opinion_of(verified(candidate, session.wishes, Verifiers(virtual=False, roles=roles, ask=ask)))

    return screen
