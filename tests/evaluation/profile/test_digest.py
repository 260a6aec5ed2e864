"""The digest for prompts: short, in numbers, and honest about what is not there."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from made_facts import CEILINGS, facts, kernel

from warpsmith.evaluation.profile import profile_digest
from warpsmith.evaluation.profile.digest import MOST_CHARACTERS, ceilings_text
from warpsmith.evaluation.profile.words import microseconds, scaled
from warpsmith.records import KernelProfile, ProfileFacts, ProfileSource


def test_the_call_and_what_binds_it_in_numbers() -> None:
    text = profile_digest(facts())
    for part in (
        "NVIDIA H200",
        "78% of the roofline (floor 31.2 µs)",
        "bound by dram (DRAM traffic 3.36 TB/s, 80% of the measured ceiling)",
        "67.1 MB read",
        "16 sectors a request",
        "occupancy 62% of 75%, limited by registers",
        "40 registers, 48 B spilled",
        "kernel.cu:31 71% of stall samples `sum += x[i];`",
        "copy 4.2 TB/s",
    ):
        assert part in text


@pytest.mark.parametrize("count", [1, 3, 40])
def test_it_is_short_however_much_there_is(count: int) -> None:
    rows = [kernel(f"kernel_with_a_rather_long_name_{n}<float, {n}>" * 3, us=10.0 + n) for n in range(count)]
    text = profile_digest(facts(*rows))
    assert len(text) <= MOST_CHARACTERS
    assert "Call: " in text
    assert f"_{count - 1}<" in text  # the longest comes first


def test_every_kernel_line_has_numbers() -> None:
    for line in profile_digest(facts(kernel(), kernel("other", 3.0))).splitlines():
        assert re.search(r"\d", line)


def test_a_lesser_source_says_which_better_one_was_not_there() -> None:
    text = profile_digest(facts(source=ProfileSource.CUPTI))
    assert "No ncu: ncu is not on PATH." in text
    assert "no counters" in text


def test_what_the_compiler_alone_knows() -> None:
    row = KernelProfile(name="k", launches=1, registers=40, occupancy_limit=0.5, limiter="registers")
    text = profile_digest(ProfileFacts(source=ProfileSource.PTXAS, gpu="H200", case="c", kernels=(row,)))
    assert "occupancy at most 50%, limited by registers" in text
    assert "Call:" not in text


def test_units() -> None:
    assert scaled(134.2e6, "B") == "134 MB"
    assert scaled(12, "B") == "12 B"
    assert microseconds(36.215) == "36.22 µs"
    assert "measured: read 4.4 TB/s" in ceilings_text(CEILINGS)
