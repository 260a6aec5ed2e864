"""The end of a worker and its executor, as an observation."""

from warpsmith.isolation import Child, ChildOutcome, FrameError, FrameFault, Limit
from warpsmith.machines.virtual import Facts, Gone, Mute, VirtualGpu
from warpsmith.machines.worker.observation import (
    EXECUTOR_GONE,
    SHOWN,
    Observation,
    ending_failure,
    executor_failure,
    status_failure,
)
from warpsmith.machines.worker.protocol import WorkerReply
from warpsmith.machines.worker.values import Raw
from warpsmith.machines.worker.worker import Conversation
from warpsmith.records import Failure, Reason

# The driver frees the GPU memory of a process before the process is gone.
ENDING_S = 10.0  # from the last descriptor closed to the end: a process that holds a GPU is not gone at once
MUTE = "What the candidate left with the virtual GPU keeps it from answering the judge: {why}."


def without_answer(child: Child, gpu: VirtualGpu, silence: FrameError) -> Observation:
    """Return the observation of a silent worker."""
    # The worker's exit code can be forged by the candidate, so the executor is asked whether it still
    # lives before it is blamed. After a time limit it is killed: its kernel may never end.
    ended = end_silent(child, silence)
    if ended.exit_code == EXECUTOR_GONE and not gpu.control.answers():  # else the candidate only says so
        return executor_gone(child, gpu)
    failure = ending_failure(ended, ended.describe(child.policy), silence)
    if failure.reason is Reason.TIME_LIMIT:
        gpu.kill()
        return observation(failure, (), None, silence, ended)
    facts = gpu.control.facts(finish=False)
    return observation(executor_failure(facts, False) or failure, (), facts, silence, ended)


def executor_gone(child: Child, gpu: VirtualGpu, why: Gone | None = None) -> Observation:
    """End the worker; return why the executor ended."""
    # A mute executor is the candidate's doing and a time limit. An executor that ran into its own memory
    # or time limit names that limit; any other end is an error of ours.
    child.kill()
    if isinstance(why, Mute):
        gpu.kill()
        return observation(Failure(Reason.TIME_LIMIT, MUTE.format(why=why)), (), None, None, child.wait())
    ended, executor = child.wait(), gpu.end()
    sentence = executor.describe(gpu.policy)
    if executor.stopped is Limit.MEMORY:
        failure = Failure(Reason.MEMORY_LIMIT, f"The virtual GPU ran out of memory: {sentence}.")
    elif executor.stopped in (Limit.WALL, Limit.CPU):
        failure = Failure(Reason.TIME_LIMIT, f"The virtual GPU was stopped: {sentence}.")
    else:
        failure = Failure(Reason.HARNESS, f"The executor of the virtual GPU ended early: {sentence}.")
    return observation(failure, (), None, None, ended)


def end(child: Child, talk: Conversation, answer: WorkerReply | FrameError) -> ChildOutcome:
    """End the worker; return its outcome."""
    if isinstance(answer, FrameError):
        return end_silent(child, answer)
    talk.leave()
    return child.wait()


def end_silent(child: Child, silence: FrameError) -> ChildOutcome:
    """Wait for a closed channel's worker, kill any other."""
    # A closed channel means that the process ends by itself, and its signal or exit code explains the
    # silence; a kill would hide them.
    if silence.fault not in (FrameFault.MISSING, FrameFault.SHORT) or not child.wait_for_end(ENDING_S):
        child.kill()
    return child.wait()


def reply_failure(answer: WorkerReply | FrameError, ended: ChildOutcome, child: Child) -> Failure | None:
    """Return the failure of an answer or ending, or None."""
    # Bytes after the last answer fail as well: a worker that writes more than it was asked for does not
    # follow the protocol.
    if isinstance(answer, FrameError):
        return ending_failure(ended, ended.describe(child.policy), answer)
    if (failure := status_failure(answer)) is not None:
        return failure
    if not ended.ok:
        return ending_failure(ended, ended.describe(child.policy), None)
    surplus = child.read_surplus()
    return None if surplus is None else Failure(Reason.BAD_ANSWER, f"The worker said too much: {surplus.detail}.")


def observation(
    failure: Failure | None,
    results: tuple[Raw, ...],
    facts: Facts | None,
    answer: WorkerReply | FrameError | None,
    ended: ChildOutcome,
    shown: int = SHOWN,
) -> Observation:
    """Return an observation with the candidate's printed text."""
    printed = (ended.stdout + ended.stderr).decode("utf-8", "replace")
    seconds = answer.seconds if isinstance(answer, WorkerReply) else 0.0
    return Observation(failure, results, facts, seconds, printed[:shown], ended.confined)
