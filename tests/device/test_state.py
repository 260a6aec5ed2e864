"""What nvidia-smi says of the moment, read."""

import pytest

from warpsmith.device import GpuState
from warpsmith.device.state import parse_state


@pytest.mark.parametrize(
    ("line", "apps", "expected"),
    [
        ("1980, 3201, 0x0000000000000000", "", GpuState((1980, 3201), 0, 0)),
        ("1665, 3201, 0x0000000000000064", "4711\n4712\n", GpuState((1665, 3201), 0x64, 2)),
        ("[N/A], [N/A], [N/A]", "No running processes found", GpuState(None, 0, 0)),
        ("", "", GpuState()),
    ],
)
def test_answers_are_read(line: str, apps: str, expected: GpuState) -> None:
    assert parse_state(line, apps) == expected


def test_the_power_cap_is_told_and_heat_makes_times_worthless() -> None:
    assert GpuState(reasons=0x4).slowed == ()
    assert GpuState(reasons=0x4).told == ("the power cap",)
    assert GpuState(reasons=0x64).slowed == ("heat", "heat in hardware")
