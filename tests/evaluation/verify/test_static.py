"""Static rules: a sign for each trick, none for an honest kernel, and never a verdict."""

from pathlib import Path

import pytest

import warpsmith
from warpsmith.languages.cuda.static_rules import load_rules, match_rules, run_static_rules
from warpsmith.records import Candidate, Checker, Direction, Severity, StaticFacts, Verdict

ROOT = Path(__file__).parents[3]
SEEDS = sorted((Path(warpsmith.__file__).parent / "tasks" / "suite").glob("*/seed_*.cu"))
HONEST = sorted((ROOT / "tests" / "honest").glob("*.cu"))
ATTACKS = sorted((ROOT / "tests" / "exploits").glob("*.cu"))

EXAMPLES = {
    "side_stream": "cudaStreamCreate(&s);",
    "thread": "std::thread t(work);",
    "host_callback": "cudaLaunchHostFunc(stream, f, 0);",
    "loading": 'dlopen("libx.so", 1);',
    "syscall": 'asm volatile("syscall" ::: "memory");',
    "process": "if (fork() == 0) work();",
    "network": "int s = socket(2, 1, 0);",
    "file": 'FILE* f = fopen("a", "r");',
    "environment": 'getenv("HOME");',
    "early_code": "__attribute__((constructor)) void f() {}",
    "ending": "_exit(0);",
    "page_tricks": "mprotect(p, 4096, 7);",
    "inline_symbols": 'extern "C" int memcmp(const void*, const void*, size_t) { return 0; }',
    "mapped_memory": "cudaHostAlloc(&p, 4, 0);",
    "to_the_host": "cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost);",
    "l2_persistence": "cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, n);",
    "other_device": "cudaSetDevice(1);",
    "clock_sniffing": "long long t = clock64();",
    "kept_result": "static torch::Tensor last; last = f(x); return last;",
    "kept_tensors": "std::map<int64_t, torch::Tensor> kept;",
    "cache_by_pointer": "static std::map<void*, int> known;",
    "cache_by_content": "static uint64_t last_hash = 0;",
    "call_counter": "static int calls = 0; if (++calls > 3) return x;",
    "queue_sniffing": "if (cudaStreamQuery(stream) == cudaSuccess) return;",
    "stack_walk": "auto* at = __builtin_frame_address(0);",
    "persistent_state": "__device__ int calls_served = 0;",
    "operator": "auto y = torch::matmul(a, b);",
    "cublas": "cublasSgemm(handle, n);",
    "cublaslt": "cublasLtMatmul(handle, n);",
    "cudnn": "cudnnConvolutionForward(handle, n);",
    "other_library": "cufftExecC2C(plan, a, b, 1);",
}


def found(source: str, **options: object) -> set[str]:
    return {sign.message.partition(":")[0] for sign in match_rules(source, **options)}  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.id)
def test_each_rule_sees_its_example(rule: object) -> None:
    name = str(rule.id)  # type: ignore[attr-defined]
    assert name in found(EXAMPLES[name])


@pytest.mark.parametrize("path", [*SEEDS, *HONEST], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_honest_kernel_shows_no_sign(path: Path) -> None:
    assert not found(path.read_text())


def test_most_attacks_on_the_harness_show_a_sign() -> None:
    shown = [path.stem for path in ATTACKS if found(path.read_text())]
    assert len(shown) >= 75, f"{len(shown)} of {len(ATTACKS)}"


def test_a_sign_has_its_line_and_is_a_warning() -> None:
    (sign,) = match_rules("int a;\n// std::thread\nstd::thread one;\nstd::thread two;\n")
    assert sign.checker is Checker.RULE and sign.severity is Severity.WARNING
    assert sign.place is not None and sign.place.line == 3 and sign.count == 2


def test_comments_and_strings_are_no_code() -> None:
    assert not found('// std::thread\n/* fork() */ const char* s = "cudaHostAlloc(";')


def test_a_name_behind_a_macro_is_seen() -> None:
    assert found("#define START std::thread\nSTART t(f);") == {"thread"}
    assert found("MAKE t(f);", macros={"MAKE": "std::thread"}) == {"thread"}


def test_a_joined_stream_and_an_allowed_library_are_fine() -> None:
    assert not found("cudaStreamCreate(&s); cudaStreamWaitEvent(stream, done, 0);")
    assert not found("cublasSgemm(handle, n);", libraries=("cublas",))


def test_the_stage_passes_whatever_it_sees() -> None:
    candidate = Candidate(task="t", direction=Direction.FORWARD, source="fork();\n")
    result = run_static_rules(candidate)
    assert result.verdict is Verdict.PASS and result.detail == "signs: process"
    assert isinstance(result.facts, StaticFacts) and len(result.facts.findings) == 1
    assert run_static_rules(candidate.model_copy(update={"source": "int x;"})).detail == ""


@pytest.mark.usefixtures("linear_time")
@pytest.mark.parametrize(
    "text",
    [
        "/* ",
        'R"a( ',
        "asm ",
        "static int a; ",
        "static torch::Tensor a; ",
        "std::map<",
        "cudaMemcpy(",
        'extern "C" ',
        "static float* a; ",
        "#define A B B B B B B B B B B B B B B B B\n#define B A A A A A A A A A A A A A A A A\nA\n",
        "struct a { torch::Tensor ",
        '"\\',
    ],
)
def test_a_flood_of_openings_keeps_nobody_busy(text: str) -> None:
    list(match_rules(text * ((1 << 18) // len(text))))
