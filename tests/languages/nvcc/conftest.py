"""Shared by the tests of this room: candidates from text, compiled into a cache that the whole run shares."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.base import Home
from warpsmith.languages.nvcc import Compiled, CompileOptions, compile
from warpsmith.records import Argument, ArgumentKind, Candidate, Direction, Language, Role, Signature

KERNELS = Path(__file__).parent / "kernels"
MODULE = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }\n'


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of this run alone; native parts stay shared, and so does whoever waits for the GPU."""
    found, usual = tmp_path_factory.mktemp("home"), Home.locate()
    for own, kept in ((found / "cache", usual.cache / "native"), (found / "data", usual.data / "leases")):
        kept.mkdir(parents=True, exist_ok=True)
        own.mkdir()
        (own / kept.name).symlink_to(kept)
    return found


@pytest.fixture(scope="module", autouse=True)
def home(folder: Path) -> Iterator[Path]:
    """So that a test never passes on yesterday's artifact; not for the tests of other rooms in the same process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_HOME", str(folder))
        yield folder


def candidate(source: str, language: Language = Language.TORCH, **macros: str) -> Candidate:
    """A candidate for the forward pass of no task in particular."""
    return Candidate(task="none", direction=Direction.FORWARD, source=source, language=language, macros=macros)


def kernel(name: str, language: Language = Language.TORCH) -> Candidate:
    """A file of `kernels/`."""
    return candidate((KERNELS / name).read_text(), language)


def signature(*kinds: str, results: int = 1) -> Signature:
    """A task's signature from kinds alone."""
    arguments = tuple(Argument(name=f"a{i}", kind=ArgumentKind(kind), role=Role.INPUT) for i, kind in enumerate(kinds))
    return Signature(arguments=arguments, results=tuple(f"r{i}" for i in range(results)))


def function(body: str, before: str = "", parameters: str = "torch::Tensor x") -> str:
    """A torch-style source with one function."""
    return (
        f"#include <torch/extension.h>\n{before}\n"
        f"torch::Tensor forward({parameters}) {{\n{body}\nreturn x;\n}}\n{MODULE}"
    )


def built(source: str, language: Language = Language.TORCH, options: CompileOptions | None = None) -> Compiled:
    """A source compiled without a task."""
    return compile(candidate(source, language), options=options)
