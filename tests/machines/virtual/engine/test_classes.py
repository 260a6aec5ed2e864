"""What an instruction counts as: the unit that compute capability 9.0 does it in, and how much of that it takes."""

from typing import Any

import pytest

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .b16 %h<4>; .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .f32 %f<4>; .reg .f64 %g<4>;"
QUIET = {"control": 1}  # the return


def classes(gpu: Any, text: str) -> dict[str, int]:
    module = gpu.load(f"{HEADER}.visible .entry k()\n{{\n{REGISTERS}\n{text}\nret;\n}}\n")
    outcome = gpu.launch(module, "k", 1, 32)
    assert outcome.status == "done", outcome.detail
    return dict(outcome.counters["classes"])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cvt.f32.bf16 %f1, %h1;", "int"),  # a shift
        ("cvt.f32.f16 %f1, %h1;", "fp16"),  # an addition of zero
        ("cvt.rn.bf16.f32 %h1, %f1;", "int"),  # a pack
        ("cvt.rn.bf16x2.f32 %r1, %f1, %f2;", "int"),
        ("cvt.rn.f32.s32 %f1, %r1;", "int"),
        ("cvt.u64.u32 %d1, %r1;", "int"),
        ("cvt.rzi.s32.f32 %r1, %f1;", "convert"),
        ("cvt.rni.f32.f32 %f1, %f2;", "convert"),
        ("cvt.f64.f32 %g1, %f1;", "convert"),
    ],
)
def test_only_some_conversions_need_the_slow_unit(gpu: Any, text: str, name: str) -> None:
    assert classes(gpu, text) == QUIET | {name: 1}


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("div.s32 %r1, %r2, %r3;", {"int": 22}),
        ("rem.u64 %d1, %d2, %d3;", {"int": 80}),
        ("div.rn.f32 %f1, %f2, %f3;", {"fp32": 12}),
        ("sqrt.rn.f32 %f1, %f2;", {"fp32": 8}),
        ("div.rn.f64 %g1, %g2, %g3;", {"fp64": 16}),
        ("div.approx.f32 %f1, %f2, %f3;", {"sfu": 1}),
        ("add.f32 %f1, %f2, %f3;", {"fp32": 1}),
    ],
)
def test_a_division_counts_as_what_it_becomes(gpu: Any, text: str, counted: dict[str, int]) -> None:
    assert classes(gpu, text) == QUIET | counted


@pytest.mark.parametrize(("columns", "registers"), [(8, 2), (32, 8)])
def test_a_product_of_a_warp_group_counts_by_its_columns(gpu: Any, columns: int, registers: int) -> None:
    sums = ", ".join(f"%s{i}" for i in range(registers))
    text = f""".reg .b32 %s<8>; .shared .align 128 .b8 tile[4096]; mov.u32 %r0, tile;
      wgmma.fence.sync.aligned;
      wgmma.mma_async.sync.aligned.m64n{columns}k16.f16.f16.f16 {{{sums}}}, {{%r0, %r1, %r2, %r3}}, %d1, 0, 1, 1, 0;
      wgmma.commit_group.sync.aligned;
      wgmma.wait_group.sync.aligned 0;"""
    module = gpu.load(f"{HEADER}.visible .entry k()\n{{\n{REGISTERS}\n{text}\nret;\n}}\n")
    outcome = gpu.launch(module, "k", 1, 128)
    assert outcome.status == "done", outcome.detail
    counted = outcome.counters["classes"]
    assert counted["wgmma"] == 4 * columns // 8  # four warps, in products of 16x8x16
    assert "tensor" not in counted
