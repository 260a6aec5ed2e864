"""Verdicts of stages and the closed list of reasons."""

from enum import StrEnum


class Verdict(StrEnum):
    """Verdict of a stage. FAIL blames the candidate, FAULT warpsmith or the machine.

    QUARANTINE: too odd to believe. SKIP: not applicable.
    """

    PASS = "pass"
    FAIL = "fail"
    QUARANTINE = "quarantine"
    SKIP = "skip"
    FAULT = "fault"


class Reason(StrEnum):
    """Reason of a verdict other than PASS; a test produces each member."""

    # compile
    BAD_SOURCE = "bad_source"  # not UTF-8, empty, too long
    NO_ENTRY = "no_entry"  # no module and no exported function
    WRONG_SIGNATURE = "wrong_signature"  # arguments or results differ from the task's
    COMPILE_ERROR = "compile_error"
    COMPILE_LIMIT = "compile_limit"  # time or memory of the compiler
    COMPILER_CRASH = "compiler_crash"
    FORBIDDEN_FILE = "forbidden_file"  # an include or .incbin outside the toolchain
    FORBIDDEN_SYMBOL = "forbidden_symbol"
    LIBRARY_CALL = "library_call"  # real ATen operators, or a library the task does not allow
    # run, on either device
    CRASH = "crash"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    LAUNCH_ERROR = "launch_error"  # the CUDA runtime reported an error
    BAD_ANSWER = "bad_answer"  # a missing, late, short or extra answer
    CANDIDATE_ERROR = "candidate_error"  # the candidate's own check (TORCH_CHECK, an exception) refused the call
    # the virtual GPU
    FINDINGS = "findings"  # a checker of the virtual GPU found a fault
    INSTRUCTION_BUDGET = "instruction_budget"  # an endless loop, as far as anyone can tell
    UNKNOWN_INSTRUCTION = "unknown_instruction"
    UNKNOWN_CALL = "unknown_call"  # a CUDA runtime call the stand-in does not have
    DEVICE_TRAP = "device_trap"  # trap, a failed assert
    # the results
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_VALUE = "wrong_value"
    INPUT_CHANGED = "input_changed"  # an argument's bytes differ after the call
    ALIASED = "aliased"  # a result shares memory with an argument or another result
    UNWRITTEN = "unwritten"  # a result holds memory that nobody wrote in this call
    OVERRUN = "overrun"  # a guard zone around a buffer was written
    LATE_WRITE = "late_write"  # the output changed after the call was over on its stream
    WRONG_LAYOUT = "wrong_layout"  # strides differ from what the task's result has
    PRECISION = "precision"  # right only at a lower precision than the task allows
    SANITIZER = "sanitizer"  # compute-sanitizer found a fault on a real GPU
    # the times
    UNREPEATED = "unrepeated"  # its calls cannot be asked for again without its host code
    HIDDEN_WORK = "hidden_work"  # work that the queued time does not show
    CLOCKS_DISAGREE = "clocks_disagree"  # the worker's clock and the judge's tell different times
    BELOW_FLOOR = "below_floor"  # faster than the memory or the arithmetic allows
    TOO_GOOD = "too_good"  # past ten times the best baseline, not yet repeated
    DISTURBED = "disturbed"  # the GPU was busy or throttled in too many windows
    # ours
    UNCONFINED = "unconfined"  # this machine cannot confine untrusted code; --trust says to go on
    HARNESS = "harness"

    @property
    def verdict(self) -> Verdict:
        """The verdict of a stage that ends for this reason."""
        # A reason has exactly one verdict, so a stage names the reason only and cannot contradict it.
        # The three lists below are disjoint, and every other reason is a failure.
        if self in SKIPPED:
            return Verdict.SKIP
        if self in OURS:
            return Verdict.FAULT
        return Verdict.QUARANTINE if self in DOUBTFUL else Verdict.FAIL


SKIPPED = frozenset({Reason.UNKNOWN_INSTRUCTION})  # the virtual GPU lacks it, whatever the kernel computes
OURS = frozenset({Reason.UNCONFINED, Reason.HARNESS})
# A time that nobody can trust does not prove that the kernel is wrong.
DOUBTFUL = frozenset(
    {
        Reason.UNREPEATED,
        Reason.HIDDEN_WORK,
        Reason.CLOCKS_DISAGREE,
        Reason.BELOW_FLOOR,
        Reason.TOO_GOOD,
        Reason.DISTURBED,
    }
)
