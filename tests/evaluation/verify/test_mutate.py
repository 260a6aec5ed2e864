"""Mutation operators and rewrites: each has its places and changes one thing."""

from pathlib import Path

import pytest

from warpsmith.evaluation.verify.specimens import read_candidates
from warpsmith.languages.cuda.mutants import Harm, MutationOperator, mutants
from warpsmith.languages.cuda.mutation_operators import OPERATORS
from warpsmith.languages.cuda.rewrites import REWRITES, Rewrite, apply_rewrite
from warpsmith.languages.cuda.text import code_of, find_closing, line_of

CORPUS = read_candidates(Path(__file__).parents[3] / "corpus")
SEEDS = [one.source for one in CORPUS if one.origin.startswith("honest seed")]
KERNEL = """// a loop; __syncthreads();
__global__ void k(const float* x, float* out, int n) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += 32) sum += x[i];
  __syncthreads();
  if (threadIdx.x >= n) return;
  out[threadIdx.x] = sum;
}
void launch(int n) { k<<<(n + 31) / 32, 32>>>(0, 0, n); }
"""


def operator(name: str) -> MutationOperator:
    return next(one for one in OPERATORS if one.name == name)


def test_there_are_enough_and_some_break_the_build() -> None:
    assert len(OPERATORS) >= 14 and len({one.name for one in OPERATORS}) == len(OPERATORS)
    assert sum(one.harm is Harm.BUILD for one in OPERATORS) >= 4


@pytest.mark.parametrize("row", OPERATORS, ids=lambda row: row.name)
def test_every_operator_has_places_in_the_seeds(row: MutationOperator) -> None:
    made = [mutant for source in SEEDS for mutant in mutants(source, row)]
    assert len(made) >= 3


@pytest.mark.parametrize(
    ("name", "line", "text"),
    [
        ("off_by_one", 4, "i <= n;"),
        ("short_loop", 4, "i < n - 1;"),
        ("dropped_bound", 6, "\n  \n"),
        ("wrong_initial", 3, "float sum = 1.0f"),
        ("narrowed_sum", 4, "sum += __half2float(__float2half(x[i]));"),
        ("shifted_write", 7, "out[threadIdx.x + 1] ="),
        ("type_error", 3, "float* sum"),
    ],
)
def test_a_mutant_has_one_change_at_its_line(name: str, line: int, text: str) -> None:
    first = mutants(KERNEL, operator(name))[0]
    assert first.line == line and text in first.source and first.operator == name


def test_what_stands_in_a_comment_is_no_place() -> None:
    (only,) = mutants(KERNEL, operator("missing_barrier"))
    assert only.line == 5 and only.source.startswith("// a loop; __syncthreads();")


@pytest.mark.parametrize("row", REWRITES, ids=lambda row: row.name)
def test_a_rewrite_changes_code_and_no_comment(row: Rewrite) -> None:
    changed = [text for source in SEEDS if (text := apply_rewrite(source, row)) is not None]
    assert changed
    assert apply_rewrite("// kThreads\n", row) is None


def test_code_keeps_places_and_lines() -> None:
    source = 'a /* b\n c */ "d // e" // f\n\'"\' g'
    code = code_of(source)
    assert len(code) == len(source) and code.count("\n") == 2
    assert "b" not in code and "d" not in code and code.endswith("g")
    assert "d // e" in code_of(source, strings=True) and "f" not in code_of(source, strings=True)
    assert line_of(source, source.index("g")) == 3


def test_a_bracket_is_closed_where_it_closes() -> None:
    assert find_closing("f(a(b)c)d", 1) == 7
    assert find_closing("f(a", 1) == 3
