"""The wording of each tool, from text alone."""

import struct

import pytest

from warpsmith.languages.nvcc.artifact import Elf
from warpsmith.languages.nvcc.diagnose import Diagnostic, read_diagnostics, to_findings
from warpsmith.languages.nvcc.operators import called_operator
from warpsmith.languages.nvcc.ptxas import resource_rows
from warpsmith.languages.nvcc.reading import Reading
from warpsmith.records import Checker, KernelResources, Severity

EDG = """kernel.cu(5): error: no operator "+" matches these operands
            operand types are: c10::Tensor + c10::Tensor
    auto c = x + y;
               ^
cuda/include/cuda_bf16.hpp(353): note #3322-D: number of parameters does not match the call
  long line
  ^

kernel.cu(16): warning #177-D: variable "n" was declared but never referenced
    int n;
        ^

1 error detected in the compilation of "kernel.cu".
"""


def test_edg_message_continuation_and_column() -> None:
    error, warning = read_diagnostics(EDG)
    assert (error.line, error.column, error.is_error) == (5, 14, True)
    assert error.text.endswith("operand types are: c10::Tensor + c10::Tensor")
    assert warning.level == "warning" and warning.line == 16
    assert called_operator(error) == "at::add (operator + on tensors)"


LINES = {
    "kernel.cu:1:10: fatal error: x.h: No such file or directory": ("fatal error", 1, 10),
    "ptxas kernel.ptx, line 23; error   : Unknown opcode": ("error", 23, 0),
    "ptxas fatal   : Ptx assembly aborted due to errors": ("fatal", 0, 0),
    "nvcc error   : 'cicc' died due to signal 11": ("error", 0, 0),
    "/tmp/cc.s:85: Error: file not found: /etc/x": ("error", 85, 0),
    "kernel.cu:7: undefined reference to `foo'": ("error", 0, 0),
    "kernel.cu(3): catastrophic error: out of ideas": ("catastrophic error", 3, 0),
    'At end of source: error: expected a "}"': ("error", 0, 0),
}


@pytest.mark.parametrize(("line", "wanted"), LINES.items())
def test_each_tool(line: str, wanted: tuple[str, int, int]) -> None:
    (found,) = read_diagnostics(line)
    assert (found.level, found.line, found.column) == wanted


def test_the_same_complaint_of_two_passes_is_one() -> None:
    assert len(read_diagnostics("kernel.cu(1): error: a\nkernel.cu(1): error: a\nkernel.cu(2): error: a")) == 2


def test_findings_are_few_and_errors_come_first() -> None:
    errors = tuple(Diagnostic("error", f"e{i}", "kernel.cu", i + 1) for i in range(50))
    warnings = tuple(Diagnostic("warning", "w" * 2000, "kernel.cu", i + 1) for i in range(50))
    foreign = (Diagnostic("warning", "theirs", "include/x.h", 1),)
    findings = to_findings((*foreign, *warnings, *errors))
    assert {finding.checker for finding in findings} == {Checker.COMPILER}
    assert len(findings) == 12 and findings[0].message == "e0" and findings[-1].severity is Severity.WARNING
    assert all(len(finding.message) <= 400 and finding.message != "theirs" for finding in findings)


SERIAL = """\
ptxas info    : (C7517) warpgroup.wait is injected in around line 62 by compiler to allow use of registers in 'k'
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient \
register resources for the wgmma pipeline in the function 'k'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
"""


def test_matrix_instructions_that_wait_for_each_other_are_a_warning() -> None:
    (found,) = to_findings(read_diagnostics(SERIAL))
    assert (found.severity, found.place) == (Severity.WARNING, None)
    assert found.message.startswith("Potential Performance Loss: wgmma.mma_async instructions are serialized")


def test_no_number_of_warnings_hides_them() -> None:
    unused = "".join(
        f'kernel.cu({n}): warning #177-D: variable "v{n}" was declared but never referenced\n' for n in range(40)
    )
    found = to_findings(read_diagnostics(unused + SERIAL))
    assert found[0].message.startswith("Potential Performance Loss") and 2 < len(found) < 20


def test_a_place_in_a_temporary_file_is_none() -> None:
    assert Diagnostic("error", "x", "/tmp/a.ptx", 3).finding().place is None
    linked = Diagnostic("error", "undefined reference to foo", tool="linker").finding()
    assert linked.checker is Checker.LINK and linked.place is None


PTXAS = """ptxas info    : 8 bytes gmem, 64 bytes cmem[3]
ptxas info    : Compiling entry function '_Z1bPf' for 'sm_90a'
ptxas info    : Function properties for _Z1bPf
    128 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 255 registers, used 2 barriers, 128 bytes cumulative stack size, 4096 bytes smem, 24 bytes cmem[2]
ptxas info    : Compile time = 10.573 ms
ptxas info    : Compiling entry function '_Z1aPf' for 'sm_90a'
ptxas info    : Function properties for _Z1aPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
"""


def resources_of(text: str) -> tuple[KernelResources, ...]:
    return Reading(kernels=resource_rows(text)).resources


def test_resources() -> None:
    first, second = resources_of(PTXAS)
    assert first == KernelResources(name="_Z1aPf", registers=8)
    assert second == KernelResources(
        name="_Z1bPf", registers=255, spill_store_bytes=40, spill_load_bytes=44, shared_bytes=4096, stack_bytes=128,
        constant_bytes=24, barriers=2,
    )  # fmt: skip


@pytest.mark.parametrize("raw", [b"", b"\x7fELF", b"MZ" + bytes(100), b"\x7fELF\x02\x01" + bytes(20)])
def test_bytes_that_are_no_library(raw: bytes) -> None:
    with pytest.raises(ValueError, match="ELF"):
        _ = Elf(raw).sections


@pytest.mark.parametrize("row", [(4, 1 << 40), (4, 336), (99, 1)])
def test_a_table_whose_strings_are_not_there(row: tuple[int, int]) -> None:
    """The section that the strings lie in, and where a string begins."""
    link, at = row
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01", 3, 62, 1, 0, 0, 80, 0, 64, 0, 0, 64, 5, 0)
    table = struct.pack("<IIQQQQIIQQ", 0, 6, 0, 0, 64, 16, link, 0, 0, 0)
    raw = header + struct.pack("<qQ", 1, at) + table * 5
    with pytest.raises(ValueError, match="string"):
        _ = Elf(raw + b"x" * 9).needed


def test_numbers_that_no_line_has() -> None:
    """A source names its file by #line, so that what stands before a complaint can look like one."""
    digits = "1" * 5000
    (found,) = read_diagnostics(f"x({digits}): error: y(3): error: z")
    assert (found.line, found.text) == (0, "y(3): error: z")
    (long,) = to_findings(read_diagnostics(f"{'f' * 9999}(3): error: z"))
    assert long.place is not None and len(long.place.file) == 200


def test_what_only_looks_like_ptxas_makes_no_kernel_smaller() -> None:
    begins = "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
    real = f"{begins}ptxas info    : Used 40 registers, used 1 barriers\n"
    forged = real.replace("40", "3")
    for said in (real + forged, forged + real):
        assert resources_of(said) == (KernelResources(name="k", registers=40, barriers=1),)
    (found,) = resources_of(real + forged.replace("ptxas", "x.cu:1: ptxas"))
    assert found.registers >= 40
    assert resources_of(real.replace("40", "4" * 5000)) == (KernelResources(name="k", registers=0, barriers=1),)
