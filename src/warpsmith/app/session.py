"""A search with archive, run, models, evaluator and verifiers."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from warpsmith import __version__, evaluation, llm, search
from warpsmith.app.evaluators import choose_evaluator
from warpsmith.app.jobs import Watch
from warpsmith.app.kernels import first_candidate
from warpsmith.app.runs import is_known, lock_new_run, lock_run
from warpsmith.app.verifying import evaluation_config, evaluation_seed, is_here, make_screen, read_roles
from warpsmith.archive import Archive
from warpsmith.base import UsageError, digest
from warpsmith.evaluation import AUTO, DEVICES, PreparedEvaluation, is_measured
from warpsmith.evaluation.processes import Grade
from warpsmith.languages.nvcc import Toolchain
from warpsmith.llm import Ensemble, Transcript
from warpsmith.machines import hardware
from warpsmith.machines.virtual import describe
from warpsmith.records import ANSWERS, Candidate, Effort, Record, Run, RunState, Task, Verdict
from warpsmith.search import SAVED, PromptContext, Search, SearchConfig, SearchTask, SearchTools
from warpsmith.tasks.formats import find
from warpsmith.tasks.host import OpenOptions, open_task

START = "start"  # the note that holds the first kernel of a run
FINAL = "final"  # the tag of a final evaluation
ANONYMOUS = "somebody"  # the name of who answers, unless one is given
BOTH = "--record and --replay exclude each other: a replay makes no traffic to record."


@dataclass
class Session:
    """A search that is ready to run."""

    archive: Archive
    run: Run
    config: SearchConfig
    task: Task
    search: Search

    def evaluate_fully(self, candidate: Candidate) -> Record:
        """Return the record of a final evaluation, with a secret seed."""
        with ExitStack() as until:
            grade = choose_evaluator(self.config.pool)(evaluation_config(self.config, "thorough"), 1, until)
            return make_evaluator(self.config, "thorough", None, grade)(candidate)


def open_session(archive: Archive, config: SearchConfig, watch: Watch, until: ExitStack) -> Session:
    """Open a new or a resumed run that asks models itself, locked until the stack closes."""
    Toolchain.find()  # without a compiler nothing can be evaluated, so no run is begun
    # Locked before anything is read: another process could still change the run.
    if config.resume and config.run:
        lock_run(archive, archive.run(config.run).name, "optimize", until)
    full = resumed_config(archive, config) if config.resume else config
    full = full.replace(target=task_label(full.target), device=evaluation.settle_device(full.device))
    task = _describe_task(full)
    # Costs of the earlier processes count against the budget.
    models = open_models(full, sum(call.usd for call in archive.spent(full.run)) if full.resume else 0.0)
    roles = read_roles(full.reviewers)
    if not full.resume:
        # A new run is locked before it is saved, so that no other process resumes it.
        full = full.replace(run=lock_new_run(archive, full.run, f"{task.name}-{full.direction}", until))
    run = archive.run(full.run) if full.resume else _begin(archive, full, task, models)
    jobs = full.jobs or os.cpu_count() or 1
    grade = choose_evaluator(full.pool)(evaluation_config(full, "sketch"), jobs, until)
    prepared: dict[str, PreparedEvaluation] = {}
    tools = SearchTools(
        evaluate=make_evaluator(full, "sketch", run.seed, grade, prepared),
        models=models,
        screen=make_screen(full, models, roles, run.seed, prepared),
        watch=watch,
        jobs=jobs,
        # Lessons of other runs differ between machines and days; a recorded run must ask the same questions again.
        lessons=full.record is None and full.replay is None,
    )
    opened = Search(archive, run, search_task(archive, run, full, task), full, tools)
    # Prompts of a dialogue may lie with people, so models must not fill the same slots.
    if run.waits:
        _check_nothing_open(opened, run)
    return _drop_refuted(Session(archive, run, full, task, opened))


def open_dialogue(archive: Archive, config: SearchConfig, command: str, until: ExitStack) -> Session:
    """Open a run that is answered through files; a named task begins one."""
    if not config.target and not is_known(archive, config.run):
        raise UsageError(
            f"Run {config.run} does not exist. --task TASK begins it; warpsmith runs lists the runs of the archive."
        )
    lock_run(archive, config.run, command, until)
    known = is_known(archive, config.run)
    if known:
        # A known run goes on with its saved options.
        full = resumed_config(archive, config.replace(resume=True))
    else:
        full = config.replace(target=task_label(config.target), device=_named_device(config), who=_find_name(config))
    check_place(full, bool(full.elsewhere))
    if is_here(full) and not known:
        Toolchain.find()
    who, task = full.who or ANONYMOUS, _describe_task(full)
    models = Ensemble([search.ExternalModel(who)])
    run = archive.run(full.run) if known else _begin(archive, full, task, models)
    # `--here` and its opposite change the place of evaluation for the rest of the run.
    if str(full.elsewhere) != run.settings.get("elsewhere", "None"):
        run = archive.set(run.name, "elsewhere", str(full.elsewhere))
    # Who answers decides when to stop, so no limit holds, and every slot of a generation is a question.
    unlimited = {name: SearchConfig.model_fields[name].default for name in LIMITS}
    asked = full.replace(models=who, drafts=full.proposals, tuner_share=0.0, **unlimited)
    tools = SearchTools(_refuse_proposal, models, summaries=False, lessons=False)
    opened = Search(archive, run, search_task(archive, run, full, task), asked, tools)
    return _drop_refuted(Session(archive, run, full, task, opened))


LIMITS = (
    "generations",
    "patience",
    "budget_usd",
    "budget_minutes",
    "budget_evaluations",
    "goal",
    "roofline",
)


def _check_nothing_open(opened: Search, run: Run) -> None:
    """Raise UsageError if prompts were written for people: models must not answer them."""
    if left := search.open_slots(opened):
        raise UsageError(
            f"Run {run.name} waits for {run.why or ANSWERS}: {', '.join(left)}. {run.go_on} and `warpsmith tell "
            f"{run.name}` go on with it; `warpsmith tell {run.name} --drop` gives up what nobody answered."
        )


def dialogue_evaluator(session: Session, jobs: int, until: ExitStack) -> Callable[[Candidate], Record]:
    """Return the evaluator of answers, `jobs` at a time; processes of its own if several share a GPU."""
    grade = choose_evaluator(session.config.pool)(evaluation_config(session.config, "sketch"), jobs, until)
    return make_evaluator(session.config, "sketch", session.run.seed, grade)


def check_place(config: SearchConfig, is_elsewhere: bool) -> None:
    """Raise UsageError if a recorded run is to be evaluated elsewhere: only this machine repeats its seeds."""
    if is_elsewhere and (config.record or config.replay):
        raise UsageError(f"Run {config.run} is recorded or replayed, so its kernels are evaluated here.")


def wait_for(session: Session, why: str) -> None:
    """Save what a dialogue waits for."""
    session.archive.finish(session.run.name, RunState.WAITING, why)


def _find_name(config: SearchConfig) -> str:
    """Return the name of who answers: the given one, else the one in the recording."""
    if config.record is not None and config.replay is not None:
        raise UsageError(BOTH)
    voices = Transcript(config.replay).voices if config.replay is not None else ()
    return config.who or next((voice.name for voice in voices), ANONYMOUS)


def _named_device(config: SearchConfig) -> str:
    """Return the device of a run; a named GPU may be on another machine, so its absence is no error."""
    is_named = config.device in DEVICES and config.device != AUTO
    return config.device if is_named else evaluation.settle_device(config.device)


def _refuse_proposal(candidate: Candidate) -> Record:
    raise UsageError("This run evaluates what it is told, not what it proposes.")


def _drop_refuted(session: Session) -> Session:
    """Drop the kernels that an earlier final evaluation refuted."""
    for entry in session.archive.records(session.run.name):
        if entry.tags.proposal == FINAL and entry.record.concluded is not Verdict.PASS and not entry.record.blameless:
            session.search.state.population.drop(entry.candidate)
    return session


def _describe_task(config: SearchConfig) -> Task:
    """Describe the task. Raise UsageError without the direction."""
    with open_task(config.target, OpenOptions(trust=config.trust)) as opened:
        task = opened.describe()
    # Raises before anything is saved.
    task.signature(config.direction)
    return task


def _begin(archive: Archive, config: SearchConfig, task: Task, models: Ensemble) -> Run:
    """Save a new run with its first kernel. Raise UsageError before anything is saved."""
    describe(config.gpu)
    first = first_candidate(config.target, config.direction, config.start)
    if first is None and not models:
        raise UsageError(_no_first_kernel(config, task))
    run = Run(
        name=config.run,
        target=config.target,
        task=task.name,
        direction=config.direction,
        device=config.device,
        settings=config.settings(),
        # A fixed seed per task and direction: runs of the same search differ only where a user asks for it.
        seed=int(digest(task.name, config.direction), 16) % 2**31 if config.seed is None else config.seed,
        state=RunState.WAITING if config.who else RunState.RUNNING,
        command=config.command(),
        package=__version__,
    )
    # The run and its first kernel together: a resumed run must find both.
    with archive.transaction():
        archive.start(run)
        if first is not None:
            archive.note(run.name, START, first.model_dump(mode="json"), name=START)
    return run


def _no_first_kernel(config: SearchConfig, task: Task) -> str:
    """Return the message for a task without a seed kernel, when no model is named."""
    keys = ", ".join(llm.key_variables())
    return (
        f"Task {task.name} has no seed kernel for {config.direction}, and no model is named to write one. Name one "
        f"with --models (keys are read from {keys}), give a kernel with --from KERNEL, or write it yourself: "
        f"`warpsmith ask RUN --task {config.target}` writes the prompt and `warpsmith tell` takes the answer."
    )


def open_models(config: SearchConfig, spent_usd: float = 0.0) -> Ensemble:
    """Return the models of a run: of a recording, the named ones, or none; recorded if asked for."""
    if config.replay is not None:
        if config.record is not None:
            raise UsageError(BOTH)
        return Ensemble.replay_from(config.replay)
    if not config.models:
        return Ensemble()
    # Spend begins with the costs so far.
    opened = llm.open_ensemble(config.models, llm.Spend(config.budget_usd, spent_usd))
    return opened.record_to(config.record) if config.record is not None else opened


def search_task(archive: Archive, run: Run, config: SearchConfig, task: Task) -> SearchTask:
    """Return the task of a search with its first kernel and the ideas that suit the GPU."""
    notes = archive.notes(run.name, START)
    first = Candidate.model_validate(notes[0].body) if notes else None
    context = PromptContext(task, config.direction, search.describe_gpu(config.device, config.gpu))
    ideas = search.applicable_ideas(_capability(config), task, config.direction)
    return SearchTask(run.target, context, first, ideas, run.seed)


def _capability(config: SearchConfig) -> float:
    """Return the compute capability of the GPU here, or of the modelled one."""
    here = hardware.gpus() if is_measured(config.device) else ()
    major, minor = describe(config.gpu).capability
    return float(here[0].capability) if here else float(f"{major}.{minor}")


def make_evaluator(
    config: SearchConfig,
    effort: Effort,
    seed: int | None,
    grade: Grade | None = None,
    prepared: dict[str, PreparedEvaluation] | None = None,
) -> Callable[[Candidate], Record]:
    """Return the evaluator of a search.

    Evaluations in `prepared`, by candidate, are resumed. The seed of an evaluation is secret, except that a recorded
    or replayed run repeats its seeds.
    """
    asked = evaluation_config(config, effort)

    def evaluate(candidate: Candidate) -> Record:
        run, drawn = grade or evaluation.grade, evaluation_seed(config, seed, candidate)
        # Taken out, so that a prepared evaluation is resumed at most once.
        if prepared and (begun := prepared.pop(candidate.id, None)):
            return run(candidate, asked, drawn, prepared=begun)
        return run(candidate, asked, drawn)

    return evaluate


def task_label(target: str) -> str:
    """Return a task name valid in every folder."""
    return find(target).label


def resumed_config(archive: Archive, config: SearchConfig) -> SearchConfig:
    """Return the saved configuration of a run, with the options that are given now."""
    if not config.run:
        raise UsageError("Name the run to resume: --run NAME --resume. warpsmith runs lists them.")
    if config.start is not None:
        raise UsageError(f"Run {config.run} has begun with a kernel of its own; --from starts a new run only.")
    run = archive.run(config.run)
    if config.target and task_label(config.target) != run.target:
        raise UsageError(f"Run {run.name} is of task {run.target}, not {config.target}.")
    # Old runs may hold options that this version no longer has.
    saved = {name: text for name, text in run.settings.items() if name in SAVED}
    given = {name: getattr(config, name) for name in config.model_fields_set}
    # Task, direction, seed and device identify the run, and never change.
    fixed = {"target": run.target, "direction": run.direction, "seed": run.seed, "device": run.device}
    return SearchConfig.model_validate({**saved, **given, **fixed})
