"""The rules of timing, each at the edge where it changes its mind."""

import random

import pytest

from warpsmith.base import CONFIDENCE
from warpsmith.evaluation.timing.rules import (
    Floor,
    StopRule,
    check_clocks,
    check_disturbances,
    check_floor,
    check_hidden_work,
    check_sample_counts,
    check_throttling,
    check_too_good,
    compare_speeds,
    find_slowest_kind,
    find_undisturbed,
    slack_us,
    speed_ratio,
    summarize_times,
    take_equally,
)
from warpsmith.records import Ceilings, Ratio, Reason, SpeedComparison

CEILINGS = Ceilings(gpu="H200", measured=True, read_bytes_per_s=4.3e12, write_bytes_per_s=4e12, copy_bytes_per_s=4.2e12)
H200 = Floor(CEILINGS, empty_kernel_us=2.0, l2_bytes=60 << 20)


def noisy(center: float, count: int = 40, spread: float = 0.01, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [center * (1 + spread * (draw.random() - 0.5)) for _ in range(count)]


def test_measured_is_the_median_with_its_spread() -> None:
    found = summarize_times([1, 2, 3, 4, 100])
    assert (found.us, found.samples) == (3, 5)
    assert found.low_us < 3 < found.high_us


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (1.02, 1.10, SpeedComparison.FASTER),
        (1.005, 1.10, SpeedComparison.INCONCLUSIVE),
        (0.9, 1.2, SpeedComparison.INCONCLUSIVE),
        (0.80, 0.95, SpeedComparison.SLOWER),
        (0.80, 0.995, SpeedComparison.INCONCLUSIVE),
    ],
)
def test_claims_need_the_whole_interval(low: float, high: float, said: SpeedComparison) -> None:
    assert compare_speeds(Ratio(value=(low + high) / 2, low=low, high=high)) is said


def test_a_kernel_against_itself_is_inconclusive() -> None:
    found = speed_ratio(noisy(50, seed=1), noisy(50, seed=2))
    assert compare_speeds(found) is SpeedComparison.INCONCLUSIVE
    assert found.low < 1 < found.high


def test_twice_as_fast_is_faster() -> None:
    found = speed_ratio(noisy(100, seed=1), noisy(50, seed=2))
    assert compare_speeds(found) is SpeedComparison.FASTER
    assert 1.98 < found.value < 2.02


def test_hidden_work() -> None:
    assert check_hidden_work(idle_us=50, queued_us=21, gap_us=4) is None
    found = check_hidden_work(idle_us=50, queued_us=20, gap_us=4)
    assert found is not None and found.reason is Reason.HIDDEN_WORK
    assert "20.0 µs" in found.detail and "4.0 µs" in found.detail
    assert check_hidden_work(idle_us=50, queued_us=20, gap_us=30) is None


@pytest.mark.parametrize(
    ("confirmed", "calls", "believed"), [(3, 8, True), (2, 8, False), (6, 24, True), (5, 24, False)]
)
def test_enough_calls_must_be_confirmed(confirmed: int, calls: int, believed: bool) -> None:
    found = check_clocks(confirmed, calls, beside_us=66.0, empty_beside_us=32.0)
    assert (found is None) is believed
    if found is not None:
        assert found.reason is Reason.CLOCKS_DISAGREE
        assert "66.0 µs" in found.detail and "32.0 µs" in found.detail


def test_times_may_differ_by_25_microseconds_or_five_percent() -> None:
    assert slack_us(10) == 25.0
    assert slack_us(1000) == 50.0


def test_very_few_queued_calls_say_nothing() -> None:
    found = check_sample_counts({"usual": 4})
    assert found is not None and found.reason is Reason.DISTURBED and "only 4 queued" in found.detail
    assert check_sample_counts({"usual": 5}) is None


def test_very_few_queued_calls_of_one_kind_say_nothing() -> None:
    """Whoever disturbs the calls in which it is slow would keep the time of the others."""
    found = check_sample_counts({"usual": 30, "huge": 2})
    assert (
        found is not None and found.reason is Reason.DISTURBED and "only 2 queued calls of huge inputs" in found.detail
    )
    assert check_sample_counts({"usual": 30, "huge": 3}) is None


def test_each_window_by_itself_must_be_faster() -> None:
    whole = Ratio(value=1.05, low=1.02, high=1.08)
    assert compare_speeds(whole, [1.06, 1.04]) is SpeedComparison.FASTER
    assert compare_speeds(whole, [1.10, 1.00]) is SpeedComparison.INCONCLUSIVE


def test_short_times_that_are_hardly_apart_tell_nothing() -> None:
    whole = Ratio(value=1.07, low=1.05, high=1.09)
    assert compare_speeds(whole, [1.07], apart_us=0.9) is SpeedComparison.INCONCLUSIVE
    assert compare_speeds(whole, [1.07], apart_us=1.1) is SpeedComparison.FASTER
    assert compare_speeds(Ratio(value=0.9, low=0.88, high=0.92), apart_us=0.4) is SpeedComparison.INCONCLUSIVE


def test_floor_counts_cold_reads_and_spilled_writes() -> None:
    read = H200.us(read_bytes=256e6, written_bytes=0)
    assert read == pytest.approx(256e6 / 1.05 / 4.3e6)
    assert H200.us(256e6, 60 << 20) == read
    assert H200.us(256e6, 256e6) > read
    assert H200.us(100, 100) == 2.0


def test_below_floor() -> None:
    assert check_floor(10.0, 10.0) is None
    found = check_floor(9.0, 10.0)
    assert found is not None
    assert found.reason is Reason.BELOW_FLOOR


def test_too_good_waits_for_a_second_evaluation() -> None:
    high = Ratio(value=12.0, low=11.0, high=13.0)
    found = check_too_good(high, repeated=False)
    assert found is not None
    assert found.reason is Reason.TOO_GOOD
    assert check_too_good(high, repeated=True) is None
    assert check_too_good(Ratio(value=8.0, low=7.9, high=8.1), repeated=False) is None


def test_the_kind_of_input_with_the_largest_median_counts_however_close_the_others_are() -> None:
    assert find_slowest_kind({"usual": [75.0] * 9, "huge": [100.0] * 4, "peaked": [75.0] * 4}) == "huge"
    assert find_slowest_kind({"usual": [4.0] * 3, "huge": [4.01] * 3}) == "huge"
    assert find_slowest_kind({"usual": [4.0, 4.0, 9.0], "huge": [4.1] * 3}) == "huge", "one late call is no kind"


def test_of_a_long_window_samples_from_all_over_it_count() -> None:
    short, long = [40.0] * 5 + [40.9] * 4, [40.0] * 30 + [40.9] * 31
    found = take_equally([short, long])
    assert len(found) == 18 and found.count(40.9) in (8, 9)
    assert take_equally([short, short]) == short * 2


def test_a_gpu_that_was_held_back_has_told_nothing() -> None:
    found = check_throttling(("heat",))
    assert found is not None and found.reason is Reason.DISTURBED and "heat" in found.detail
    assert check_throttling(()) is None


def test_a_call_with_a_strange_flush_is_discarded() -> None:
    kept = find_undisturbed([100, 101, 99, 160, 100])
    assert kept == [True, True, True, False, True]
    assert check_disturbances(kept) is None
    found = check_disturbances([True, False, False])
    assert found is not None
    assert found.reason is Reason.DISTURBED


def test_stop_rule() -> None:
    rule = StopRule(width=0.01, least=5, most=30, seconds=1.0)
    assert not rule.is_met([10.0] * 4, 0.1)
    assert rule.is_met([10.0] * 5, 0.1)
    wild = [10.0 + 5 * (i % 2) for i in range(20)]
    assert not rule.is_met(wild, 0.1)
    assert rule.is_met(wild, 1.1)
    assert rule.is_met(wild + wild, 0.1)


def test_one_level_is_claimed_at_and_another_stops() -> None:
    assert speed_ratio([2.0] * 9, [1.0] * 9).level == CONFIDENCE == Ratio.model_fields["level"].default
    samples = [float(i) for i in range(1, 101)]
    assert (
        StopRule(level=CONFIDENCE).interval_width(samples)
        > StopRule().interval_width(samples)
        > StopRule(level=0.9).interval_width(samples)
    )
