"""Counters of five captured kernels to what binds them, against ceilings as an H200 has them."""

from pathlib import Path

import pytest

from warpsmith.evaluation.profile import metrics as m
from warpsmith.evaluation.profile.counted import kernels
from warpsmith.evaluation.profile.ncu_table import Launch, read_launches, read_lines
from warpsmith.records import Binding, Ceilings, KernelProfile, MeasuredTime

CAPTURED = Path(__file__).parent / "captured"
CEILINGS = Ceilings(
    gpu="NVIDIA H200",
    measured=True,
    read_bytes_per_s=4.4e12,
    write_bytes_per_s=4.3e12,
    copy_bytes_per_s=4.2e12,
    l2_bytes_per_s=6.5e12,
    matmul_flops_per_s={"float32": 5e13, "bfloat16": 7.5e14},
    launch_us=2.5,
)


@pytest.fixture(scope="module")
def captured() -> dict[str, KernelProfile]:
    launches = read_launches((CAPTURED / "ncu_metrics.csv").read_text())
    lines = read_lines((CAPTURED / "ncu_source.csv").read_text())
    return {one.name: one for one in kernels(launches, lines, CEILINGS)}


@pytest.mark.parametrize(
    ("name", "binding"),
    [
        ("copy_rows", Binding.DRAM),
        ("strided_sum", Binding.L1),
        ("many_flops", Binding.ISSUE),
        ("tiny", Binding.LATENCY),
    ],
)
def test_what_binds_a_captured_kernel(captured: dict[str, KernelProfile], name: str, binding: Binding) -> None:
    place = captured[name].place
    assert place is not None
    assert place.binding is binding
    assert 1 <= len(place.shown_by) <= 3


def test_the_fraction_is_bytes_over_time_over_the_ceiling(captured: dict[str, KernelProfile]) -> None:
    place = captured["copy_rows"].place
    by_hand = (268_452_096 + 246_790_144) / 133.472e-6 / 4.2e12
    assert place is not None
    assert place.fraction == pytest.approx(by_hand, rel=0.02)


def test_the_numbers_of_a_kernel(captured: dict[str, KernelProfile]) -> None:
    one = captured["strided_sum"]
    assert isinstance(one.time, MeasuredTime)
    assert one.time.us == pytest.approx(533.28)
    assert one.sectors_per_request == pytest.approx(32, rel=0.01)
    assert (one.registers, one.limiter) == (31, "the grid")
    assert one.occupancy == pytest.approx(0.1249)
    assert one.lines[0].place.line == 10
    assert one.lines[0].share > 0.99


def test_flops_are_counted_from_multiply_adds(captured: dict[str, KernelProfile]) -> None:
    one = captured["many_flops"]
    assert one.flops == 2 * 86_507_520_000
    assert one.place is not None
    assert one.place.fraction == pytest.approx(one.flops / 5e13 / 2823.168e-6)


def test_stalls_are_shares_of_all_waiting(captured: dict[str, KernelProfile]) -> None:
    largest = captured["strided_sum"].stalls[0]
    assert largest.name == "waiting for global or local memory"
    assert 90 < largest.value <= 100


def test_launches_of_one_shape_are_one_profile() -> None:
    one = Launch("void k<float>(float *)", (1, 1, 1), (32, 1, 1), {m.TIME: 4000.0})
    two = Launch("void k<float>(float *)", (1, 1, 1), (32, 1, 1), {m.TIME: 6000.0})
    other = Launch("void k<float>(float *)", (2, 1, 1), (32, 1, 1), {m.TIME: 6000.0})
    first, second = kernels([one, two, other], (), CEILINGS)
    assert (first.name, first.launches, second.launches) == ("k<float>", 2, 1)
    assert first.time == MeasuredTime(us=5.0, low_us=4.0, high_us=6.0, samples=2)


def busy(**values: float) -> Binding | None:
    named = {getattr(m, name): value for name, value in values.items()}
    (one,) = kernels([Launch("k", (1056, 1, 1), (256, 1, 1), {m.TIME: 100_000.0, **named})], (), CEILINGS)
    return one.place.binding if one.place else None


def test_other_resources_bind_too() -> None:
    assert busy(L1_BUSY=97, WAVEFRONTS=100, SHARED_WAVEFRONTS=99) is Binding.SHARED
    assert busy(L1_BUSY=97, WAVEFRONTS=100, SHARED_WAVEFRONTS=9) is Binding.L1
    assert busy(TENSOR=60, ISSUE=30, OCCUPANCY=50) is Binding.TENSOR
    assert busy(L2_SECTORS=5.5e12 / 32 * 100e-6, OCCUPANCY=90) is Binding.L2
    assert busy(OCCUPANCY=5, ISSUE=5) is Binding.OCCUPANCY
    assert busy(OCCUPANCY=60, ISSUE=5) is Binding.LATENCY


def test_a_kernel_without_a_time_has_no_place() -> None:
    (one,) = kernels([Launch("k", (1, 1, 1), (32, 1, 1), {m.ISSUE: 3.0})], (), CEILINGS)
    assert (one.time, one.place) == (None, None)
    assert one.issue_active == pytest.approx(0.03)


def test_the_table_of_our_own_command() -> None:
    """From a report of the command in profile/ncu.py: a kernel whose loads the compiler took out of its loop."""
    launches = read_launches((CAPTURED / "ncu_asked.csv").read_text())
    wanted = {name for name in m.metric_names() if name not in m.TENSOR_FLOPS}
    assert wanted <= set(launches[0].values)
    (one,) = kernels(launches, (), CEILINGS)
    assert one.place is not None
    assert one.place.binding is Binding.ISSUE
    assert one.bank_conflicts == 8_387_415
    assert one.shared_bytes == 4096
