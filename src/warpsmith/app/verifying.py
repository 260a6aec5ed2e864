"""The verifiers of a search, which decide about evaluations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from warpsmith.base import UsageError, digest
from warpsmith.evaluation import EvaluationConfig, PreparedEvaluation, is_measured, verify
from warpsmith.evaluation.verify import ReviewerRole, Verified, Verifiers
from warpsmith.languages.cuda import normal_key
from warpsmith.llm import Ensemble, ModelAnswer, ModelError, Outcome, Prompt, ask_all
from warpsmith.machines import hardware
from warpsmith.machines.virtual import VirtualMachine
from warpsmith.records import Candidate, Effort
from warpsmith.search import Opinion, Screen, Search, SearchConfig
from warpsmith.tasks.host import OpenOptions, open_task


def evaluation_config(config: SearchConfig, effort: Effort) -> EvaluationConfig:
    """Return the configuration of a search's evaluations: `sketch` for proposals, `thorough` for the winner."""
    return EvaluationConfig(device=config.device, gpu=config.gpu, trust=config.trust, effort=effort)


def evaluation_seed(config: SearchConfig, seed: int | None, candidate: Candidate) -> int | None:
    """Return the seed of an evaluation in a recorded or replayed run, or None for a secret seed.

    It depends on the kernel and not on the path of its task, so that a recording can be replayed on another machine.
    """
    # A live run draws a secret seed for each evaluation; only recordings repeat their seeds.
    if seed is None or (config.record is None and config.replay is None):
        return None
    # The path of the task is left out, since it differs between machines.
    kernel = candidate.model_copy(update={"task": ""}).id
    return int(digest(str(seed), kernel), 16) % 2**62


def is_here(config: SearchConfig) -> bool:
    """Return whether this machine evaluates a dialogue's kernels."""
    return not config.elsewhere and (not is_measured(config.device) or bool(hardware.gpus()))


def read_roles(text: str) -> tuple[ReviewerRole, ...]:
    """Return the reviewers of a comma-separated text. Raise UsageError for an unknown name."""
    return tuple(_read_role(name.strip()) for name in text.split(",") if name.strip())


def _read_role(name: str) -> ReviewerRole:
    known = [role.value for role in ReviewerRole]
    if name not in known:
        raise UsageError(f"Reviewer {name} does not exist; there are {', '.join(known)}.")
    return ReviewerRole(name)


def make_screen(
    config: SearchConfig,
    models: Ensemble,
    roles: tuple[ReviewerRole, ...],
    seed: int | None,
    prepared: dict[str, PreparedEvaluation],
) -> Screen | None:
    """Return the verifiers before a GPU; None if an evaluation finds the same.

    Begun evaluations are put into `prepared`, so that the evaluator resumes them and no stage runs twice.
    """
    # Without models there are no proposals to verify; the virtual GPU as evaluator finds the same itself.
    if not models or not (roles or is_measured(config.device)):
        return None

    def screen(candidate: Candidate) -> Opinion:
        opinion, found = _screen(candidate, config, models, roles, evaluation_seed(config, seed, candidate))
        # An evaluation that the verifiers began is resumed, so that the virtual run is not made twice.
        if found.go and found.prepared is not None:
            prepared[candidate.id] = found.prepared
        return opinion

    return screen


def _screen(
    candidate: Candidate, config: SearchConfig, models: Ensemble, roles: tuple[ReviewerRole, ...], seed: int | None
) -> tuple[Opinion, Verified]:
    """Return the opinion on a candidate with the paid answers. The first model answers for all reviewers."""
    first, paid = next(iter(models)), list[ModelAnswer]()

    def ask(prompts: Sequence[Prompt]) -> list[Outcome]:
        found = ask_all([(first, prompt) for prompt in prompts])
        # A failed request may have cost money, which the run has to count.
        paid.extend(_paid_answer(one, first.name) for one in found if isinstance(one, ModelAnswer) or one.usd)
        return found

    verifiers = Verifiers(virtual=is_measured(config.device), roles=roles, ask=ask)
    found = run_verifiers(candidate, config, verifiers, seed)
    return _opinion(found).model_copy(update={"answers": tuple(paid)}), found


def _paid_answer(found: Outcome, model: str) -> ModelAnswer:
    """Return a reviewer's answer; an empty one with its cost if the request failed."""
    return found if isinstance(found, ModelAnswer) else ModelAnswer(text="", model=model, usd=found.usd)


def run_verifiers(
    candidate: Candidate, config: SearchConfig, verifiers: Verifiers, seed: int | None = None
) -> Verified:
    """Return the verifiers' findings."""
    machine = None if is_here(config) else VirtualMachine.of(config.gpu)
    asked = replace(verifiers, config=evaluation_config(config, "sketch"), machine=machine)
    with open_task(config.target, OpenOptions(trust=config.trust)) as opened:
        return verify.verify(candidate, opened, seed, asked)


def _opinion(found: Verified) -> Opinion:
    """Return the verifiers' decision as an opinion."""
    return Opinion(go=found.go, confidence=1.0 - found.wrong, why=found.evidence())


def screen_with_reviews(
    config: SearchConfig, opened: Search, reviews: Mapping[str, str]
) -> Callable[[Candidate], Opinion]:
    """Return a dialogue's verifiers, with reviews from files."""
    # By the tokens of the kernel, since the candidate has no slot.
    slots = {normal_key(one.candidate): one.proposal.slot.name for one in opened.ledger.load_waiting()}

    def screen(candidate: Candidate) -> Opinion:
        slot = slots.get(normal_key(candidate), "")
        roles = tuple(role for role in ReviewerRole if f"{slot}.{role}" in reviews)

        def ask(_prompts: object) -> list[ModelAnswer | ModelError]:
            return [ModelAnswer(text=reviews[f"{slot}.{role}"], model="reviewer", usd=0.0) for role in roles]

        return _opinion(run_verifiers(candidate, config, Verifiers(virtual=False, roles=roles, ask=ask)))

    return screen
