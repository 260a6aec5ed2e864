"""Findings from the text of compute-sanitizer 2025.3, captured on an H200, and from forms that its manual shows."""

from pathlib import Path

import pytest

from warpsmith.evaluation.check.sanitizer import SanitizerReport, read_sanitizer
from warpsmith.records import Checker, Finding, Place, Severity, Span

CAPTURED = Path(__file__).parent / "captured"


def captured(name: str) -> SanitizerReport:
    return read_sanitizer((CAPTURED / f"{name}.txt").read_text())


def only(report: SanitizerReport) -> Finding:
    (finding,) = report.findings
    return finding


def test_an_overrun_with_everything_that_is_known_of_it() -> None:
    report = captured("memcheck_overrun")
    finding = only(report)
    assert report.errors == 65
    assert (finding.checker, finding.severity, finding.count) == (Checker.OUT_OF_BOUNDS, Severity.ERROR, 3)
    assert (finding.kernel, finding.place) == ("overrun", Place(file="bad.cu", line=4))
    assert (finding.thread, finding.block) == ((0, 0, 0), (0, 0, 0))
    assert finding.span == Span(start=0x7F70B4800300, bytes=4, space="global")
    assert "1 bytes after the nearest allocation" in finding.message


def test_a_race_names_both_sides_and_counts_hazards() -> None:
    finding = only(captured("racecheck_racing"))
    assert (finding.checker, finding.count, finding.kernel) == (Checker.RACE, 256, "racing")
    assert finding.place == Place(file="bad.cu", line=5)
    assert "Write access" in finding.message
    assert "Read access" in finding.message


def test_a_read_of_what_nobody_wrote() -> None:
    finding = only(captured("initcheck_unwritten"))
    assert (finding.checker, finding.kernel, finding.count) == (Checker.UNINITIALIZED, "unwritten", 4)
    assert finding.span is not None
    assert finding.span.bytes == 4


def test_a_barrier_that_part_of_a_block_reaches() -> None:
    finding = only(captured("synccheck_half_barrier"))
    assert (finding.checker, finding.place) == (Checker.BARRIER, Place(file="bad.cu", line=7))
    assert finding.thread == (32, 0, 0)


@pytest.mark.parametrize("name", ["memcheck_clean", "racecheck_clean"])
def test_a_clean_run_has_a_summary_of_none(name: str) -> None:
    assert captured(name) == SanitizerReport((), 0)


def test_no_summary_is_no_all_clear() -> None:
    report = read_sanitizer(
        "========= COMPUTE-SANITIZER\n"
        "========= Error: Target application terminated before first instrumented API call\n"
    )
    assert report.errors is None
    assert report.remarks == ("Error: Target application terminated before first instrumented API call",)
    assert read_sanitizer("").errors is None


def test_a_misaligned_access_and_the_kernel_behind_a_device_function() -> None:
    finding = only(
        read_sanitizer(
            "========= Invalid __shared__ read of size 16 bytes\n"
            "=========     at load4(const float *)+0x40 in vector.cuh:9\n"
            "=========     by thread (1,2,0) in block (3,0,0)\n"
            "=========     Address 0x14 is misaligned\n"
            "=========         Device Frame: void tile<float>(float *, int)+0x100 in kernel.cu:31\n"
            "========= ERROR SUMMARY: 1 error\n"
        )
    )
    assert (finding.checker, finding.kernel) == (Checker.MISALIGNED, "tile<float>")
    assert finding.place == Place(file="vector.cuh", line=9)
    assert finding.span == Span(start=0x14, bytes=16, space="shared")


def test_a_fault_in_a_toolkit_header_is_placed_in_the_source() -> None:
    finding = only(
        read_sanitizer(
            "========= Barrier error detected. Invalid arguments.\n"
            "=========     at __syncwarp(unsigned int)+0xe0 in sm_30_intrinsics.hpp:110\n"
            "=========         Device Frame: broken(float *)+0xb0 in kernel.cu:12\n"
        )
    )
    assert (finding.kernel, finding.place) == ("broken", Place(file="kernel.cu", line=12))


def test_an_api_error_counts_as_an_error_only_when_a_kernel_caused_it() -> None:
    hit = '========= Program hit {} (error {}) due to "x" on CUDA API call to cudaStreamSynchronize.\n'
    failed = only(read_sanitizer(hit.format("cudaErrorIllegalAddress", 700)))
    refused = only(read_sanitizer(hit.format("cudaErrorInvalidValue", 1)))
    assert (failed.checker, failed.severity) == (Checker.LAUNCH, Severity.ERROR)
    assert refused.severity is Severity.WARNING


def test_a_race_that_the_tool_calls_a_warning_is_one() -> None:
    finding = only(
        read_sanitizer(
            "========= Warning: Race reported between Read access at k(float *)+0x50 in k.cu:5\n"
            "=========     and Write access at k(float *)+0x90 in k.cu:6 [32 hazards]\n"
        )
    )
    assert (finding.severity, finding.count, finding.place) == (Severity.WARNING, 32, Place(file="k.cu", line=5))


def test_an_unknown_fault_in_a_kernel_is_still_a_finding() -> None:
    finding = only(read_sanitizer("========= Stack overflow\n=========     at deep(int)+0x10 in k.cu:3\n"))
    assert (finding.checker, finding.kernel) == (Checker.TRAP, "deep")


def test_leaks_count_though_they_have_no_place() -> None:
    report = read_sanitizer(
        "========= Leaked 100 bytes at 0x7f0000000000\n=========     Saved host backtrace\n"
        "========= LEAK SUMMARY: 100 bytes leaked in 1 allocations\n========= ERROR SUMMARY: 1 error\n"
    )
    assert (only(report).checker, report.errors) == (Checker.LEAK, 1)


def test_a_summary_of_what_was_not_printed_is_not_counted_twice() -> None:
    text = (
        "========= ERROR SUMMARY: 257 errors\n========= ERROR SUMMARY: 157 errors were not printed. Use --print-limit\n"
    )
    assert read_sanitizer(text).errors == 257
