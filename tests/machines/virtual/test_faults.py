"""Every fault is found, by the right checker and at the right line; its repaired twin is clean."""

from collections import Counter
from pathlib import Path

import pytest
from faulty import INPUT, FrameFault, faults, text
from runs import observe

from warpsmith.machines.worker import Observation
from warpsmith.records import Checker, Reason

CHECKERS = (
    Checker.OUT_OF_BOUNDS,
    Checker.MISALIGNED,
    Checker.UNINITIALIZED,
    Checker.RACE,
    Checker.BARRIER,
    Checker.SHUFFLE,
    Checker.LAUNCH,
    Checker.ENDLESS,
    Checker.LEAK,
    Checker.TRAP,
)
# Faults that end the kernel on a real GPU end the call here; the others are findings beside a result.
REASONS: dict[Checker, set[Reason | None]] = {
    Checker.OUT_OF_BOUNDS: {Reason.FINDINGS},
    Checker.MISALIGNED: {Reason.FINDINGS},
    Checker.LAUNCH: {Reason.LAUNCH_ERROR},
    Checker.ENDLESS: {Reason.INSTRUCTION_BUDGET},
    Checker.TRAP: {Reason.DEVICE_TRAP},
    Checker.BARRIER: {None, Reason.FINDINGS},  # threads that wait for ever end the call
}
# What a fault may also cause: the judge reads what an unjoined stream has not written, a racing read sees nothing yet.
CONSEQUENCES = {
    Checker.LEAK: {Checker.UNINITIALIZED, Checker.RACE},
    Checker.RACE: {Checker.UNINITIALIZED},
}
ALL = pytest.mark.parametrize("fault", faults(), ids=[f"{fault.checker}-{fault.name}" for fault in faults()])


def test_each_checker_has_at_least_five_faults() -> None:
    counts = Counter(fault.checker for fault in faults())
    assert set(counts) == set(CHECKERS)
    assert min(counts.values()) >= 5


@ALL
def test_the_fault_is_found_where_it_is(fault: FrameFault) -> None:
    seen = observe(text(fault.checker), fault.name, INPUT)
    assert (seen.failure.reason if seen.failure else None) in REASONS.get(fault.checker, {None})
    found = _found(seen)
    own = [place for checker, place, _ in found if checker is fault.checker]
    assert own and all(_fits(fault, place) for place in own), found
    assert {checker for checker, _, _ in found} <= {fault.checker, *CONSEQUENCES.get(fault.checker, ())}, found


@ALL
def test_its_twin_is_clean(fault: FrameFault) -> None:
    seen = observe(text(fault.checker), fault.twin, INPUT)
    assert seen.failure is None
    assert _found(seen) == []


def _fits(fault: FrameFault, place: tuple[str, int] | None) -> bool:
    if not fault.lines:
        return place is None
    return place is not None and place[0] == f"{fault.checker}.cu" and place[1] in fault.lines


def _found(seen: Observation) -> list[tuple[Checker, tuple[str, int] | None, str]]:
    assert seen.facts is not None
    findings = [raw.finding() for raw in seen.facts.findings]
    return [
        (one.checker, (Path(one.place.file).name, one.place.line) if one.place else None, one.message)
        for one in findings
    ]
