"""The wiring of a search: archive, models, evaluator, verifiers, the kernel to start from. Prints nothing."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from warpsmith import __version__
from warpsmith.app.running import hold, hold_new, is_known
from warpsmith.app.wishes import Wishes, command_of, placed, resumed
from warpsmith.base import UsageError, digest
from warpsmith.records import ANSWERS, Candidate, Effort, Record, Run, RunState, Task, Verdict

if TYPE_CHECKING:
    from warpsmith.archive import Archive
    from warpsmith.evaluation import EvaluationConfig, PreparedEvaluation
    from warpsmith.evaluation.processes import Grade
    from warpsmith.evaluation.verify import ReviewerRole, Verified, Verifiers
    from warpsmith.llm import Ensemble, ModelAnswer, Outcome, Prompt
    from warpsmith.search import Aim, Opinion, PromptContext, RunView, Search
    from warpsmith.search.selection import RankedKernel

START = "start"  # the kernel that a run began with, kept with it
FINAL = "final"  # the evaluation of the winner
SOMEBODY = "somebody"  # who answers, when no name is given
BOTH = "--record and --replay exclude each other: a replay makes no traffic to record."
FINALISTS = 3  # of the best kernels, how many are evaluated at length until one passes


@dataclass
class Session:
    """A search that is ready to go."""

    archive: "Archive"
    run: Run
    wishes: Wishes
    task: Task
    search: "Search"
    final: Callable[[Candidate], Record]


@dataclass(frozen=True)
class Finish:
    """The record of the winner, and of better kernels why nobody knows whether they hold."""

    winner: Record | None = None
    unsettled: tuple[str, ...] = ()
    refuted: tuple[str, ...] = ()  # of better kernels what was wrong with them


def open_session(archive: "Archive", wishes: Wishes, watch: "Callable[[RunView], None]", until: ExitStack) -> Session:
    """A new run, or the one that is to be resumed, with everything it needs until the stack closes."""
    from warpsmith.evaluation import settle_device
    from warpsmith.evaluation.processes import judges_for
    from warpsmith.languages.nvcc import Toolchain
    from warpsmith.search import Search, Tools

    Toolchain.find()  # nothing can be evaluated without one, and a run that cannot begin is not begun
    if wishes.resume and wishes.run:
        hold(archive, archive.run(wishes.run).name, "optimize", until)
    full = resumed(archive, wishes) if wishes.resume else wishes
    full = full.model_copy(update={"target": placed(full.target), "device": settle_device(full.device)})
    task = _task(full)
    models = models_of(full, _spent(archive, full) if full.resume else 0.0)
    roles = reviewer_roles(full)
    if not full.resume:
        full = full.model_copy(update={"run": hold_new(archive, full.run, f"{task.name}-{full.direction}", until)})
    run = archive.run(full.run) if full.resume else _begun(archive, full, task, models)
    one = aim(archive, run, full, task)
    jobs = full.jobs or os.cpu_count() or 1
    by = judges_for(choices_of(full, "sketch"), jobs, until)
    screened: dict[str, PreparedEvaluation] = {}
    tools = Tools(
        evaluate=evaluator(full, "sketch", run.seed, by, screened),
        models=models,
        screen=screen_of(full, models, roles, run.seed, screened),
        watch=watch,
        jobs=jobs,
        lessons=full.record is None and full.replay is None,
    )
    search = Search(archive, run, one, tools)
    if run.waits:
        _check_asked(search, run)
    return _drop_refuted(Session(archive, run, full, task, search, evaluator(full, "thorough", None)))


def _check_asked(search: "Search", run: Run) -> None:
    """Questions that somebody was asked are no model's to answer."""
    from warpsmith.search import open_slots

    if left := open_slots(search):
        raise UsageError(
            f"Run {run.name} waits for {run.why or ANSWERS}: {', '.join(left)}. {run.go_on} and `warpsmith tell "
            f"{run.name}` go on with it; `warpsmith tell {run.name} --drop` gives up what nobody answered."
        )


def open_dialogue(archive: "Archive", wishes: Wishes, command: str, until: ExitStack) -> Session:
    """A run that is answered through files, ours until the stack closes: begun when its task is named, else there."""
    from warpsmith.languages.nvcc import Toolchain
    from warpsmith.llm import Ensemble
    from warpsmith.search import Limits, Search, Somebody, Tools

    if not wishes.target and not is_known(archive, wishes.run):
        raise UsageError(
            f"Run {wishes.run} does not exist. --task TASK begins it; warpsmith runs lists those that are."
        )
    hold(archive, wishes.run, command, until)
    known = is_known(archive, wishes.run)
    if known:
        full = resumed(archive, wishes.model_copy(update={"resume": True}))
    else:
        begun = {"target": placed(wishes.target), "device": _wanted(wishes), "who": _who(wishes)}
        full = wishes.model_copy(update=begun)
    check_here(full, bool(full.elsewhere))
    if is_here(full) and not known:
        Toolchain.find()
    who = full.who or SOMEBODY
    task = _task(full)
    models = Ensemble([Somebody(who)])
    run = archive.run(full.run) if known else _begun(archive, full, task, models)
    if str(full.elsewhere) != run.settings.get("elsewhere", "None"):
        run = archive.set(run.name, "elsewhere", str(full.elsewhere))
    one = aim(archive, run, full.model_copy(update={"models": who}), task)
    one = replace(one, shape=replace(one.shape, drafts=one.shape.proposals, tuned=0.0), limits=Limits())
    search = Search(archive, run, one, Tools(_unwanted, models, summaries=False, lessons=False))
    return _drop_refuted(Session(archive, run, full, task, search, evaluator(full, "thorough", None)))


def evaluator_here(session: Session, jobs: int, until: ExitStack) -> Callable[[Candidate], Record]:
    """Who evaluates what a dialogue is told, `jobs` at a time: processes of their own where they share a GPU."""
    from warpsmith.evaluation.processes import judges_for

    by = judges_for(choices_of(session.wishes, "sketch"), jobs, until)
    return evaluator(session.wishes, "sketch", session.run.seed, by)


def check_here(wishes: Wishes, elsewhere: bool) -> None:
    """A recorded run draws its seeds from its own, which another machine does not do."""
    if elsewhere and (wishes.record or wishes.replay):
        raise UsageError(f"Run {wishes.run} is recorded or replayed, so its kernels are evaluated here.")


def is_here(wishes: Wishes) -> bool:
    """Whether kernels of a dialogue are evaluated on this machine: nobody said otherwise, and its GPU is here."""
    from warpsmith.machines.hardware import gpus

    return not wishes.elsewhere and (wishes.device != "cuda" or bool(gpus()))


def wait_for(session: Session, why: str) -> None:
    """Say in the archive what a dialogue waits for."""
    session.archive.finish(session.run.name, RunState.WAITING, why)


def _who(wishes: Wishes) -> str:
    """Whoever answers a new run: who is named, else who answered when it was recorded."""
    from warpsmith.llm import Transcript

    if wishes.record is not None and wishes.replay is not None:
        raise UsageError(BOTH)
    voices = Transcript(wishes.replay).voices if wishes.replay is not None else ()
    return wishes.who or next((voice.name for voice in voices), SOMEBODY)


def _wanted(wishes: Wishes) -> str:
    """The device of a run whose kernels may be evaluated elsewhere: what is named is believed."""
    from warpsmith.evaluation import settle_device

    return wishes.device if wishes.device in ("cuda", "vgpu") else settle_device(wishes.device)


def _unwanted(candidate: Candidate) -> Record:
    raise UsageError("This run evaluates what it is told, not what it proposes.")


def finish(session: Session) -> Finish:
    """Evaluate the best kernel fully, with a secret seed; the next best where one does not hold, which is dropped."""
    unsettled, refuted = list[str](), list[str]()
    population = session.search.state.population
    for member in population.ranked()[:FINALISTS]:
        record = _known_final(session, member.id) or _final(session, member)
        if record.blameless:  # a GPU is seldom disturbed twice
            record = _final(session, member)
        if record.concluded is Verdict.PASS:
            return Finish(record, tuple(unsettled), tuple(refuted))
        if record.ended is not None:
            said = f"{member.name}, {member.gain:.2f}× the first kernel: {record.ended.detail}"
            (unsettled if record.blameless else refuted).append(said)
        if not record.blameless:
            population.drop(member.id)
    return Finish(None, tuple(unsettled), tuple(refuted))


def _drop_refuted(session: Session) -> Session:
    """Drop the kernels that an earlier full evaluation found wrong."""
    for entry in session.archive.records(session.run.name):
        if entry.tags.proposal == FINAL and entry.record.concluded is not Verdict.PASS and not entry.record.blameless:
            session.search.state.population.drop(entry.candidate)
    return session


def _final(session: Session, member: "RankedKernel") -> Record:
    record = session.final(member.record.candidate.model_copy(update={"task": session.run.target}))
    session.archive.add(
        session.run.name, record, generation=member.generation, proposal=FINAL, operator=FINAL, cell=member.cell
    )
    return record


def finals(session: Session) -> int:
    """How many evaluations at length the run has."""
    return sum(entry.tags.proposal == FINAL for entry in session.archive.records(session.run.name))


def _known_final(session: Session, candidate: str) -> Record | None:
    """The final evaluation that an earlier process made; one that the kernel is not to blame for is made again."""
    entries = session.archive.records(session.run.name, candidate=candidate)
    finals = (entry.record for entry in entries if entry.tags.proposal == FINAL)
    return next((record for record in finals if not record.blameless), None)


def _task(wishes: Wishes) -> Task:
    from warpsmith.tasks.host import OpenOptions, open_task

    with open_task(wishes.target, OpenOptions(trust=wishes.trust)) as opened:
        task = opened.describe()
    task.signature(wishes.direction)  # one that the task lacks is refused
    return task


def _begun(archive: "Archive", wishes: Wishes, task: Task, models: "Ensemble") -> Run:
    """The new run in the archive, with the kernel that it starts from."""
    from warpsmith.machines.virtual import describe
    from warpsmith.search import first_candidate

    describe(wishes.gpu)  # one that nobody knows is refused before there is a run of it
    first = first_candidate(wishes.target, wishes.direction, wishes.start)
    if first is None and not models:
        raise UsageError(no_start(wishes, task))
    run = Run(
        name=wishes.run,
        target=wishes.target,
        task=task.name,
        direction=wishes.direction,
        device=wishes.device,
        settings=wishes.settings(),
        seed=int(digest(task.name, wishes.direction), 16) % 2**31 if wishes.seed is None else wishes.seed,
        state=RunState.WAITING if wishes.who else RunState.RUNNING,
        command=command_of(wishes),
        package=__version__,
    )
    with archive.transaction():
        archive.start(run)
        if first is not None:
            archive.note(run.name, START, first.model_dump(mode="json"), name=START)
    return run


def no_start(wishes: Wishes, task: Task) -> str:
    """What helps when there is neither a seed nor a model."""
    from warpsmith.llm import key_variables

    keys = ", ".join(key_variables())
    return (
        f"Task {task.name} has no seed kernel for {wishes.direction}, and no model is named to write one. Name one "
        f"with --models (keys are read from {keys}), give a kernel with --from KERNEL, or write it yourself: "
        f"`warpsmith ask RUN --task {wishes.target}` writes the prompt and `warpsmith tell` takes the answer."
    )


def models_of(wishes: Wishes, spent_usd: float = 0.0) -> "Ensemble":
    """The models of a run: a replay's, those that are named, or none; recorded where that was asked."""
    from warpsmith.llm import Ensemble, Spend, open_ensemble

    if wishes.replay is not None:
        if wishes.record is not None:
            raise UsageError(BOTH)
        return Ensemble.replay_from(wishes.replay)
    if not wishes.models:
        return Ensemble()
    opened = open_ensemble(wishes.models, Spend(wishes.budget_usd, spent_usd))
    return opened.record_to(wishes.record) if wishes.record is not None else opened


def _spent(archive: "Archive", wishes: Wishes) -> float:
    return sum(call.usd for call in archive.spent(wishes.run))


def aim(archive: "Archive", run: Run, wishes: Wishes, task: Task) -> "Aim":
    """What is searched, with its sizes and its stops."""
    from warpsmith.search import Aim, Limits, Shape
    from warpsmith.search.proposals import applicable

    notes = archive.notes(run.name, START)
    shape = Shape(
        proposals=wishes.proposals,
        evaluate=wishes.evaluate,
        drafts=wishes.drafts,
        attempts=wishes.attempts,
        ideas=applicable(_capability(wishes), task, wishes.direction),
    )
    limits = Limits(
        generations=wishes.generations,
        evaluations=wishes.budget_evaluations,
        usd=wishes.budget_usd,
        minutes=wishes.budget_minutes,
        target=wishes.goal,
        roofline=wishes.roofline,
        patience=wishes.patience,
    )
    start = Candidate.model_validate(notes[0].body) if notes else None
    return Aim(run.target, subject_of(wishes, task), start, shape, limits, run.seed)


def subject_of(wishes: Wishes, task: Task) -> "PromptContext":
    """The task, the direction and the GPU, for prompts."""
    from warpsmith.search import PromptContext
    from warpsmith.search.proposals import gpu_words

    return PromptContext(task, wishes.direction, gpu_words(wishes.device, wishes.gpu))


def _capability(wishes: Wishes) -> float:
    from warpsmith.machines.hardware import gpus
    from warpsmith.machines.virtual import describe

    here = gpus() if wishes.device == "cuda" else ()
    major, minor = describe(wishes.gpu).capability
    return float(here[0].capability) if here else float(f"{major}.{minor}")


def choices_of(wishes: Wishes, effort: "Effort") -> "EvaluationConfig":
    """The evaluation of a search: a sketch on the virtual GPU, the search tier on a real one; the winner's is whole."""
    from warpsmith.evaluation import EvaluationConfig

    return EvaluationConfig(device=wishes.device, gpu=wishes.gpu, trust=wishes.trust, effort=effort)


def evaluator(
    wishes: Wishes,
    effort: "Effort",
    seed: int | None,
    by: "Grade | None" = None,
    screened: "dict[str, PreparedEvaluation] | None" = None,
) -> Callable[[Candidate], Record]:
    """From a candidate to its record. The seed of a grading is secret, but a recorded run must ask the same again.

    It is drawn from the kernel and not from where its task lies, so that a recording holds on another machine.
    """
    from warpsmith.evaluation import grade

    choices, judge = choices_of(wishes, effort), by or grade

    def evaluate(candidate: Candidate) -> Record:
        drawn = seed_for(wishes, seed, candidate)
        if screened and (prepared := screened.pop(candidate.id, None)):
            return judge(candidate, choices, drawn, prepared=prepared)
        return judge(candidate, choices, drawn)

    return evaluate


def seed_for(wishes: Wishes, seed: int | None, candidate: Candidate) -> int | None:
    """Return the seed of a candidate's evaluation in a recorded or replayed run; None where it is drawn in secret."""
    if seed is None or (wishes.record is None and wishes.replay is None):
        return None
    kernel = candidate.model_copy(update={"task": ""}).id
    return int(digest(str(seed), kernel), 16) % 2**62


def screen_of(
    wishes: Wishes,
    models: "Ensemble",
    roles: "tuple[ReviewerRole, ...]",
    seed: int | None,
    screened: "dict[str, PreparedEvaluation]",
) -> "Callable[[Candidate], Opinion] | None":
    """Return the verifiers before a GPU; without reviewers, the evaluation on the virtual GPU does the same.

    What they have begun is kept in `screened`, so that the evaluator resumes it: no stage runs twice.
    """
    if not models or not (roles or wishes.device == "cuda"):
        return None

    def screen(candidate: Candidate) -> "Opinion":
        opinion, found = _verified(candidate, wishes, models, roles, seed_for(wishes, seed, candidate))
        if found.go and found.prepared is not None:
            screened[candidate.id] = found.prepared
        return opinion

    return screen


def reviewer_roles(wishes: Wishes) -> "tuple[ReviewerRole, ...]":
    """Return the reviewers that are asked for. Raise UsageError for an unknown name."""
    from warpsmith.evaluation.verify import ReviewerRole

    return tuple(_role(name, ReviewerRole) for name in wishes.reviewers.split(",") if name.strip())


def _role(name: str, roles: "type[ReviewerRole]") -> "ReviewerRole":
    known = [role.value for role in roles]
    if name.strip() not in known:
        raise UsageError(f"Reviewer {name.strip()} does not exist; there are {', '.join(known)}.")
    return roles(name.strip())


def _verified(
    candidate: Candidate, wishes: Wishes, models: "Ensemble", roles: "tuple[ReviewerRole, ...]", seed: int | None
) -> "tuple[Opinion, Verified]":
    """Static signs and the compiler; the virtual GPU where a real one comes after; the reviewers asked for."""
    from warpsmith.evaluation.verify import Verifiers
    from warpsmith.llm import ModelAnswer, ask_all

    first, paid = next(iter(models)), list[ModelAnswer]()

    def ask(prompts: "Sequence[Prompt]") -> "list[Outcome]":
        found = ask_all([(first, prompt) for prompt in prompts])
        paid.extend(_paid(one, first.name) for one in found if isinstance(one, ModelAnswer) or one.usd)
        return found

    found = verified(candidate, wishes, Verifiers(virtual=wishes.device == "cuda", roles=roles, ask=ask), seed)
    return opinion_of(found).model_copy(update={"answers": tuple(paid)}), found


def _paid(found: "Outcome", model: str) -> "ModelAnswer":
    """What a reviewer was paid for: what it said, or nothing."""
    from warpsmith.llm import ModelAnswer

    return found if isinstance(found, ModelAnswer) else ModelAnswer(text="", model=model, usd=found.usd)


def verified(candidate: Candidate, wishes: Wishes, verifiers: "Verifiers", seed: int | None = None) -> "Verified":
    """Return what verifiers say of a candidate, for the machine that evaluates it afterwards."""
    from warpsmith.evaluation.verify import verify
    from warpsmith.machines.virtual import VirtualMachine
    from warpsmith.tasks.host import OpenOptions, open_task

    machine = None if is_here(wishes) else VirtualMachine.of(wishes.gpu)
    aimed = replace(verifiers, config=choices_of(wishes, "sketch"), machine=machine)
    with open_task(wishes.target, OpenOptions(trust=wishes.trust)) as opened:
        return verify(candidate, opened, seed, aimed)


def opinion_of(found: "Verified") -> "Opinion":
    """Return a verdict of verifiers as the search reads it."""
    from warpsmith.search import Opinion

    return Opinion(go=found.go, confidence=1.0 - found.wrong, why=found.evidence())
