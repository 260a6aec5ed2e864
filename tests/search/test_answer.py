"""Answers of models: a draft, or a typed reason why there is none."""

import pytest
from evolving import KERNEL, answer

from warpsmith.search.proposals.answer import AnswerFault, Draft, PatchFault, UnusableProposal, apply_patch, read_answer

PYTHON = "```python\nimport triton\n\n@triton.jit\ndef kernel(x):\n    pass\n```"
PATCH = "```diff\n--- a\n+++ b\n@@ -1,2 +1,2 @@\n   int i = blockIdx.x * BLOCK + threadIdx.x;\n-  if (i < n) out[i] = x[i] * 2.0f;\n+  if (i < n) out[i] = x[i] + x[i];\n }\n```"  # noqa: E501


def test_an_answer_gives_name_thought_and_code() -> None:
    draft = read_answer(answer(KERNEL, "wide loads"))
    assert draft == Draft("wide loads", "it is better.", KERNEL)


@pytest.mark.parametrize("language", ["cuda", "cpp", "c++", "CUDA", "cu", ""])
def test_a_block_may_be_named_as_models_name_it(language: str) -> None:
    draft = read_answer(f"**Name:** x\n```{language}\n{KERNEL}```")
    assert isinstance(draft, Draft) and draft.name == "x" and draft.code == KERNEL


@pytest.mark.parametrize(
    "text",
    [
        answer(KERNEL, "x").replace("\n", "\r\n"),
        answer(KERNEL, "x").replace("\n", "\r"),
        "\ufeff" + answer(KERNEL, "x"),
        answer(KERNEL, "x").replace("```cuda", "```softmax.cu"),
        answer(KERNEL, "x").replace("```cuda", "````cuda").replace("```\n", "`````\n"),
        answer(KERNEL, "x").replace("```", "~~~"),
        f"<think>\n{answer('__global__ void draft();', 'y')}</think>\n{answer(KERNEL, 'x')}",
        f"perhaps:\n{answer('__global__ void draft();', 'y')}</think>\n{answer(KERNEL, 'x')}",
    ],
)
def test_it_is_read_however_it_was_written(text: str) -> None:
    draft = read_answer(text)
    assert isinstance(draft, Draft) and draft.name == "x" and draft.code == KERNEL


def test_a_patch_with_the_line_ends_of_windows_is_applied() -> None:
    draft = read_answer(PATCH.replace("\n", "\r\n"), KERNEL)
    assert isinstance(draft, Draft) and "x[i] + x[i]" in draft.code and "\r" not in draft.code


@pytest.mark.usefixtures("linear_time")
def test_a_long_answer_without_sense_is_read_at_once() -> None:
    for text in ("```a b\n~~~\n" * 100_000, "`" * 1_000_000, "\n" * 1_000_000 + "x", "# * " * 250_000):
        assert isinstance(read_answer(text), UnusableProposal)
    assert isinstance(read_answer("\n" * 200_000 + f"```cuda\n{KERNEL}```"), Draft)


def test_code_without_a_block_is_taken_where_it_begins() -> None:
    draft = read_answer(f"Name: bare\n{KERNEL[KERNEL.index('#include') :]}")
    assert isinstance(draft, Draft) and draft.name == "bare" and draft.code.startswith("#include")


def test_the_same_block_twice_is_one_kernel() -> None:
    assert isinstance(read_answer(answer(KERNEL) + answer(KERNEL)), Draft)


def test_other_blocks_beside_the_kernel_do_no_harm() -> None:
    assert isinstance(read_answer(f"```text\nplan\n```\n{answer(KERNEL)}\n```python\nprint(1)\n```"), Draft)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", AnswerFault.EMPTY),
        (" \n\t", AnswerFault.EMPTY),
        ("I would use shared memory here.", AnswerFault.NO_CODE),
        ("```cuda\nint x = 1;\n```", AnswerFault.NO_CODE),
        (answer(KERNEL) + answer(KERNEL.replace("2.0f", "3.0f")), AnswerFault.SEVERAL_BLOCKS),
        (PYTHON, AnswerFault.WRONG_LANGUAGE),
        ("```\nfn main() {}\n```", AnswerFault.WRONG_LANGUAGE),
        ("I'm sorry, but I can't help with that.", AnswerFault.REFUSAL),
        (f"Name: x\n```cuda\n{KERNEL}", AnswerFault.CUT_OFF),
        (answer(KERNEL + "// " + "x" * (1 << 18) + "\n"), AnswerFault.TOO_LONG),
        (PATCH, AnswerFault.PATCH_FAILED),
    ],
)
def test_an_answer_without_a_kernel_says_why(text: str, fault: AnswerFault) -> None:
    bad = read_answer(text)
    assert isinstance(bad, UnusableProposal) and bad.fault is fault and bad.detail


def test_a_patch_is_applied_to_what_it_was_asked_for() -> None:
    draft = read_answer(f"Name: sum\n{PATCH}", KERNEL)
    assert isinstance(draft, Draft) and "x[i] + x[i]" in draft.code and "2.0f" not in draft.code


def test_a_patch_of_other_lines_does_not_apply() -> None:
    bad = read_answer(PATCH.replace("threadIdx.x;", "threadIdx.y;"), KERNEL)
    assert isinstance(bad, UnusableProposal) and bad.fault is AnswerFault.PATCH_FAILED and "Hunk 1" in bad.detail


def test_a_patch_that_changes_nothing_is_no_proposal() -> None:
    bad = read_answer("```diff\n@@\n #include <torch/extension.h>\n```", KERNEL)
    assert isinstance(bad, UnusableProposal) and "changes nothing" in bad.detail


def test_hunks_are_found_by_content_whatever_their_numbers() -> None:
    patch = "@@ -900,3 +900,3 @@\n a\n-b\n+B\n\n@@ @@\n-d\n+D\n"
    assert apply_patch("a\nb\n\nc\nd\n", patch) == "a\nB\n\nc\nD\n"
    assert isinstance(apply_patch("a\n", "no hunk at all"), PatchFault)
    assert isinstance(apply_patch("a\n", ""), PatchFault)
