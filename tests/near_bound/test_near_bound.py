"""Wrong kernels whose errors are near the bound are refused; benchmarks/verdicts.py tries each a hundred times."""

import tomllib
from pathlib import Path

import pytest
import torch

from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.corpus import read_specimen
from warpsmith.evaluation.run import grade
from warpsmith.languages import language_of
from warpsmith.records import Candidate, Record, Verdict

torch.set_num_threads(1)
HERE = Path(__file__).parent
ROWS = tomllib.loads((HERE / "list.toml").read_text())["kernel"]
SEED = 20261119
QUICK = (  # one of each kind of share; the others are slow
    "attention, bfloat16, 8-bit scores for 94 % of the keys",
    "attention, float32, three products of bfloat16 after row 128",
    "linear, bfloat16, 8-bit integers for 30 % of the terms, spread",
    "softmax, threads sum in half precision",
    "layernorm without eps in the last tenth of the rows",
)


def graded(row: dict[str, str], macros: dict[str, str], seed: int) -> Record:
    path = HERE / row["file"]
    specimen = read_specimen(path)
    assert specimen is not None
    source = path.read_text()
    candidate = Candidate(
        task=specimen.task,
        direction=specimen.direction,
        source=source,
        language=language_of(source),
        macros=macros,
    )
    return grade(candidate, EvaluationConfig(device="vgpu", until="check"), seed)


def refuse(row: dict[str, str], seed: int) -> None:
    record = graded(row, dict(row["macros"]), seed)
    assert record.verdict is Verdict.FAIL and record.ended is not None, "it passed"
    assert (record.ended.stage, str(record.ended.reason)) in (("check", "wrong_value"), ("check", "precision"))


def test_the_list_has_every_kind_and_every_file() -> None:
    assert {row["file"] for row in ROWS} == {path.name for path in HERE.glob("*.cu")}
    assert len({row["name"] for row in ROWS}) == len(ROWS) >= 20 and {row["name"] for row in ROWS} >= set(QUICK)


@pytest.mark.parametrize("row", [row for row in ROWS if row["name"] in QUICK], ids=lambda row: row["name"])
def test_a_wrong_kernel_near_the_bound_is_refused(row: dict[str, str]) -> None:
    refuse(row, SEED)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_it_is_refused_by_other_seeds(row: dict[str, str]) -> None:
    for seed in (SEED + 1, SEED + 2):
        refuse(row, seed)


@pytest.mark.parametrize(
    ("file", "macros"),
    [
        ("attention.cu", {"KEYS": "0", "ROW_FROM": "100000"}),
        ("linear.cu", {"TERMS": "0"}),
        ("softmax.cu", {"ROW_FROM": "100"}),
        ("layernorm.cu", {"ROW_FROM": "100"}),
    ],
)
def test_the_same_kernel_with_no_narrow_share_passes(file: str, macros: dict[str, str]) -> None:
    record = graded({"file": file}, macros, SEED)
    assert record.verdict is Verdict.PASS, record.ended
