"""The cache: hits, damage, eviction, many processes, and that every input is part of the key."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.languages.nvcc.conftest import built, candidate

from warpsmith.base import digest
from warpsmith.languages.nvcc import CompileOptions, compile
from warpsmith.languages.nvcc.cache import YOUNG_S, Cache
from warpsmith.records import CompileFacts, Language, StageResult, Verdict

PLAIN = '#include <cuda_runtime.h>\nextern "C" int forward(cudaStream_t) {{ return {}; }}\n'
PASSED = StageResult(stage="compile", verdict=Verdict.PASS, facts=CompileFacts())


def source(number: int) -> str:
    return PLAIN.format(number)


def cached(result: StageResult) -> bool:
    assert isinstance(result.facts, CompileFacts)
    return result.facts.cached


def test_a_second_compilation_is_a_hit() -> None:
    first, second = built(source(1), Language.PLAIN), built(source(1), Language.PLAIN)
    assert not cached(first.result) and cached(second.result)
    assert first.artifact == second.artifact and first.entries == second.entries


def test_a_failure_is_a_hit_too() -> None:
    wrong = source(2) + "int x = nothing;"
    first, second = built(wrong, Language.PLAIN), built(wrong, Language.PLAIN)
    assert not cached(first.result) and cached(second.result)
    assert first.result.detail == second.result.detail and first.result.facts is not None


def test_everything_that_decides_is_in_the_key() -> None:
    start = compile(candidate(source(3), Language.PLAIN))
    others = [
        compile(candidate(source(3) + "\n", Language.PLAIN)),
        compile(candidate(source(3), Language.PLAIN, BLOCK="1")),
        compile(candidate(source(3), Language.PLAIN), options=CompileOptions(fast_math=True)),
        compile(candidate(source(3), Language.PLAIN), options=CompileOptions(arch="sm_80")),
    ]
    paths = {one.artifact.parent for one in (start, *others) if one.artifact}
    assert len(paths) == 5 and not any(cached(one.result) for one in others)


def test_what_the_link_policy_lets_through_is_the_same_without_it() -> None:
    without = CompileOptions(link_policy=False)
    let_through = candidate(source(10), Language.PLAIN)
    first, second = compile(let_through), compile(let_through, options=without)
    assert cached(second.result) and second.artifact == first.artifact
    held_back = candidate((Path(__file__).parent / "refused" / "clock_gettime.cu").read_text(), Language.PLAIN)
    refused, built_now = compile(held_back), compile(held_back, options=without)
    assert refused.artifact is None and built_now.artifact is not None and not cached(built_now.result)
    assert compile(held_back).artifact is None, "what was built without it counts for nobody else"


@pytest.mark.parametrize("damage", ["cut", "flip", "gone", "json", "empty"])
def test_a_damaged_entry_is_built_again(damage: str) -> None:
    made = built(source(4), Language.PLAIN)
    assert made.artifact is not None
    raw, kept = made.artifact.read_bytes(), made.artifact.parent / "result.json"
    match damage:
        case "cut":
            made.artifact.write_bytes(raw[: len(raw) // 2])
        case "flip":
            made.artifact.write_bytes(raw[:1000] + bytes([raw[1000] ^ 1]) + raw[1001:])
        case "gone":
            made.artifact.unlink()
        case "json":
            kept.write_text(kept.read_text().replace('"pass"', '"fail"'))
        case "empty":
            kept.write_bytes(b"\xff")
    again = built(source(4), Language.PLAIN)
    assert again.ok and not cached(again.result)
    assert again.artifact is not None and digest(again.artifact.read_bytes()) == again.artifact.stem


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    cache, now = Cache(tmp_path, 1 << 20), time.time()
    for index, age in enumerate([3 * YOUNG_S, 2 * YOUNG_S, 4 * YOUNG_S]):
        cache.store(f"key{index}", PASSED, bytes([index]) * 20000)
        os.utime(tmp_path / f"key{index}", (now - age, now - age))
    Cache(tmp_path, 50000).trim()
    assert [cache.load(f"key{index}") is not None for index in range(3)] == [True, True, False]


def test_an_entry_in_use_is_not_evicted(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 10)
    cache.store("a", PASSED, b"x" * 100)
    cache.store("b", PASSED, b"y" * 100)
    assert cache.load("a") is not None and cache.load("b") is not None


PROCESS = """
import sys
from warpsmith.languages.nvcc import compile
from warpsmith.records import Candidate
made = compile(Candidate(task="none", direction="forward", language="plain", source=sys.argv[1]))
sys.stdout.write(f"{made.result.facts.cached} {made.artifact.name}")
"""


def test_processes_at_once_build_once() -> None:
    command = [sys.executable, "-c", PROCESS, source(5)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(3)]
    said = [process.communicate(timeout=120)[0].split() for process in started]
    assert sorted(word[0] for word in said) == ["False", "True", "True"]
    assert len({word[1] for word in said}) == 1
