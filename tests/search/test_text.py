"""What is read from a kernel's text: tokens, likeness, novelty, technique tags, cells."""

import pytest
from evolving import KERNEL, kernel, start

from warpsmith.languages.cuda.tags import RULES, cell, tags
from warpsmith.languages.cuda.tokens import Novelty, normal_digest, normal_key, similarity, tokens


def test_comments_and_layout_are_no_tokens_but_strings_are() -> None:
    assert tokens('int  a;// x\n/* y */ a<<<1,2>>>("// no");') == (
        "int", "a", ";", "a", "<<<", "1", ",", "2", ">>>", "(", '"// no"', ")", ";",
    )  # fmt: skip


def test_the_same_kernel_in_another_layout_has_the_same_digest() -> None:
    other = KERNEL.replace("  ", "\t").replace("// tune: VEC = 1 [1, 2, 4]", "// something else")
    assert normal_digest(KERNEL, {}) == normal_digest(other, {})
    assert normal_digest(KERNEL, {}) != normal_digest(KERNEL, {"VEC": "2"})
    assert normal_digest(KERNEL, {}) != normal_digest(KERNEL.replace("2.0f", "3.0f"), {})


def test_a_kernel_is_the_same_wherever_it_comes_from() -> None:
    elsewhere = start().model_copy(update={"task": "elsewhere/layernorm", "parents": ("x",), "origin": "user"})
    assert normal_key(start()) == normal_key(elsewhere) != normal_key(start(kernel("1.0f")))


def test_other_names_of_variables_change_nothing_but_other_types_and_functions_do() -> None:
    other = KERNEL.replace("int i ", "int place ").replace("[i]", "[place]").replace("(i <", "(place <")
    assert other != KERNEL and normal_digest(other, {}) == normal_digest(KERNEL, {})
    first = "float4 v = w; out[i] = expf(v.x);"
    for changed in (
        "uint4 v = w; out[i] = expf(v.x);",
        "float4 v = w; out[i] = logf(v.x);",
        "float4 v = w; out[i] = expf(v.y);",
    ):
        assert normal_digest(first, {}) != normal_digest(changed, {})


def test_one_changed_constant_in_a_long_kernel_is_new() -> None:
    seen, long = Novelty(), KERNEL + "\n".join(f"int f{n}(int a) {{ return a + {n}; }}" for n in range(40))
    seen.add(long, {})
    assert seen.duplicate_reason(long.replace("2.0f", "3.0f"), {}) == ""


def test_similarity_runs_from_nothing_to_one() -> None:
    assert similarity(KERNEL, KERNEL) == 1.0
    assert 0.8 < similarity(KERNEL, KERNEL.replace("2.0f", "3.0f")) < 1.0
    assert similarity("a b c d e f", "g h i j k l") == 0.0


def test_what_was_proposed_before_is_not_new() -> None:
    seen = Novelty()
    seen.add(KERNEL, {})
    assert "proposed before" in seen.duplicate_reason(KERNEL.replace("\n", "\n\n"), {})
    assert seen.duplicate_reason(KERNEL, {"VEC": "2"}) == ""
    assert seen.duplicate_reason(kernel("x[i] + x[i]"), {}) == ""


def test_nearly_the_same_is_not_new_and_says_how_near() -> None:
    seen = Novelty(near=0.9)
    seen.add(KERNEL, {})
    assert "counts as the same" in seen.duplicate_reason(KERNEL.replace("2.0f", "3.0f"), {})


def test_a_kernel_without_a_verdict_may_be_proposed_once_more() -> None:
    novelty = Novelty()
    novelty.add_undecided(KERNEL, {})
    assert novelty.duplicate_reason(KERNEL, {}) == ""
    novelty.add_undecided(KERNEL, {})
    assert "before" in novelty.duplicate_reason(KERNEL, {})


def test_novelty_forgets_the_oldest_first() -> None:
    seen = Novelty(near=0.9, room=1, digests=2)
    for value in ("1.0f", "x[i] / 7 + 3", "fabsf(x[i])"):
        seen.add(kernel(value), {})
    assert seen.duplicate_reason(kernel("1.0f"), {}) == ""
    assert seen.duplicate_reason(kernel("fabsf(x[i])"), {}) != ""


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("__shared__ float tile[32];", "shared"),
        ("v += __shfl_xor_sync(~0u, v, 1);", "warp-shuffle"),
        ("float4 v = *reinterpret_cast<const float4*>(x);", "vector-load"),
        ('asm("cp.async.cg.shared.global [%0], [%1], 16;");', "async-copy"),
        ('asm("mma.sync.aligned.m16n8k16.row.col.f32");', "tensor-core"),
        ("nvcuda::wmma::load_matrix_sync(a, p, 16);", "tensor-core"),
        ("cublasSgemm(h, a, b);", "library"),
        ("atomicAdd(out, v);", "atomic"),
        ("for (; i < n; i += gridDim.x * blockDim.x) {}", "grid-stride"),
        ("__half2 v;", "packed-half"),
        ("#pragma unroll\nfor (;;) {}", "unrolled"),
        ("a<<<1, 2>>>(); b<<<1, 2>>>();", "many-launches"),
    ],
)
def test_a_technique_shows_in_the_text(text: str, tag: str) -> None:
    assert tag in tags(text)
    assert tag not in tags(f"/* {text.replace(chr(10), ' ')} */") or tag == "one-launch"


def test_every_rule_is_named_once_and_a_comment_shows_nothing() -> None:
    assert len(RULES) >= 15
    assert tags("// float4 __shared__ atomicAdd(") == ("one-launch",)


def test_a_cell_tells_structure_strategy_and_what_binds_apart() -> None:
    plain = cell(KERNEL, {}, "dram")
    assert plain != cell(KERNEL, {}, "latency")
    assert plain != cell(KERNEL.replace("int i", "__shared__ float t[1]; int i"), {}, "dram")
    assert plain != cell(KERNEL, {"STRATEGY": "2"}, "dram")
    assert plain == cell(KERNEL, {"BLOCK": "64"}, "dram")


@pytest.mark.usefixtures("linear_time")
@pytest.mark.parametrize("opening", ["/* ", '"\\', 'R"('])
def test_an_answer_of_openings_keeps_nobody_busy(opening: str) -> None:
    source = opening * ((1 << 18) // len(opening))
    assert tags(source)[-1] == "one-launch" and normal_digest(source, {})
