"""Attacks and controls through every stage of a real GPU's judge: check, recording, players and clocks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from stage import SEARCH

from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.corpus import CorpusFile, examine, read_corpus
from warpsmith.records import Defence, Verdict

torch.set_num_threads(1)
TESTS = Path(__file__).parents[1]
ALL = SEARCH.replace(call_s=10.0)
BARE = ALL.replace(without=frozenset(Defence))
SEED = 20250914  # a test must come out the same every time
# Attacks on what a rehearsal lacks. They are tried on a real GPU.
LARGE = {  # begin at shapes that the virtual GPU is too slow for
    *("21_device_counts_calls", "33_classes_skipped_in_a_mean", "33_statistics_of_a_sample"),
    *("34_no_maximum_where_timed", "34_zero_mean_gradients", "34_zero_mean_gradients_norm"),
    "40_three_bfloat16_products",
}
KNOWING = {"01_side_stream_small", "22_virtual_only", "60_launch_credit"}  # honest where they know the virtual GPU
HARDWARE = {"22_cold_cache", "42_fast_tanh"}  # a cache that is cold, an instruction that is less than its exact value
OVERRUNS = {"37_overrun", "37_read_overrun"}  # seen by the virtual GPU before, or by compute-sanitizer
LIBRARY = {"43_library_flag"}  # a library of products, which need not be installed


def stem(specimen: CorpusFile) -> str:
    return Path(specimen.path).stem


ATTACKS = [one for one in read_corpus([TESTS / "exploits"]) if stem(one) not in LARGE | KNOWING | HARDWARE | LIBRARY]


def mostly_slow(specimens: Sequence[CorpusFile]) -> list[Any]:
    """Return all of a corpus: every fifth in every run, and the others as slow tests, for each takes seconds."""
    return [
        pytest.param(one, marks=pytest.mark.slow if place % 5 else (), id=stem(one))
        for place, one in enumerate(specimens)
    ]


@pytest.mark.parametrize("specimen", mostly_slow(read_corpus([TESTS / "honest"])))
def test_a_control_passes_and_is_timed(specimen: CorpusFile) -> None:
    found = examine(specimen, ALL, SEED)
    assert (found.verdict, found.stage) == (Verdict.PASS, "timing"), found.detail
    assert found.time_us


@pytest.mark.parametrize("specimen", mostly_slow(ATTACKS))
def test_an_attack_is_stopped(specimen: CorpusFile) -> None:
    hold(specimen, ALL)


@pytest.mark.slow
@pytest.mark.parametrize("specimen", [one for one in ATTACKS if stem(one) not in OVERRUNS], ids=stem)
def test_behaviour_alone_stops_it(specimen: CorpusFile) -> None:
    hold(specimen, BARE)


def hold(specimen: CorpusFile, config: EvaluationConfig) -> None:
    """It is stopped, or gains nothing where its header says so. Where is not asked: its clocks are none."""
    found = examine(specimen, config, SEED)
    assert not found.wrong, f"it passed, in {found.time_us} µs and the kernel inside in {found.honest_us}"
    assert not found.is_void, found.detail
