"""Exit codes and lines of verdicts."""

from warpsmith.records import StageResult, Verdict

EXIT = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.FAULT: 3, Verdict.SKIP: 4, Verdict.QUARANTINE: 4}


def headline(result: StageResult) -> str:
    """Return a stage's name, verdict, reason and seconds."""
    reason = f" ({result.reason})" if result.reason else ""
    return f"{result.stage}: {result.verdict}{reason} in {result.seconds:.1f} s"
