"""The rule that names the binding resource."""

from warpsmith.evaluation.profile.binding import Use, WaitingFacts, find_binding, percent
from warpsmith.records import Binding

LONG = WaitingFacts(time_us=100.0, launch_us=3.0, occupancy=0.8)


def use(binding: Binding, share: float) -> Use:
    return Use(binding, share, (percent(f"{binding} busy", share),))


def test_the_busiest_resource_binds() -> None:
    found = find_binding([use(Binding.DRAM, 0.9), use(Binding.L2, 0.7)], LONG)
    assert found.binding is Binding.DRAM
    assert found.shown_by[0] == percent("dram busy", 0.9)


def test_tensor_cores_bind_below_their_peak() -> None:
    assert find_binding([use(Binding.TENSOR, 0.55), use(Binding.ISSUE, 0.62)], LONG).binding is Binding.TENSOR


def test_a_kernel_shorter_than_a_launch_is_latency_however_busy() -> None:
    short = WaitingFacts(time_us=2.0, launch_us=3.0)
    found = find_binding([use(Binding.L1, 1.0)], short)
    assert found.binding is Binding.LATENCY
    assert [metric.unit for metric in found.shown_by] == ["µs", "µs"]


def test_few_warps_are_a_matter_of_occupancy_with_its_limiter() -> None:
    found = find_binding([use(Binding.DRAM, 0.2)], WaitingFacts(100.0, 3.0, occupancy=0.06, limiter="shared memory"))
    assert found.binding is Binding.OCCUPANCY
    assert "shared memory" in found.shown_by[0].name


def test_waiting_with_enough_warps_is_latency_with_its_stalls() -> None:
    stalls = (percent("waiting at a barrier", 0.7),)
    found = find_binding([use(Binding.DRAM, 0.2)], WaitingFacts(100.0, 3.0, occupancy=0.9, stalls=stalls))
    assert (found.binding, found.shown_by[0]) == (Binding.LATENCY, stalls[0])


def test_nothing_known_is_latency_shown_by_nothing() -> None:
    assert find_binding([], WaitingFacts(100.0, 3.0)).shown_by == ()
