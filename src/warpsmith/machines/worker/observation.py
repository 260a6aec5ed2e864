"""The observation of one call; failures are values."""

from dataclasses import dataclass, field

from warpsmith.isolation import ChildOutcome as Ended, FrameError, FrameFault, Limit
from warpsmith.machines.virtual import ExecutorFailure, Facts
from warpsmith.machines.worker.protocol import Status, WorkerReply
from warpsmith.machines.worker.values import Raw
from warpsmith.records import Confined, Failure, Reason

EXECUTOR_GONE = 86  # the worker's exit code when its executor is gone; cudart/link.cpp
SHOWN = 4000  # characters of the candidate's output

# A status is a claim of the worker's process. None of them maps to a fault of ours, else a candidate
# could end its evaluation without a verdict.
STATUS_REASONS = {
    Status.BAD_REQUEST: Reason.BAD_ANSWER,  # a candidate can send it too, so it is not taken for our fault
    Status.NO_LOAD: Reason.NO_ENTRY,
    Status.OTHER_ABI: Reason.NO_ENTRY,
    Status.CUDA_ERROR: Reason.LAUNCH_ERROR,
    Status.BAD_RESULT: Reason.BAD_ANSWER,
    Status.THREW: Reason.CANDIDATE_ERROR,
    Status.NO_SUCH_ENTRY: Reason.NO_ENTRY,
    Status.BAD_ARGUMENTS: Reason.WRONG_SIGNATURE,
    Status.REFUSED: Reason.CANDIDATE_ERROR,
    Status.HEADER_CUDA_ERROR: Reason.LAUNCH_ERROR,
    Status.TOO_MANY_RESULTS: Reason.BAD_ANSWER,
}
# What the virtual GPU saw first explains whatever the candidate's host code made of it.
FAILURE_REASONS = {
    ExecutorFailure.UNKNOWN_CALL: Reason.UNKNOWN_CALL,
    ExecutorFailure.UNKNOWN_INSTRUCTION: Reason.UNKNOWN_INSTRUCTION,
    ExecutorFailure.BAD_MODULE: Reason.LAUNCH_ERROR,
    ExecutorFailure.BUDGET: Reason.INSTRUCTION_BUDGET,
    ExecutorFailure.TRAP: Reason.DEVICE_TRAP,
    ExecutorFailure.ASSERT: Reason.DEVICE_TRAP,
    ExecutorFailure.FAULT: Reason.FINDINGS,
    ExecutorFailure.LAUNCH: Reason.LAUNCH_ERROR,
}
LIMIT_REASONS = {
    Limit.WALL: Reason.TIME_LIMIT,
    Limit.CPU: Reason.TIME_LIMIT,
    Limit.MEMORY: Reason.MEMORY_LIMIT,
}


@dataclass(frozen=True)
class Observation:
    """One observed call: results or failure, and facts."""

    failure: Failure | None
    results: tuple[Raw, ...] = ()
    facts: Facts | None = None  # of the virtual GPU only
    seconds: float = 0.0
    output: str = ""
    confined: Confined = field(default_factory=Confined)


def status_failure(answer: WorkerReply) -> Failure | None:
    """Return the failure that a reply reports, or None."""
    if answer.status is Status.DONE:
        return None
    text = answer.text.strip() or f"the worker answered {answer.status.name.lower()}"
    return Failure(STATUS_REASONS[answer.status], text)


def executor_failure(facts: Facts, answered: bool) -> Failure | None:
    """Return the virtual GPU's failure, or None."""
    # A refused allocation alone is no failure: a candidate may handle it. It explains a call that gave no
    # answer.
    if facts.failure is ExecutorFailure.MEMORY and not answered:
        return Failure(Reason.MEMORY_LIMIT, facts.detail)
    reason = FAILURE_REASONS.get(facts.failure)
    return Failure(reason, facts.detail or str(facts.failure)) if reason else None


def ending_failure(ended: Ended, sentence: str, fault: FrameError | None) -> Failure:
    """Return the failure of a worker without an answer."""
    # From the surest source to the weakest: a limit that we enforced, our own timeout, a signal that the
    # kernel reports, and last the exit code, which the candidate chooses.
    if ended.stopped is not None and ended.stopped is not Limit.KILLED:
        return Failure(LIMIT_REASONS.get(ended.stopped, Reason.CRASH), f"The candidate was stopped: {sentence}.")
    if fault is not None and fault.fault is FrameFault.LATE:
        return Failure(Reason.TIME_LIMIT, f"No answer in time: {fault.detail}.")
    if ended.signal is not None and ended.stopped is None:
        return Failure(Reason.CRASH, f"The candidate's host code crashed: {sentence}.")
    answer = f" ({fault.fault}: {fault.detail})" if fault else ""
    return Failure(Reason.BAD_ANSWER, f"The worker gave no whole answer{answer}; {sentence}.")
