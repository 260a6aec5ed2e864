"""How verdicts become exit codes and lines."""

from warpsmith.records import StageResult, Verdict

EXIT = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.FAULT: 3, Verdict.SKIP: 4, Verdict.QUARANTINE: 4}


def headline(result: StageResult) -> str:
    """A stage's name, verdict, reason and seconds."""
    reason = f" ({result.reason})" if result.reason else ""
    return f"{result.stage}: {result.verdict}{reason} in {result.seconds:.1f} s"
