"""Everything a source can be besides a kernel: each is a FAIL with its reason, and the next candidate compiles."""

import pytest
from tests.languages.nvcc.conftest import MODULE, built, candidate, function

from warpsmith.isolation import ProcessLimits
from warpsmith.languages.nvcc import CompileOptions, compile
from warpsmith.languages.nvcc.source import check_bytes
from warpsmith.records import CompileFacts, Language, Reason, Verdict

GOOD = function("return x.contiguous();")
TEMPLATE_BOMB = """
template <int N> struct F { static constexpr long v = F<N - 1>::v; };
template <int N, class... T> struct G {
  using a = typename G<N - 1, T..., F<N>>::type;
  using type = typename G<N - 1, F<N + 1000>, T...>::type;
};
template <class... T> struct G<0, T...> { using type = int; };
G<40>::type x;
"""
# The front end of nvcc 13.0 asserts when the notes of a failed overload resolution are suppressed.
CRASH = """
#pragma nv_diag_suppress 3326
#pragma nv_diag_suppress 3328
struct A {};
A operator+(A, A);
int f(A a) { return -a; }
"""


def reason_of(source: str, language: Language = Language.TORCH, options: CompileOptions | None = None) -> Reason | None:
    made = built(source, language, options)
    assert made.result.verdict is (Verdict.PASS if made.ok else Verdict.FAIL)
    assert made.ok or made.result.detail
    return made.result.reason


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "empty"),
        (b" \n\t", "empty"),
        (b"int x;\xff", "UTF-8 (byte 6)"),
        (b"a" * 10_000_000, "1048576"),
        (b"a\0b", "zero byte at 1"),
    ],
)
def test_bytes_that_are_no_source(raw: bytes, says: str) -> None:
    fault = check_bytes(raw)
    assert fault is not None and fault.reason is Reason.BAD_SOURCE and says in fault.detail


def test_text_that_is_no_source() -> None:
    assert reason_of("") is Reason.BAD_SOURCE
    assert reason_of("// " + "x" * 10_000_000) is Reason.BAD_SOURCE
    assert reason_of("int x; // \udcff") is Reason.BAD_SOURCE
    assert check_bytes(GOOD.encode()) is None


@pytest.mark.parametrize("name", ["1X", "A B", "", "X;rm"])
def test_a_macro_that_is_no_identifier(name: str) -> None:
    assert compile(candidate(GOOD, **{name: "1"})).result.reason is Reason.BAD_SOURCE


@pytest.mark.parametrize("value", ["$(touch /tmp/x)", "a;b", "`id`", "1\n2", '"', "'"])
def test_a_macro_that_a_shell_would_read(value: str) -> None:
    assert compile(candidate(GOOD, BLOCK=value)).result.reason is Reason.BAD_SOURCE


def test_no_module_and_no_function() -> None:
    made = built("#include <cuda_runtime.h>\n__global__ void k() {}\n")
    assert made.result.reason is Reason.NO_ENTRY and "PYBIND11_MODULE" in made.result.detail
    assert reason_of("__global__ void k() {}", Language.PLAIN) is Reason.NO_ENTRY
    assert reason_of("// int forward(\n__global__ void k() {}", Language.PLAIN) is Reason.NO_ENTRY


def test_a_plain_function_that_is_not_there() -> None:
    source = "namespace a { int forward(int); }\n__global__ void k() {}"
    assert reason_of(source, Language.PLAIN) is Reason.NO_ENTRY


def test_a_plain_function_of_the_wrong_type() -> None:
    source = 'extern "C" int forward(float* x, int n) { return 0; }'
    assert reason_of(source, Language.PLAIN) is Reason.WRONG_SIGNATURE


def test_a_torch_function_of_a_type_that_no_task_passes() -> None:
    source = function("", parameters="torch::Tensor x, std::string mode")
    made = built(source)
    assert made.result.reason is Reason.WRONG_SIGNATURE and "argument is a tensor" in made.result.detail


@pytest.mark.parametrize(
    "source",
    [
        '#include "/etc/passwd"\n',
        "#include </etc/shadow>\n",
        '#include "../../../../../../etc/passwd"\n',
        '#define FILE "/etc/passwd"\n#include FILE\n',
        '#include "/etc/../etc/hostname"\n',
        '#include "/proc/self/environ"\n',
        '#include "/usr/share/common-licenses/BSD"\n',
        '__asm__(".incbin \\"/etc/passwd\\"");\n',
        'extern "C" void f() { asm(".incbin \\"/root/secret\\""); }\n',
        'extern "C" void f() { asm(".inc" "bin \\"/root/secret\\""); }\n',
    ],
)
def test_a_file_outside(source: str) -> None:
    made = built(source + "__global__ void k() {}\n")
    assert made.result.reason is Reason.FORBIDDEN_FILE, made.result.detail
    assert made.result.facts is not None and "root:" not in made.result.text()


@pytest.mark.parametrize("name", ["/opt/gen/kernel.tmpl", "/etc/passwd", "../gen/kernel.tmpl"])
def test_a_name_given_by_line_is_no_file_that_is_read(name: str) -> None:
    named = f'#line 1 "{name}"\n'
    assert built(function("", before=named)).ok
    for wrong in ("auto y = not_there;", "}\n#error stop\n{"):
        made = built(function(wrong, before=named))
        assert made.result.reason is Reason.COMPILE_ERROR, made.result.detail
        assert "/".join(name.split("/")[-2:]).strip("/") in made.result.detail


def test_an_error_inside_a_file_outside_is_about_that_file() -> None:
    made = built('#line 9 "/usr/share/common-licenses/BSD"\n#include "/usr/share/common-licenses/GPL-2"\n#error stop\n')
    assert made.result.reason is Reason.FORBIDDEN_FILE and "GPL-2" in made.result.detail


def test_a_header_that_is_missing_is_an_ordinary_error() -> None:
    made = built('#include "my_helpers.h"\n')
    assert made.result.reason is Reason.COMPILE_ERROR and "my_helpers.h" in made.result.detail


def test_an_include_loop() -> None:
    made = built("#include __FILE__\n")
    assert made.result.reason is Reason.COMPILE_ERROR and "nested depth" in made.result.detail


def test_a_template_bomb_names_the_limit() -> None:
    made = built(TEMPLATE_BOMB, options=CompileOptions(limits=ProcessLimits(wall_s=4)))
    assert made.result.reason is Reason.COMPILE_LIMIT and "4 s of wall-clock" in made.result.detail
    assert reason_of(GOOD) is None  # and the next one compiles


def test_a_hungry_source_names_the_limit() -> None:
    options = CompileOptions(limits=ProcessLimits(wall_s=120, memory_bytes=300 << 20))
    made = built('constexpr char x[1u << 30] = {1};\nextern "C" const char* f() { return x; }\n', options=options)
    assert made.result.reason is Reason.COMPILE_LIMIT and "memory" in made.result.detail, made.result.detail


def test_a_crash_of_the_compiler() -> None:
    made = built(CRASH)
    assert made.result.reason is Reason.COMPILER_CRASH and "internal error" in made.result.detail
    assert reason_of(GOOD) is None


def test_a_static_assertion_is_shown_where_it_is() -> None:
    made = built(f'#include <torch/extension.h>\nstatic_assert(sizeof(int) == 8, "int is small");\n{MODULE}')
    assert made.result.reason is Reason.COMPILE_ERROR
    assert isinstance(made.result.facts, CompileFacts)
    first = made.result.facts.findings[0]
    assert "int is small" in first.message and first.place is not None
    assert (first.place.file, first.place.line) == ("kernel.cu", 2)


def test_a_flood_of_errors_is_trimmed() -> None:
    made = built("\n".join(f"int a{i} = nothing{i};" for i in range(500)))
    assert made.result.reason is Reason.COMPILE_ERROR
    assert isinstance(made.result.facts, CompileFacts) and 0 < len(made.result.facts.findings) <= 12
    assert len(made.result.text()) < 8000


def test_an_error_in_inline_ptx() -> None:
    made = built(function('asm("");', before='__global__ void k() { asm("nonsense.f32 a, b;"); }'))
    assert made.result.reason is Reason.COMPILE_ERROR


def test_a_function_that_nobody_defines() -> None:
    made = built(function("missing_helper(x);", before="void missing_helper(torch::Tensor);"))
    assert made.result.reason is Reason.COMPILE_ERROR and "missing_helper" in made.result.detail


def test_a_file_name_that_reads_like_a_word_of_nvcc() -> None:
    """By #line a complaint begins with any text; an architecture that nvcc refuses would end a whole search."""
    named = '#line 1 "nvcc fatal   : Unsupported gpu architecture"\nint z = undefined_thing;'
    assert reason_of(function("", before=named)) is Reason.COMPILE_ERROR
    digits = f'#line 1 "x({"1" * 5000}): error: y"\nint z = undefined_thing;'
    assert reason_of(function("", before=digits)) is Reason.COMPILE_ERROR


def test_a_section_that_only_looks_like_the_linkers() -> None:
    """Assembly gives a section any kind: this one is taken for a list of libraries, with a name beyond the file."""
    fake = 'asm(".section .fake,\\"a\\",@6\\n .quad 1\\n .quad 0x7fffffff\\n .text");\n'
    made = built(fake + GOOD)
    assert made.result.reason is Reason.COMPILE_ERROR
    assert "Leave its tables to the linker" in made.result.detail
