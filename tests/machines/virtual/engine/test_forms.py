"""Modifiers of an instruction: each is heeded, or the instruction is refused by name; none is passed over."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

REGISTERS = ".reg .b16 %h<4>; .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p<4>;"
HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def bits(*values: int, width: int = 4) -> NDArray[Any]:
    return np.array(values, f"u{width}")


def floats(*values: float) -> NDArray[Any]:
    return np.array(values, np.float32)


def status(gpu: Any, body: str) -> tuple[str, str]:
    text = f"{HEADER}.visible .entry k(.param .u64 p)\n{{\n{REGISTERS}\n{body};\nret;\n}}\n"
    outcome = gpu.launch(gpu.load(text), "k", 1, 32, np.uint64(0))
    return outcome.status, outcome.detail


@pytest.mark.parametrize(
    "form",
    [
        "add.quick.f32 %r0, %r1, %r2",
        "fma.rn.oob.f16 %h0, %h1, %h2, %h3",
        "add.f32.bf16 %r0, %h1, %r2",
        "max.abs.f32 %r0, %r1, %r2, %r3",
        "add.sat.f64 %d0, %d1, %d2",
        "add.f16 %h0, %h1, 0f3f800000",
        "cvt.rs.f16x2.f32 %r0, %r1, %r2, %r3",
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%r0}, %d0, %d1, 1, 1, 1",
    ],
)
def test_an_unknown_modifier_is_refused(gpu: Any, form: str) -> None:
    assert status(gpu, form) == ("unknown", form.split()[0])


@pytest.mark.parametrize(
    "form",
    [
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
        "testp.finite.f32",
        "isspacep.shared",
        "mbarrier.arrive.b64",
        "set",
        "wmma.load",
        "elect.sync",
    ],
)
def test_missing_operands_are_refused(gpu: Any, form: str) -> None:
    assert status(gpu, form) == ("unknown", form)


def test_zero_is_normal(evaluate: Any) -> None:
    a = floats(0.0, -0.0, 1e-40, -1e-40, 1.0, np.inf, np.nan)
    form = "testp.{}.f32 %p0, {{a}}; selp.u32 {{d}}, 1, 0, %p0;"
    assert evaluate(form.format("normal"), a, result=np.uint32).tolist() == [1, 1, 0, 0, 1, 0, 0]
    assert evaluate(form.format("subnormal"), a, result=np.uint32).tolist() == [0, 0, 1, 1, 0, 0, 0]


def test_saturation_of_24_bits(evaluate: Any) -> None:
    a, b, c = bits(0x7FFFFF, 0x800000, 5), bits(0x7FFFFF, 0x7FFFFF, 7), bits(0x7FFFFFFF, 0x80000000, 9)
    found = evaluate("mad24.hi.sat.s32 {d}, {a}, {b}, {c};", a, b, c, result=np.uint32)
    assert found.tolist() == [0x7FFFFFFF, 0x80000000, 9]


def test_pairs_are_combined_with_a_predicate(evaluate: Any) -> None:
    a, p = bits(0x3C003C00, 0x3C004000), bits(0, 1)
    form = "setp.ne.u32 %p0, {c}, 0; set.eq.and.f16x2.f16x2 {d}, {a}, {b}, %p0;"
    assert evaluate(form, a, bits(0x3C003C00, 0x3C003C00), p, result=np.uint32).tolist() == [0, 0x3C000000]


def test_halves_are_flushed_when_compared(evaluate: Any) -> None:
    a, zero = bits(1, 0x8001, 0x400, width=2), bits(0, 0, 0, width=2)
    one = evaluate("setp.eq.ftz.f16 %p0, {a}, {b}; selp.u32 {d}, 1, 0, %p0;", a, zero, result=np.uint32)
    assert one.tolist() == [1, 1, 0]
    pair = evaluate("set.eq.ftz.f16x2.f16x2 {d}, {a}, {b};", bits(0x00010400), bits(0), result=np.uint32)
    assert pair.tolist() == [0x3C000000]


@pytest.mark.parametrize(
    ("form", "size", "expected"),
    [
        ("cvt.rn.satfinite.f16.f32 {d}, {a};", 2, [0x7BFF, 0xFBFF, 0x7FFF, 0x3C00]),
        ("cvt.rz.satfinite.bf16.f32 {d}, {a};", 2, [0x7F7F, 0xFF7F, 0x7FFF, 0x3F80]),
        ("cvt.rn.satfinite.bf16x2.f32 {d}, {a}, {a};", 4, [0x7F7F7F7F, 0xFF7FFF7F, 0x7FFF7FFF, 0x3F803F80]),
        ("cvt.rna.satfinite.tf32.f32 {d}, {a};", 4, [0x7F7FE000, 0xFF7FE000, 0x7FFFFFFF, 0x3F800000]),
    ],
)
def test_satfinite(evaluate: Any, form: str, size: int, expected: list[int]) -> None:
    a = floats(3.4028e38, -np.inf, np.nan, 1.0)
    assert evaluate(form, a, result=f"u{size}").tolist() == expected


def test_integers_saturate_to_halves(evaluate: Any) -> None:
    found = evaluate("cvt.rn.sat.f16.s32 {d}, {a};", bits(5, 0xFFFFFFFB, 0, 1), result=np.uint16)
    assert found.tolist() == [0x3C00, 0, 0, 0x3C00]


def test_doubles_are_flushed_by_approximate_forms(evaluate: Any) -> None:
    a = np.array([2.0**-1023, -(2.0**1023), 2.0])
    assert evaluate("rcp.approx.ftz.f64 {d}, {a};", a, result=np.float64).tolist() == [np.inf, -0.0, 0.5]


@pytest.mark.parametrize(("space", "sum_bits"), [("global", 0), ("shared", 3)])
def test_sums_of_floats_are_flushed_in_global_memory(evaluate: Any, space: str, sum_bits: int) -> None:
    """PTX ISA, atom: in global memory subnormal floats are flushed, in shared memory they are not."""
    place = "[%q_a]" if space == "global" else "[%i4]"
    form = ".shared .align 4 .b8 s[128]; mov.u32 %i4, s; mad.lo.u32 %i4, %i2, 4, %i4; st.shared.b32 [%i4], {a};"
    form += f"atom.{space}.add.f32 %t0, {place}, {{b}}; ld.{space}.b32 {{d}}, {place};"
    found = evaluate(form, bits(*[1] * 32), bits(*[2] * 32), result=np.uint32)
    assert found.tolist() == [sum_bits] * 32
