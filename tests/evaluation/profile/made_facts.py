"""Profiles made up for tests of what is told of them."""

from warpsmith.records import (
    Binding,
    Ceilings,
    Checker,
    Finding,
    HotLine,
    KernelProfile,
    MeasuredTime,
    Metric,
    PassedOver,
    Place,
    ProfileFacts,
    ProfileSource,
    RooflinePlace,
    Severity,
)

CEILINGS = Ceilings(
    gpu="NVIDIA H200",
    measured=True,
    read_bytes_per_s=4.4e12,
    write_bytes_per_s=4.3e12,
    copy_bytes_per_s=4.2e12,
    l2_bytes_per_s=6.5e12,
    matmul_flops_per_s={"float32": 5e13, "tf32": 4e14, "float16": 7.6e14, "bfloat16": 7.5e14},
    launch_us=2.5,
)


def time(us: float) -> MeasuredTime:
    return MeasuredTime(us=us, low_us=us, high_us=us, samples=1)


def kernel(name: str = "softmax", us: float = 40.0, launches: int = 1) -> KernelProfile:
    shown = (
        Metric(name="DRAM traffic", value=3360.0, unit="GB/s"),
        Metric(name="of the measured ceiling", value=80.0, unit="%"),
    )
    return KernelProfile(
        name=name,
        launches=launches,
        time=time(us),
        dram_read_bytes=67.1e6,
        dram_written_bytes=67.1e6,
        sectors_per_request=16,
        bank_conflicts=1200,
        issue_active=0.31,
        tensor_active=0.0,
        occupancy=0.62,
        occupancy_limit=0.75,
        limiter="registers",
        stalls=(Metric(name="waiting for global or local memory", value=71.0, unit="%"),),
        registers=40,
        spill_bytes=48,
        shared_bytes=4096,
        place=RooflinePlace(
            fraction=0.8, floor_us=us * 0.8, intensity=0.6, flops_per_s=2e12, binding=Binding.DRAM, shown_by=shown
        ),
        lines=(HotLine(place=Place(file="kernel.cu", line=31), share=0.71, of="stall samples", code="sum += x[i];"),),
    )


def facts(*kernels: KernelProfile, source: ProfileSource = ProfileSource.NCU) -> ProfileFacts:
    rows = kernels or (kernel(),)
    total = sum(row.time.us * row.launches for row in rows if row.time)
    return ProfileFacts(
        source=source,
        passed_over=(PassedOver(source=ProfileSource.NCU, why="ncu is not on PATH"),)
        if source is not ProfileSource.NCU
        else (),
        gpu="NVIDIA H200",
        case="rows-4096",
        ceilings=CEILINGS,
        time=time(total),
        place=RooflinePlace(
            fraction=0.78, floor_us=0.78 * total, intensity=0.62, flops_per_s=2.1e12, binding=Binding.DRAM
        ),
        kernels=rows,
        findings=(Finding(checker=Checker.COMPILER, message="48 bytes spilled", severity=Severity.WARNING),),
    )
