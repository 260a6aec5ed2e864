"""Sampling over a session that is a fake: modes by turns, every output examined, disturbed calls left out."""

from itertools import count

import pytest
from tests.evaluation.timing.faking import FakeSession, X

from warpsmith.evaluation.timing.sample import (
    LEAST_TURNS,
    MOST_TURNS,
    PATIENCE,
    WARM_CALLS,
    Calls,
    Examine,
    Manner,
    Null,
    Samples,
    TimedCall,
    sample,
)
from warpsmith.evaluation.timing.stop import StopRule
from warpsmith.machines.worker.observation import Trouble
from warpsmith.machines.worker.session import Clocks, Mode, Shown
from warpsmith.records import Reason
from warpsmith.tasks.reference.program import Problem

RULE = StopRule(width=0.0, least=4, most=4, seconds=9)
MANNER = Manner(RULE)
NULL = Null(queued_us=3.0, idle_us=10.0, beside_us=30.0)


def clocks(event_us: float = 10.0, flush_us: float = 400.0) -> Clocks:
    return Clocks(event_us=event_us, host_us=2.0, wall_us=40.0, flush_us=flush_us)


def fine(_call: Problem, _shown: Shown) -> Trouble | None:
    return None


def endless(examine: Examine = fine) -> Calls:
    while True:
        yield TimedCall(Problem((X,), (X,), (X.double(),)), examine)


def test_modes_alternate_over_slots_and_warm_calls_do_not_count() -> None:
    session = FakeSession([clocks()])
    found = sample(session, endless(), MANNER)
    assert isinstance(found, Samples)
    assert len(found.queued) == 4
    assert found.count == len(session.calls) - WARM_CALLS
    modes = [mode for _, mode, _ in session.calls[:6]]
    assert all(sorted(turn) == [Mode.IDLE, Mode.QUEUED, Mode.QUEUED] for turn in (modes[:3], modes[3:]))
    assert [slot for slot, _, _ in session.calls] == list(range(len(session.calls)))


def test_a_plain_candidate_is_given_its_results() -> None:
    session = FakeSession([clocks()])
    sample(session, endless(), Manner(RULE, given=True))
    assert {count for _, _, count in session.calls} == {1}


def test_trouble_ends_it() -> None:
    crash = Trouble(Reason.CRASH, "it crashed")
    assert sample(FakeSession([clocks()], trouble=crash), endless(), MANNER) is crash


def test_a_wrong_output_of_a_timed_call_ends_it() -> None:
    wrong, seen = Trouble(Reason.WRONG_VALUE, "off"), []

    def examine(_call: Problem, _shown: Shown) -> Trouble | None:
        seen.append(1)
        return wrong if len(seen) == 6 else None

    session = FakeSession([clocks()])
    assert sample(session, endless(examine), MANNER) is wrong
    assert len(session.calls) == 6


def test_disturbed_calls_are_left_out() -> None:
    usual, odd = clocks(), clocks(flush_us=900.0)
    samples = Samples([usual, odd, clocks()], [clocks(), clocks()])
    kept = samples.kept()
    assert (len(kept.idle), len(kept.queued)) == (2, 2)
    assert odd not in kept.idle


def test_windows_join() -> None:
    both = Samples.all([Samples([clocks(1.0)], [clocks(2.0)]), Samples([clocks(3.0)], [])])
    assert both.events_us(Mode.IDLE) == [1.0, 3.0]
    assert both.events_us(Mode.QUEUED) == [2.0]


def test_a_call_is_confirmed_when_the_judge_waited_no_longer_than_it_explains() -> None:
    honest, delayed, forged = clocks(10.0), Clocks(10.0, 2.0, 70.0, 400.0), clocks(4.0)
    samples = Samples([honest, delayed, forged], [])
    assert samples.confirmed(null_beside_us=9.0) == [honest]
    assert samples.beside_us(0.0) == 30.0


def test_a_machine_that_delays_some_calls_is_given_more() -> None:
    late = Clocks(10.0, 2.0, 90.0, 400.0)
    session = FakeSession([late] * 3 + [clocks()] * 9, clocks())
    found = sample(session, endless(), Manner(RULE, null=NULL))
    assert isinstance(found, Samples)
    assert len(found.confirmed(30.0)) >= 3
    assert found.count > 2 * RULE.most


def test_a_call_that_was_disturbed_confirms_nothing() -> None:
    session = FakeSession([clocks()] * 2 + [clocks(flush_us=900.0)] * 2 + [clocks()], clocks())
    found = sample(session, endless(), Manner(RULE, null=NULL))
    assert isinstance(found, Samples)
    assert len(found.kept().confirmed(NULL.beside_us)) == 3
    assert len(found.idle) == 5


def test_where_every_call_of_a_mode_was_disturbed_they_are_all_there_is() -> None:
    odd, usual = clocks(flush_us=900.0), clocks()
    kept = Samples([odd], [usual, usual, usual, odd]).kept()
    assert (kept.idle, kept.queued) == ([odd], [usual, usual, usual])


def test_a_candidate_that_no_clock_confirms_is_given_up() -> None:
    found = sample(FakeSession([Clocks(10.0, 2.0, 90.0, 400.0)]), endless(), Manner(RULE, null=NULL))
    assert isinstance(found, Samples)
    assert found.count == MOST_TURNS * RULE.most
    assert found.confirmed(30.0) == []


@pytest.mark.parametrize(("seconds", "calls"), [(4.0, PATIENCE * 4 - WARM_CALLS - 1), (0.1, LEAST_TURNS * 4)])
def test_patience_with_a_slow_candidate_ends(seconds: float, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "warpsmith.evaluation.timing.sample.time.monotonic", count(step=1.0).__next__
    )  # a second a call
    manner = Manner(StopRule(width=0.0, least=4, most=40, seconds=seconds), null=NULL)
    found = sample(FakeSession([Clocks(10.0, 2.0, 90.0, 400.0)]), endless(), manner)
    assert isinstance(found, Samples)
    assert found.count == calls


def test_a_call_that_hides_nothing_is_given_as_many_calls_as_it_takes_to_show_that() -> None:
    slow, soon = Clocks(90.0, 9.0, 120.0, 400.0), Clocks(70.0, 9.0, 100.0, 400.0)
    session = FakeSession([slow] * 4 + [soon] * 9, clocks(40.0))
    found = sample(session, endless(), Manner(RULE, null=NULL))
    assert isinstance(found, Samples)
    assert found.soonest_us(NULL) == 70.0
    assert 2 * RULE.most < found.count < MOST_TURNS * RULE.most


def test_a_call_that_hides_work_is_given_up() -> None:
    session = FakeSession([Clocks(90.0, 9.0, 120.0, 400.0)], clocks(40.0))
    found = sample(session, endless(), Manner(RULE, null=NULL))
    assert isinstance(found, Samples)
    assert found.count == MOST_TURNS * RULE.most
    assert found.soonest_us(NULL) == 90.0


def test_warm_calls_do_not_flush() -> None:
    session = FakeSession([clocks()])
    sample(session, endless(), Manner(RULE, cold=False))
    assert set(session.colds) == {False}
