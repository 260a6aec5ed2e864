"""One compilation: the confined run of nvcc and the checks of its output."""

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from warpsmith.base import HarnessError, MachineError
from warpsmith.isolation import ChildOutcome, Policy, RefusedFile, collect_file, run
from warpsmith.languages.nvcc.bounds import ARTIFACT_BYTES
from warpsmith.languages.nvcc.classify import classify, forbidden_file, is_inside
from warpsmith.languages.nvcc.diagnose import SOURCE, to_findings
from warpsmith.languages.nvcc.entries import EntryPoint
from warpsmith.languages.nvcc.options import (
    ARTIFACT,
    DEPENDENCIES,
    EXTENDED_LAMBDA,
    HEADERS,
    CompileOptions,
    command,
)
from warpsmith.languages.nvcc.policy import LinkPolicy
from warpsmith.languages.nvcc.reading import Reading, read_confined
from warpsmith.languages.nvcc.toolchain import Toolchain
from warpsmith.records import CompileFacts, Failure

SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")
SYSTEM_INCLUDES = ("/usr/include", "/usr/lib", "/usr/lib64", "/usr/local/include", "/usr/share/gcc")
LIBRARY_FILES = {"cublas": "libcublas", "cublaslt": "libcublasLt", "cudnn": "libcudnn"}
LAMBDA = re.compile(r"\]\s*__(?:host|device)__")  # a lambda for the device
RUNTIME_SONAMES = ("libcudart.so", "libstdc++.so", "libgcc_s.so", "libc.so", "libm.so", "ld-linux")


@dataclass(frozen=True)
class CompileJob:
    """The inputs of a compilation."""

    unit: str
    options: CompileOptions
    toolchain: Toolchain


@dataclass(frozen=True)
class Built:
    """Output of a compilation: facts, and either an artifact or a failure."""

    facts: CompileFacts
    artifact: bytes | None = None
    failure: Failure | None = None
    entries: tuple[EntryPoint, ...] = ()


def build(job: CompileJob) -> Built:
    """Compile a job, with --extended-lambda if nvcc asks."""
    # --extended-lambda costs a fifth of a small kernel's compile time, so only sources that need it get the option. A
    # macro can hide such a lambda from the pattern; nvcc's message then names the option.
    lambdas = LAMBDA.search(job.unit) is not None
    built = _build_once(job, lambdas)
    if lambdas or built.failure is None or not any(EXTENDED_LAMBDA in one.message for one in built.failure.findings):
        return built
    return _build_once(job, lambdas=True)


def _build_once(job: CompileJob, lambdas: bool) -> Built:
    """Compile in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-compile-")).resolve()
    try:
        (folder / SOURCE).write_text(job.unit)
        words = command(job.toolchain, job.options, libraries(job), (EXTENDED_LAMBDA,) if lambdas else ())
        outcome = run(words, policy(job, folder))
        facts = CompileFacts(
            command=tuple(word.replace(str(HEADERS), "include") for word in words),
            toolchain=job.toolchain.version,
            arch=job.options.arch,
        )
        return _read_result(job, folder, outcome, facts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def policy(job: CompileJob, folder: Path) -> Policy:
    """Return the compiler's confinement policy."""
    system = tuple(path for name in SYSTEM if (path := Path(name)).exists())
    host = job.toolchain.host
    prefix = () if host.is_relative_to("/usr") else (host.parent.parent,)
    folders = dict.fromkeys([str(job.toolchain.root / "bin"), str(host.parent), "/usr/bin", "/bin"])
    return Policy(
        read=(*system, *prefix, job.toolchain.root, HEADERS),
        write=(folder,),
        limits=job.options.limits,
        # SUNPRO_DEPENDENCIES makes GCC's preprocessor list every opened file. The variable cannot be undone by a
        # source.
        env={"PATH": ":".join(folders), "TMPDIR": str(folder), "LC_ALL": "C", "SUNPRO_DEPENDENCIES": DEPENDENCIES},
        cwd=folder,
    )


def libraries(job: CompileJob) -> tuple[Path, ...]:
    """Return the paths of allowed libraries that this machine has."""
    wanted = (LIBRARY_FILES[name] for name in job.options.libraries if name in LIBRARY_FILES)
    return tuple(path for stem in wanted if (path := job.toolchain.library(stem)) is not None)


def _read_result(job: CompileJob, folder: Path, outcome: ChildOutcome, facts: CompileFacts) -> Built:
    """Return the output of a finished compiler run."""
    said, roots = _tool_output(job, folder, outcome), _readable_roots(job, folder)
    # A compiler that was stopped leaves partial files, which are not read.
    found = read_confined(folder, said, outcome.ok) if outcome.stopped is None else Reading()
    if isinstance(found, Failure):
        return Built(facts, failure=found)
    # The confinement shows system files too; a kernel may include headers of the toolchain and of the system only.
    outside = next((path for path in found.files or () if not is_inside(path, roots)), None)
    if outside is not None or not outcome.ok:
        failure = forbidden_file(outside) if outside else classify(outcome, said, found.diagnostics, job.options, roots)
        return Built(facts.model_copy(update={"findings": failure.findings}), failure=failure)
    return _accept_artifact(job, folder, found, facts)


def _accept_artifact(job: CompileJob, folder: Path, found: Reading, facts: CompileFacts) -> Built:
    """Return the artifact, or a failure if its size or symbols refuse it."""
    if (failure := found.failure()) is not None:
        return Built(facts, failure=failure)
    # The list is the proof of what was read. Without it nothing can be said about the files.
    if found.files is None:
        raise MachineError(f"{job.toolchain.host} left no list of the files it read. Let nvcc use GCC.")
    facts = facts.model_copy(
        update={
            "kernels": found.resources,
            "symbols": found.undefined,
            "libraries": tuple(name for name in found.needed if not name.startswith(RUNTIME_SONAMES)),
            "findings": to_findings(found.diagnostics),
        }
    )
    symbols = (*found.undefined, *found.externs)
    refused = LinkPolicy.load().check(symbols, job.options.libraries) if job.options.link_policy else None
    if refused is not None:
        findings = (*refused.findings, *facts.findings)
        return Built(facts.model_copy(update={"findings": findings}), failure=refused)
    # The artifact is taken by a reader that follows no links: its folder was writable for the compiler's child.
    artifact = collect_file(folder, ARTIFACT, ARTIFACT_BYTES)
    if isinstance(artifact, RefusedFile):
        raise HarnessError(f"nvcc ended well, and its artifact cannot be taken: {artifact.reason}.")
    return Built(facts, artifact, entries=found.entry_points)


def _tool_output(job: CompileJob, folder: Path, outcome: ChildOutcome) -> str:
    """Return the tools' output without paths of this machine."""
    said = (outcome.stderr + outcome.stdout).decode(errors="replace")
    # Paths of this machine differ between machines and would change what models read.
    cuda = str(job.toolchain.root)
    for path, name in ((f"{folder}/", ""), (str(HEADERS), "include"), (f"{cuda}/bin/..", "cuda"), (cuda, "cuda")):
        said = said.replace(path, name)
    return said


def _readable_roots(job: CompileJob, folder: Path) -> tuple[Path, ...]:
    """Return the folders that a source may include files from."""
    host = job.toolchain.host.parent.parent
    system = [path for name in SYSTEM_INCLUDES if (path := Path(name)).exists()]
    own = [host / "lib", host / "include"] if not host.is_relative_to("/usr") else []
    return tuple(path.resolve() for path in (folder, job.toolchain.root, HEADERS, *system, *own))
