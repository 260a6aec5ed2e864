"""Each honest control through the whole evaluation: right, unusual, and passed."""

from pathlib import Path

import pytest
import torch

from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.corpus import CorpusFile, examine, read_corpus

torch.set_num_threads(1)
CONTROLS = read_corpus([Path(__file__).parent])
VIRTUAL = EvaluationConfig(device="vgpu")
SEED = 20250914  # a test must come out the same every time; `warpsmith audit` draws a secret one


def test_there_are_enough() -> None:
    assert len(CONTROLS) >= 15 and not any(one.attack for one in CONTROLS)


@pytest.mark.parametrize(
    "specimen", [one for one in CONTROLS if one.device != "cuda"], ids=lambda one: Path(one.path).stem
)
def test_a_control_passes(specimen: CorpusFile) -> None:
    found = examine(specimen, VIRTUAL, SEED)
    assert not found.wrong, f"{found.stage} {found.reason}: {found.detail}"
