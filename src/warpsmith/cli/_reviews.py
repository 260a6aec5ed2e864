"""Reviews that were answered through files, as verifiers of the candidates they are of."""

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from warpsmith.records import Candidate

if TYPE_CHECKING:
    from warpsmith.cli._search import Session
    from warpsmith.evolve import Opinion


def screen_with(session: "Session", reviews: Mapping[str, str]) -> Callable[[Candidate], "Opinion"]:
    """Static signs, the compiler and the reviewers; a candidate without a review is judged by the others."""
    from warpsmith.evolve import Opinion
    from warpsmith.evolve.tokens import normal_digest
    from warpsmith.llm import Answer, ModelError
    from warpsmith.tasks.find import open_task
    from warpsmith.tasks.opened import OpenOptions
    from warpsmith.verify.pipeline import Verifiers, verify
    from warpsmith.verify.review import Role

    slots = {
        normal_digest(one.candidate.source, one.candidate.macros): one.proposal.slot.name
        for one in session.search.ledger.waiting()
    }

    def screen(candidate: Candidate) -> Opinion:
        slot = slots.get(normal_digest(candidate.source, candidate.macros), "")
        roles = tuple(role for role in Role if f"{slot}.{role}" in reviews)

        def ask(prompts: object) -> list[Answer | ModelError]:
            return [Answer(text=reviews[f"{slot}.{role}"], model="reviewer", usd=0.0) for role in roles]

        verifiers = Verifiers(virtual=False, roles=roles, ask=ask)
        with open_task(session.run.target, OpenOptions(trust=session.wishes.trust)) as opened:
            found = verify(candidate, opened, secrets.randbits(62), verifiers)
        return Opinion(found.go, 1.0 - found.wrong, found.evidence(), found.usd)

    return screen
