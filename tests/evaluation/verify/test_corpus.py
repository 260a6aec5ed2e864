"""The labelled corpus of the checkout: large enough, fair in its order, and no question tells its answer."""

import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
import torch

from warpsmith.evaluation.verify import Verifiers, verify
from warpsmith.evaluation.verify.aggregate import shipped_weights
from warpsmith.evaluation.verify.specimens import Label, SpecimenOrigin, kind_of, read_candidates, read_specimens
from warpsmith.languages.cuda.mutation_operators import OPERATORS
from warpsmith.languages.cuda.rewrites import REWRITES
from warpsmith.records import Candidate
from warpsmith.tasks.host import open_task

torch.set_num_threads(1)
ROOT = Path(__file__).parents[3]
CORPUS = read_candidates(ROOT / "corpus")
SEED = 20250914
SAMPLE = 3  # of each label: `make corpus` looks at all of them
TELLING = re.compile(r"\b(attack|honest|control|mutant|cheat|exploit)", re.IGNORECASE)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("corpus_script", ROOT / "scripts" / "corpus.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["corpus_script"] = module
    spec.loader.exec_module(module)
    return module


def test_it_is_large_enough_and_has_no_kernel_twice() -> None:
    kinds = Counter(kind_of(one) for one in CORPUS)
    assert kinds[SpecimenOrigin.MUTANT] >= 200 and kinds[SpecimenOrigin.HONEST] >= 60
    assert len({one.id for one in CORPUS}) == len(CORPUS)


def test_every_operator_and_every_task_is_in_it() -> None:
    made = Counter(one.origin.split()[1] for one in CORPUS)
    assert all(made[operator.name] >= 3 for operator in OPERATORS)
    assert all(made[rewrite.name] >= 3 for rewrite in REWRITES)
    assert len({(one.task, one.direction) for one in CORPUS}) == 32


def test_any_beginning_is_a_fair_sample() -> None:
    share = sum(kind_of(one) is SpecimenOrigin.MUTANT for one in CORPUS) / len(CORPUS)
    first = sum(kind_of(one) is SpecimenOrigin.MUTANT for one in CORPUS[:60]) / 60
    assert abs(first - share) < 0.15


def test_a_mutant_names_a_parent_that_is_there() -> None:
    known = {one.id for one in CORPUS}
    assert all(set(one.parents) <= known for one in CORPUS if kind_of(one) is SpecimenOrigin.MUTANT)


def test_a_kernel_as_a_reviewer_sees_it_does_not_tell_what_it_is(script: ModuleType) -> None:
    shown = [script.anonymous(one).source for one in [*CORPUS[:80], *script.attacks()]]
    assert not [text for text in shown if TELLING.search(text)]


def test_the_same_seeds_make_the_same_corpus(script: ModuleType) -> None:
    seeds = sorted((ROOT / "src" / "warpsmith" / "tasks" / "suite").glob("rope/seed_*.cu"))
    assert script.corpus(seeds) == script.corpus(seeds)


def stopped(candidate: Candidate) -> bool:
    with open_task(candidate.task) as opened:
        return not verify(candidate, opened, SEED, Verifiers(weights=shipped_weights())).go


def test_a_sample_of_honest_kernels_raises_no_alarm() -> None:
    honest = [one for one in CORPUS if kind_of(one) is SpecimenOrigin.HONEST][:SAMPLE]
    assert not [one.origin for one in honest if stopped(one)]


def test_a_sample_of_wrong_kernels_is_stopped() -> None:
    wrong = [one for one in read_specimens(ROOT / "corpus") if one.label is Label.WRONG][: 2 * SAMPLE]
    missed = [one.candidate.origin for one in wrong if not stopped(one.candidate)]
    assert len(missed) <= 1, missed
