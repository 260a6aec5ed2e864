"""Runs that a report is made of: the saved one of the virtual GPU, and measured ones that are made up."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from warpsmith.archive import Archive, ModelCall, Run, RunState
from warpsmith.records import (
    MODES,
    Candidate,
    Case,
    CaseCheck,
    CaseTiming,
    CheckFacts,
    Direction,
    Environment,
    EvaluationOptions,
    Group,
    Reason,
    Record,
    SpeedComparison,
    StageResult,
    TimingFacts,
    Verdict,
)
from warpsmith.records.fake import fake_candidate, fake_case, fake_ratio, fake_time

SAVED = Path(__file__).parent / "run.jsonl"
NASTY = "</pre><script>window.broken = 1</script><img src=x onerror='window.broken = 1'>\n__global__ void k() {}\n"
EAGER_US, COMPILED_US, CALL_US, FLOOR_US = 30.0, 24.0, 9.0, 6.0
WHEN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def saved(archive: Archive) -> str:
    """A search that really ran on the virtual GPU: the tuner on layernorm, then three kernels written by hand."""
    for line in map(json.loads, SAVED.read_text().splitlines()):
        match line["kind"]:
            case "run":
                run = Run.model_validate(line["body"])
                archive.start(run)
            case "record":
                archive.add(run.name, Record.model_validate(line["body"]), **line["tags"])
            case "note":
                archive.note(line["run"] or None, line["note"], line["body"], name=line["name"])
            case "call":
                archive.spend(run.name, ModelCall.model_validate(line["body"]))
    return run.name


def start(archive: Archive, name: str = "measured") -> str:
    """A run with nothing in it."""
    settings = {"generations": "2"}
    archive.start(
        Run(name=name, target="softmax", task="softmax", direction=Direction.FORWARD, device="cuda", settings=settings)
    )
    return name


def measured(archive: Archive, name: str = "measured") -> str:
    """A seed, a wrong kernel, one with markup in its text, and a winner with held-out times.

    Models cost dollars, also for a proposal that its reviewer stopped.
    """
    start(archive, name)
    seed, nasty = record("seed\n", 26.0), record(NASTY, 20.0)
    nasty = nasty.model_copy(update={"candidate": nasty.candidate.model_copy(update={"parents": (seed.candidate.id,)})})
    archive.add(name, seed, operator="seed")
    archive.spend(name, ModelCall(model="m", operator="improve", input_tokens=900, output_tokens=300, usd=0.75))
    archive.add(name, record("wrong\n", None, seed), generation=1, operator="improve", model="m", cost_usd=0.25)
    archive.add(name, nasty, generation=1, operator="rewrite", model="m", cost_usd=0.5)
    archive.spend(name, ModelCall(model="n", operator="improve", input_tokens=100, output_tokens=30, usd=0.125))
    archive.spend(name, ModelCall(model="n", operator="review", input_tokens=10, output_tokens=3, usd=0.125))
    archive.add(
        name, record(NASTY + "fast\n", 12.0, nasty), generation=2, operator="improve", model="n", cost_usd=0.125
    )
    archive.finish(name, RunState.DONE, "budget")
    return name


def record(source: str, us: float | None, parent: Record | None = None, modes: Sequence[str] = MODES) -> Record:
    """A kernel that takes `us` where torch's best mode takes 24, half as fast where nobody looked; or a wrong one."""
    wrong = StageResult(stage="check", verdict=Verdict.FAIL, reason=Reason.WRONG_VALUE, detail="<b>3 are wrong</b>")
    seen, secret = fake_case("seen", Group.TIMING, 64), fake_case("drawn", Group.HELDOUT, 67)
    results: tuple[StageResult, ...] = (StageResult(stage="compile", verdict=Verdict.PASS, seconds=2.0), wrong)
    if us is not None:
        checks = CheckFacts(cases=tuple(CaseCheck(case=one, calls=4, worst=0.25) for one in (seen, secret)))
        timings = TimingFacts(tier="claim", cases=(timed(seen, us, modes), timed(secret, 2 * us, modes)))
        passed = StageResult(stage="check", verdict=Verdict.PASS, facts=checks, seconds=1.0)
        results = (results[0], passed, StageResult(stage="timing", verdict=Verdict.PASS, facts=timings, seconds=3.0))
    return Record(
        candidate=fake_candidate(source, (parent.candidate.id,) if parent else ()),
        task_version="1",
        environment=Environment(device="H200", hardware="cuda:H200", driver="580.1", clocks_mhz=(1980, 3201)),
        options=EvaluationOptions(device="cuda", seeds=(41,)),
        results=results,
    )


def published(task: str, direction: Direction, us: float, tier: Literal["search", "claim"] = "claim") -> Record:
    """A record as a results folder has it: two timing cases and a held-out one, dev and held-out checked, dated."""
    small, large = fake_case("small", Group.TIMING, 64), fake_case("large", Group.TIMING, 4096)
    dev, secret = fake_case("dev", Group.DEV, 7), fake_case("drawn", Group.HELDOUT, 67)
    facts = TimingFacts(tier=tier, cases=(timed(small, us), timed(large, 4 * us, scale=4.0), timed(secret, 1.25 * us)))
    checks = CheckFacts(cases=tuple(CaseCheck(case=one, calls=4, worst=0.25) for one in (dev, secret)))
    where = Environment(device="H200", hardware="cuda:H200", driver="580.1", torch="2.11.0", when=WHEN)
    return Record(
        candidate=Candidate(task=task, direction=direction, source=f"// {task} {direction} {us}\n"),
        task_version="1",
        environment=where,
        options=EvaluationOptions(device="cuda", seeds=(41,), extra={"tier": tier}),
        results=(
            StageResult(stage="check", verdict=Verdict.PASS, facts=checks),
            StageResult(stage="timing", verdict=Verdict.PASS, facts=facts),
        ),
    )


def quarantined(record: Record) -> Record:
    """The same kernel, whose times nobody may believe yet."""
    timing = record.results[-1].model_copy(
        update={"verdict": Verdict.QUARANTINE, "reason": Reason.HIDDEN_WORK, "detail": "too fast behind a gate"}
    )
    return record.model_copy(update={"results": (*record.results[:-1], timing)})


def timed(one: Case, us: float, modes: Sequence[str] = MODES, scale: float = 1.0) -> CaseTiming:
    """A measured time with torch's beside it; the work is `scale` times the usual."""
    eager, compiled, floor = scale * EAGER_US, scale * COMPILED_US, scale * FLOOR_US
    ratio = compiled / us
    claim = (
        SpeedComparison.FASTER
        if ratio * 0.98 > 1.01
        else SpeedComparison.SLOWER
        if ratio * 1.02 < 1
        else SpeedComparison.INCONCLUSIVE
    )
    return CaseTiming(
        case=one,
        time=fake_time(us),
        call=fake_time(CALL_US),
        baselines={**dict.fromkeys(modes, fake_time(eager)), "compile": fake_time(compiled)},
        best="compile",
        speedup=fake_ratio(ratio),
        claim=claim,
        floor_us=floor,
        roofline=floor / us,
    )
