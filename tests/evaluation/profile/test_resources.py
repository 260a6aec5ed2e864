"""What the compiler knows, as a profile of its own and as part of another."""

import pytest

from warpsmith.evaluation.profile.resources import add_compiler_facts, describe_losses, kernels
from warpsmith.machines.hardware import sm_limits
from warpsmith.records import Checker, CompileFacts, Finding, KernelProfile, KernelResources, Severity


def profiled(one: KernelResources, arch: str = "sm_90a") -> tuple[KernelProfile, ...]:
    return kernels(CompileFacts(arch=arch, kernels=(one,)))


WAITING = "Potential Performance Loss: wgmma.mma_async instructions are serialized due to"


def test_registers_limit_the_occupancy() -> None:
    (one,) = profiled(KernelResources(name="_Z1kPf", registers=128, spill_store_bytes=8, spill_load_bytes=16))
    assert (one.name, one.limiter, one.spill_bytes) == ("k", "registers", 24)
    assert one.occupancy_limit == pytest.approx(2 * 256 / 2048)
    assert (one.time, one.place) == (None, None)


def test_shared_memory_limits_it_too() -> None:
    (one,) = profiled(KernelResources(name="k", registers=32, shared_bytes=100_000))
    assert (one.limiter, one.occupancy_limit) == ("shared memory", 0.25)


@pytest.mark.parametrize(
    ("arch", "registers", "shared_bytes", "occupancy", "limiter"),
    [
        ("sm_80", 32, 0, 1.0, "threads"),
        ("sm_86", 32, 0, 1.0, "threads"),  # 6 blocks of 1536 threads, not 8 of 2048
        ("sm_89", 40, 0, 1.0, "threads"),
        ("sm_89", 64, 0, 4 * 256 / 1536, "registers"),
        ("sm_80", 64, 0, 4 * 256 / 2048, "registers"),
        ("sm_89", 32, 50_000, 2 * 256 / 1536, "shared memory"),
        ("sm_80", 32, 50_000, 3 * 256 / 2048, "shared memory"),
        ("sm_80", 32, 32 << 10, 4 * 256 / 2048, "shared memory"),  # 5 without what the system reserves
        ("sm_75", 64, 0, 4 * 256 / 1024, "threads"),
        ("sm_52", 64, 0, None, ""),
    ],
)
def test_the_limits_are_those_of_the_architecture(
    arch: str, registers: int, shared_bytes: int, occupancy: float | None, limiter: str
) -> None:
    (one,) = profiled(KernelResources(name="k", registers=registers, shared_bytes=shared_bytes), arch)
    assert (one.occupancy_limit, one.limiter) == (occupancy, limiter)


def test_registers_and_warps_are_allocated_in_grains() -> None:
    blocks = sm_limits("9.0").blocks(96, 33, 1)
    assert blocks["registers"] == 65536 // (4 * 40 * 32)  # 4 warps of 40 registers a thread
    assert blocks["shared memory"] == 233472 // (1024 + 128)


def test_a_profile_learns_its_spills() -> None:
    seen = KernelProfile(name="k<float>", launches=1, registers=40)
    (one,) = add_compiler_facts([seen], [KernelResources(name="_Z1kIfEvPT_", registers=99, spill_load_bytes=4)])
    assert (one.spill_bytes, one.registers) == (4, 40)
    assert add_compiler_facts([seen], []) == (seen,)


def warned(message: str) -> Finding:
    return Finding(checker=Checker.COMPILER, severity=Severity.WARNING, message=message)


def test_what_costs_speed_is_said_once_for_all_kernels_of_a_template() -> None:
    facts = CompileFacts(
        findings=(
            warned(
                f"{WAITING} insufficient register resources for the wgmma pipeline in the function '_Z4sideIfEvPT_'"
            ),
            warned(f"{WAITING} insufficient register resources for the function '_Z4sideIdEvPT_'"),
            warned(f"{WAITING} ill formed pipeline stage in the function '_Z5otherIdEvPT_LongNameThatWasCut"),
            warned("Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirements."),
            warned("variable n was declared but never referenced"),
        ),
        kernels=(
            KernelResources(name="_Z4sideIfEvPT_", registers=168, spill_store_bytes=4, spill_load_bytes=4),
            KernelResources(name="_Z4sideIdEvPT_", registers=168, spill_store_bytes=40, spill_load_bytes=60),
            KernelResources(name="_Z5otherIdEvPT_", registers=32),
        ),
    )
    assert list(describe_losses(facts)) == [
        "side: wgmma.mma_async instructions are serialized due to insufficient register resources",
        "other: wgmma.mma_async instructions are serialized due to ill formed pipeline stage",
        "'setmaxnreg' ignored to maintain minimum register requirements.",
        "spilled: side 100 bytes",
    ]
    assert list(describe_losses(CompileFacts())) == []
