"""The stages of one evaluation, from a candidate to its record."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from warpsmith.base import DeviceMemoryError, HarnessError, UsageError
from warpsmith.evaluation.config import EvaluationConfig, machine_for, settle_device
from warpsmith.evaluation.environment import environment
from warpsmith.evaluation.stages import STAGES, Artifact, Evaluation, LaunchCount, Products, Stage
from warpsmith.languages import find_language, language_of
from warpsmith.machines import Machine
from warpsmith.machines.hardware import Need
from warpsmith.machines.virtual import describe
from warpsmith.records import Candidate, Direction, EvaluationOptions, Model, Reason, Record, StageResult, Verdict
from warpsmith.tasks.host import OpenOptions, OpenTask, open_task

SEED_BITS = 62
OUT_OF_MEMORY = "out of memory"

OpenTaskBy = Callable[[str, OpenOptions], AbstractContextManager[OpenTask]]


def evaluate(
    task: str,
    source: str,
    direction: Direction | str = Direction.FORWARD,
    language: str | None = None,
    macros: Mapping[str, str] | None = None,
    config: EvaluationConfig | None = None,
    **options: Any,
) -> Record:
    """Return the record of one kernel text."""
    # Options are fields of `EvaluationConfig`, such as effort="thorough"; they replace those of `config`.
    given = "" if language is None and not isinstance(source, str) else language or language_of(source)
    candidate = Candidate.from_fields(
        task=task, direction=direction, source=source, language=given, macros={} if macros is None else macros
    )
    return grade(candidate, (config or EvaluationConfig()).replace(**options))


def grade(
    candidate: Candidate,
    config: EvaluationConfig,
    seed: int | None = None,
    machine: Machine | None = None,
    *,
    prepared: "PreparedEvaluation | None" = None,
    open_task: OpenTaskBy = open_task,
) -> Record:
    """Return the record of one candidate."""
    # The seed is secret unless given; the machine follows from the config unless given. A prepared
    # evaluation is resumed instead of begun.
    if prepared is not None:
        return resume(prepared, machine, open_task)
    with opened_evaluation(candidate, config, seed, machine, open_task) as evaluation:
        return run(evaluation, stages_for(evaluation.config))


class PreparedEvaluation(Model):
    """An evaluation after its first stages."""

    # It crosses a pipe to another process as JSON, so it holds the artifact's path and no open object.

    target: str
    config: EvaluationConfig
    seed: int
    record: Record
    artifact: str
    launches: int | None = None  # of a call, where the virtual GPU has counted them
    uuid: str = ""  # of the GPU that is to be used; empty: the first one

    @classmethod
    def of(cls, evaluation: Evaluation, record: Record, products: Products) -> "PreparedEvaluation":
        """Return an evaluation in the form for another process."""
        artifact, counted = products.get(Artifact), products.get(LaunchCount)
        return cls(
            target=evaluation.target,
            config=evaluation.config,
            seed=evaluation.seed,
            record=record,
            artifact=str(artifact.path) if artifact else "",
            launches=counted.launches if counted else None,
        )

    def products(self) -> Products:
        """Return the products of the stages that ran."""
        found = Products()
        found.add([Artifact(Path(self.artifact))] if self.artifact else [])
        found.add([LaunchCount(self.launches)] if self.launches is not None else [])
        return found

    @property
    def remaining_stages(self) -> tuple[Stage, ...]:
        """The stages still to run, none after a failure."""
        return () if self.record.ended else stages_for(self.config)[len(self.record.results) :]

    def failed(self, error: Exception) -> Record:
        """Return the record with a fault, if no process could resume."""
        return self.record.with_result(_fault(self.remaining_stages[0].name, error, time.perf_counter()))


def prepare(
    candidate: Candidate, config: EvaluationConfig, seed: int | None = None, machine: Machine | None = None
) -> PreparedEvaluation:
    """Run the stages that need neither torch nor a GPU."""
    with opened_evaluation(candidate, config, seed, machine) as evaluation:
        products = Products()
        record = run(evaluation, [stage for stage in stages_for(evaluation.config) if stage.early], products)
        return PreparedEvaluation.of(evaluation, record, products)


def resume(prepared: PreparedEvaluation, machine: Machine | None = None, open_task: OpenTaskBy = open_task) -> Record:
    """Run the remaining stages; raise HarnessError if the task changed."""
    config, record = prepared.config, prepared.record
    with open_task(prepared.target, OpenOptions(trust=config.trust)) as opened:
        task = opened.describe()
        if task.version != record.task_version:
            raise HarnessError(f"Task {task.name} was changed while a kernel for it was compiled.")
        where = machine or machine_for(config, prepared.uuid)
        if where.uuid != record.environment.uuid:  # prepared for another card of the same model
            record = record.model_copy(update={"environment": environment(where)})
        evaluation = Evaluation(prepared.target, opened, task, record.candidate, config, where, prepared.seed, record)
        return run(evaluation, prepared.remaining_stages, prepared.products())


@contextmanager
def opened_evaluation(
    candidate: Candidate,
    config: EvaluationConfig,
    seed: int | None = None,
    machine: Machine | None = None,
    open_task: OpenTaskBy = open_task,
) -> Iterator[Evaluation]:
    """Open the candidate's task; yield its evaluation."""
    chosen = checked(config) if machine is None else config.replace(device=machine.kind)
    with open_task(candidate.task, OpenOptions(trust=config.trust)) as opened:
        yield begin_evaluation(candidate, opened, chosen, machine or machine_for(chosen), seed)


def begin_evaluation(
    candidate: Candidate, opened: OpenTask, config: EvaluationConfig, machine: Machine, seed: int | None = None
) -> Evaluation:
    """Return an evaluation on an open task, before any stage."""
    # The seed comes from the operating system: a kernel that could predict it would know all inputs of
    # the check.
    find_language(candidate.language)
    if seed is not None:
        EvaluationOptions.from_fields(seeds=(seed,))
    drawn = secrets.randbits(SEED_BITS) if seed is None else seed
    task = opened.describe()
    task.signature(candidate.direction)  # a direction that the task lacks is refused before anything is run
    record = Record(
        candidate=candidate.model_copy(update={"task": task.name}),
        task_version=task.version,
        environment=environment(machine),
        options=config.stored(drawn, is_given=seed is not None),
    )
    return Evaluation(candidate.task, opened, task, record.candidate, config, machine, drawn, record)


def checked(config: EvaluationConfig) -> EvaluationConfig:
    """Return the configuration with its device settled; raise if wrong."""
    # Called once for a batch: a wrong option ends the batch before the first candidate, not in each of
    # its records.
    chosen = config.replace(device=settle_device(config.device))
    describe(chosen.gpu)
    stages_for(chosen)
    return chosen


def stages_for(config: EvaluationConfig) -> tuple[Stage, ...]:
    """Return the requested stages; raise UsageError for an unknown one."""
    stages = STAGES[config.device]
    names = [stage.name for stage in stages]
    if config.until and config.until not in names:
        raise UsageError(f"Stage {config.until} does not exist on {config.device}; it has {', '.join(names)}.")
    end = names.index(config.until) + 1 if config.until else len(stages)
    return tuple(stage for stage in stages[:end] if stage.name not in config.without)


def run(evaluation: Evaluation, stages: Sequence[Stage], products: Products | None = None) -> Record:
    """Return the record with each stage's result."""
    # Without a sufficient form of confinement no stage runs at all, not even the compiler, which reads
    # untrusted source.
    if not (evaluation.record.environment.confined.at_floor or evaluation.config.trust):
        return evaluation.record.with_result(_unconfined(evaluation.record))
    known = Products() if products is None else products
    try:
        for need, group in groupby(stages, key=lambda stage: stage.gpu):
            evaluation = _run_under_one_lease(evaluation, known, need, list(group))
            if evaluation.record.ended:
                break
        if any(known.open()):  # started for a clock that never ran, and ended while no kernel is timed
            with evaluation.machine.lease(Need.SHARED):
                _close(known)
    finally:
        _close(known)  # at an interrupt without waiting for the GPU
    return evaluation.record


def _close(products: Products) -> None:
    """Release the processes and memory of all products."""
    for product in list(products.open()):
        product.close()


def _run_under_one_lease(evaluation: Evaluation, products: Products, need: Need, stages: Sequence[Stage]) -> Evaluation:
    """Run stages of equal GPU need under one lease."""
    # Giving the lease back in between would mean waiting for a turn of every other evaluation. `prepare`
    # waits for slow work before the lease, so that no GPU is held idle.
    started = time.perf_counter()
    try:
        if (prepare := stages[0].prepare) is not None:
            prepare(evaluation, *products.arguments(stages[0]))
        with evaluation.machine.lease(need):
            evaluation, left = _run_while_memory_lasts(evaluation, products, stages)
        if left:  # repeated when whoever holds the memory has ended, and while nobody else may begin
            _close(products)
            with evaluation.machine.lease(Need.ALONE):
                evaluation, left = _run_while_memory_lasts(evaluation, products, left)
        if left:
            evaluation = evaluation.with_result(_without_memory(left[0].name, started))
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - a fault of warpsmith, as below
        return evaluation.with_result(_fault(stages[0].name, error, started))
    return evaluation


def _run_while_memory_lasts(
    evaluation: Evaluation, products: Products, stages: Sequence[Stage]
) -> tuple[Evaluation, Sequence[Stage]]:
    """Run stages; return those left when GPU memory ran out."""
    # Neighbours may hold the memory. The caller repeats the remaining stages alone, so that a lack of
    # memory never becomes a failure of the candidate.
    for place, stage in enumerate(stages):
        try:
            evaluation = evaluation.with_result(_run_one(stage, evaluation, products))
        except DeviceMemoryError:
            return evaluation, stages[place:]
        if evaluation.record.ended:
            break
    return evaluation, ()


def _run_one(stage: Stage, evaluation: Evaluation, products: Products) -> StageResult:
    """Run one stage; return a fault for an exception, but raise UsageError and DeviceMemoryError."""
    # UsageError passes: the caller asked for an impossible thing, and a record would hide it.
    # DeviceMemoryError passes to the repetition under an exclusive lease.
    started = time.perf_counter()
    try:
        outcome = stage.run(evaluation, *products.arguments(stage))
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - a fault of warpsmith stays in this record; the next candidate goes on
        if stage.gpu is not Need.NONE and _lacks_device_memory(error):
            raise DeviceMemoryError(str(error)) from None
        return _fault(stage.name, error, started)
    products.add(outcome.products)
    return outcome.result


def _lacks_device_memory(error: Exception) -> bool:
    """Return whether an allocation of ours failed."""
    # torch raises several exception types for it, which have only their text in common.
    return isinstance(error, DeviceMemoryError) or OUT_OF_MEMORY in str(error).lower()


def _without_memory(stage: str, started: float) -> StageResult:
    """Return the quarantine for a GPU without free memory."""
    detail = "The GPU had no memory left for this evaluation, beside others and alone. End what else holds its memory."
    seconds = time.perf_counter() - started
    return StageResult(stage=stage, verdict=Verdict.QUARANTINE, reason=Reason.DISTURBED, detail=detail, seconds=seconds)


def _fault(stage: str, error: Exception, started: float) -> StageResult:
    """Return a fault with the exception's type and text."""
    detail, seconds = f"{type(error).__name__}: {error}", time.perf_counter() - started
    return StageResult(stage=stage, verdict=Verdict.FAULT, reason=Reason.HARNESS, detail=detail, seconds=seconds)


def _unconfined(record: Record) -> StageResult:
    """Return the fault for a machine without confinement."""
    missing = "; ".join(record.environment.confined.missing) or "nothing was achieved"
    detail = (
        f"This machine gives neither form of confinement that untrusted code needs ({missing}). "
        "`warpsmith doctor` names the command that changes this; --trust runs the kernel all the same."
    )
    return StageResult(stage="confine", verdict=Verdict.FAULT, reason=Reason.UNCONFINED, detail=detail)
