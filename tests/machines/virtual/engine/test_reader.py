"""Text that is not PTX, cut short, or from elsewhere: a sentence with the line, never a crash."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"

SAMPLE = (Path(__file__).parent / "sample.cu").read_text()


def entry(body: str) -> str:
    return f"{HEADER}.visible .entry k(.param .u64 p)\n{{\n{body}\n}}\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "begins with .version"),
        ("int main() {}", 1, "begins with .version"),
        ("; ModuleID = 'kernel'\ntarget triple", 1, "begins with .version"),
        (HEADER + "what", 4, "directive was expected"),
        (HEADER + ".gibberish x;", 4, ".gibberish"),
        (HEADER + ".global .f33 x;", 4, ".f33"),
        (HEADER + ".global .align 3 .f32 x;", 4, "power of two"),
        (HEADER + ".visible .entry k(", 4, "expected"),
        (entry("  add.s32 %r1, %r2"), 7, "expected"),
        (entry("  bra nowhere;"), 6, "nowhere"),
        (entry("  @%p1 exit;"), 6, "%p1"),
        (entry("  .reg .b32 %r<2>;\n  @%r1 exit;"), 7, "no predicate"),
        (entry("  .reg .b32 %r<99999999>;"), 6, "99999999"),
        (entry("  mov.b32 %r1, 0f123;"), 6, "digits"),
        (entry("  {{{ exit; }"), 8, "text ends"),
        (HEADER + ".global .b8 x[1099511627776];", 4, "4294967296 elements"),
        (HEADER + ".global .b8 x[4294967296][4294967296];", 4, "4294967296 elements"),
        (entry("  ld.u32 {}, [0];"), 6, "an operand was expected"),
        (entry("  call " + "(" * 100_000), 6, "nested brackets"),
        (entry("  mov.u32 " + "!" * 100_000), 6, "nested brackets"),
        (entry("  ld.u32 " + "[0," * 100_000), 6, "nested brackets"),
        (HEADER + ".global .b32 x[2] = " + "{" * 100_000, 4, "nested brackets"),
    ],
)
def test_sentence_with_its_line(gpu: Any, text: str, line: int, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        gpu.load(text)
    assert f"PTX line {line}:" in str(caught.value)


def test_every_truncation_is_a_sentence(gpu: Any, nvcc: Any) -> None:
    text = nvcc(SAMPLE)
    complete = 0
    for cut in range(0, len(text), 17):
        try:
            gpu.load(text[:cut])
            complete += 1
        except ValueError as error:
            assert re.match(r"PTX line \d+: ", str(error)), (cut, error)
    assert complete < len(text) // 17


def test_damaged_text_never_crashes(gpu: Any, nvcc: Any) -> None:
    """Bytes changed and removed at random: loading fails with a sentence, or the module runs or is refused."""
    text = nvcc(SAMPLE)
    rng = np.random.default_rng(0)
    x = gpu.array(np.zeros(64, np.float32))
    outcomes = set()
    for _ in range(400):
        at, length = int(rng.integers(0, len(text))), int(rng.integers(0, 4))
        damaged = (
            text[:at]
            + "".join(chr(int(c)) for c in rng.integers(32, 127, length))
            + text[at + int(rng.integers(0, 4)) :]
        )
        try:
            module = gpu.load(damaged)
        except ValueError as error:
            assert re.match(r"PTX line \d+: ", str(error))
            continue
        outcomes.add(gpu.launch(module, "sample", 1, 64, x, 2, shared=256).status)
    assert "done" in outcomes
    gpu.printed()


def test_unknown_instruction_is_named_when_reached(gpu: Any) -> None:
    body = ".reg .pred %p<2>; .reg .b32 %r<4>;\nld.param.u32 %r0, [p];\nsetp.eq.u32 %p0, %r0, 0;\n"
    body += "@%p0 bra DONE;\ntcgen05.fence::before_thread_sync;\nDONE: ret;"
    module = gpu.load(entry(body))
    assert gpu.launch(module, "k", 1, 32, np.uint64(0)).status == "done"
    outcome = gpu.launch(module, "k", 1, 32, np.uint64(1))
    assert (outcome.status, outcome.detail) == ("unknown", "tcgen05.fence::before_thread_sync")


@pytest.mark.parametrize(
    "name",
    [
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32",
        "add.f32x2 %d0, %d1, %d2",
        "mov.u32 %r0, %pm0",
        "shfl.up.b32 %r0, %r1, 1, 0",
    ],
)
def test_unknown_forms(gpu: Any, name: str) -> None:
    outcome = gpu.launch(gpu.load(entry(f".reg .b32 %r<4>; .reg .b64 %d<4>;\n{name};\nret;")), "k", 1, 32, np.uint64(0))
    assert (outcome.status, outcome.detail) == ("unknown", name.split()[0])


def call_chain(depth: int) -> str:
    """Functions that each call the next; the last answers with its number."""
    head = "".join(f".func (.param .b32 o) f{n}();\n" for n in range(depth + 1))
    inner = "{{ .param .b32 q; call.uni (q), f{}, (); ld.param.b32 %r0, [q]; }}"
    tails = [inner.format(n + 1) for n in range(depth)] + [f"mov.b32 %r0, {depth};"]
    made = (
        f".func (.param .b32 o) f{n}() {{ .reg .b32 %r<2>; {tail} st.param.b32 [o], %r0; ret; }}\n"
        for n, tail in enumerate(tails)
    )
    body = f".reg .b32 %r<2>; .reg .b64 %d<2>; {inner.format(0)}\nld.param.u64 %d0, [p]; st.global.b32 [%d0], %r0; ret;"
    return entry(body).replace(HEADER, HEADER + head + "".join(made))


def test_calls_go_deep(gpu: Any) -> None:
    found = gpu.array(np.zeros(1, np.int32))
    assert gpu.launch(gpu.load(call_chain(300)), "k", 1, 32, found).status == "done"
    assert found.numpy()[0] == 300
    with pytest.raises(ValueError, match="more than 1000 functions"):
        gpu.load(call_chain(1000))


def test_symbols_and_initializers(gpu: Any, nvcc: Any) -> None:
    module = gpu.load(nvcc(SAMPLE))
    size = gpu.library.engine_symbol.argtypes[3]._type_()
    address = gpu.library.engine_symbol(gpu.handle, module, b"words", size)
    assert (address > 0, size.value) == (True, 16)
    x = gpu.array(np.arange(64, dtype=np.float32))
    assert gpu.launch(module, "sample", 1, 64, x, 4, shared=256).status == "done"
    assert x.numpy()[4] == 6
    assert gpu.launch(module, "sample", 1, 64, x, 2, shared=256).status == "done"
    assert x.numpy()[2] == 6
