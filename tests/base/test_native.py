"""Native parts are built once, whole, by many at a time."""

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import warpsmith
from warpsmith.base import HarnessError, MachineError, native
from warpsmith.base.native import build_native

ANSWER = '#include "answer.h"\nint main() { return ANSWER; }\n'


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path / "home"))
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "answer.h").write_text("#define ANSWER 42\n")
    (tmp_path / "main.cc").write_text(ANSWER)
    return tmp_path / "main.cc"


def test_a_program_is_built_once(source: Path) -> None:
    includes = [source.parent / "include"]
    program = build_native("answer", [source], includes=includes)
    first = program.stat().st_mtime_ns
    assert subprocess.run([program]).returncode == 42
    assert build_native("answer", [source], includes=includes) == program
    assert program.stat().st_mtime_ns == first
    assert program.is_relative_to(source.parent / "home" / "cache" / "native")


def test_a_changed_header_or_flag_is_another_program(source: Path) -> None:
    includes = [source.parent / "include"]
    first = build_native("answer", [source], includes=includes)
    (includes[0] / "answer.h").write_text("#define ANSWER 43\n")
    second = build_native("answer", [source], includes=includes)
    assert first != second
    assert subprocess.run([second]).returncode == 43
    assert build_native("answer", [source], flags=["-DX"], includes=includes) not in (first, second)


def test_a_shared_library_of_several_sources(source: Path) -> None:
    parts = [source.parent / "one.cc", source.parent / "two.cc"]
    parts[0].write_text('extern "C" int one() { return 1; }\n')
    parts[1].write_text('extern "C" int one(); extern "C" int two() { return 1 + one(); }\n')
    library = build_native("libparts.so", parts, shared=True)
    loaded = subprocess.run([sys.executable, "-c", f"import ctypes; exit(ctypes.CDLL('{library}').two())"])
    assert loaded.returncode == 2


def test_many_builders_at_once_get_one_program(source: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from warpsmith.base.native import build_native\n"
        "print(build_native('answer', [Path(sys.argv[1])], includes=[Path(sys.argv[2])]))"
    )
    root = Path(warpsmith.__file__).parents[1]
    environment = {"WARPSMITH_HOME": str(source.parent / "home"), "PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"}
    words = [sys.executable, "-c", script, str(source), str(source.parent / "include")]

    def one(_: int) -> str:
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    with ThreadPoolExecutor(4) as pool:
        built = set(pool.map(one, range(4)))
    assert len(built) == 1
    program = Path(built.pop())
    assert [path.name for path in program.parent.iterdir()] == ["answer"]
    assert subprocess.run([program]).returncode == 42


def test_two_programs_at_once_compile_what_they_share_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = list[str]()
    run = native._run_compiler

    def counted(command: Sequence[str | Path], what: str) -> None:
        compiled.append(what)
        run(command, what)

    monkeypatch.setattr(native, "_run_compiler", counted)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: build_native(name, [source], includes=[source.parent / "include"]), ("one", "two")))
    assert sorted(compiled) == ["main.cc", "one", "two"]


def test_a_source_that_does_not_build_is_our_fault_and_leaves_nothing(source: Path) -> None:
    source.write_text("int main() { return nonsense; }\n")
    with pytest.raises(HarnessError, match=r"main\.cc does not build(.|\n)*nonsense"):
        build_native("answer", [source])
    assert not [path for path in (source.parent / "home").rglob("*") if path.name == "answer"]


def test_a_machine_without_a_compiler_is_told_how_to_get_one(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(source.parent))
    with pytest.raises(MachineError, match=r"g\+\+ is not on PATH; .*'answer' needs it.* apt-get install g\+\+"):
        build_native("answer", [source])


@pytest.mark.parametrize("home", ["main.cc", "main.cc/below", "/proc/nothing"])
def test_a_home_that_cannot_be_made_is_named_with_the_way_out(
    source: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSMITH_HOME", str(source.parent / home))
    with pytest.raises(MachineError, match=r"cannot be written: .* WARPSMITH_HOME"):
        build_native("answer", [source])
