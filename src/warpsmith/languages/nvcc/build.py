"""One compilation from text to artifact: the confined run of nvcc and the looks at what came out. Knows no cache."""

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from warpsmith.base import HarnessError
from warpsmith.isolation import ChildOutcome, Policy, run
from warpsmith.languages.nvcc.classify import classify, forbidden, is_inside
from warpsmith.languages.nvcc.diagnose import read_diagnostics, to_findings
from warpsmith.languages.nvcc.elf import Elf
from warpsmith.languages.nvcc.fault import Fault
from warpsmith.languages.nvcc.options import (
    ARTIFACT,
    DEPENDENCIES,
    EXTENDED_LAMBDA,
    HEADERS,
    SOURCE,
    CompileOptions,
    command,
)
from warpsmith.languages.nvcc.policy import LinkPolicy, ptx_externs
from warpsmith.languages.nvcc.ptxas import read_resources
from warpsmith.languages.nvcc.toolchain import Toolchain
from warpsmith.records import CompileFacts, Reason

SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")
SYSTEM_INCLUDES = ("/usr/include", "/usr/lib", "/usr/lib64", "/usr/local/include", "/usr/share/gcc")
LIBRARY_FILES = {"cublas": "libcublas", "cublaslt": "libcublasLt", "cudnn": "libcudnn"}
LAMBDA = re.compile(r"\]\s*__(?:host|device)__")  # a lambda for the device
RUNTIME_SONAMES = ("libcudart.so", "libstdc++.so", "libgcc_s.so", "libc.so", "libm.so", "ld-linux")


@dataclass(frozen=True)
class CompileJob:
    """Everything a compilation depends on."""

    unit: str
    options: CompileOptions
    toolchain: Toolchain


@dataclass(frozen=True)
class Built:
    """What came out: facts always, and either the artifact's bytes or a fault."""

    facts: CompileFacts
    artifact: bytes | None = None
    fault: Fault | None = None


def build(job: CompileJob) -> Built:
    """Compile and look at the result; once more where nvcc says that a lambda for the device hides behind a macro."""
    lambdas = LAMBDA.search(job.unit) is not None
    built = _build(job, lambdas)
    if lambdas or built.fault is None or not any(EXTENDED_LAMBDA in one.message for one in built.fault.findings):
        return built
    return _build(job, lambdas=True)


def _build(job: CompileJob, lambdas: bool) -> Built:
    """In a folder of its own, with nothing left behind."""
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
        return _look(job, folder, outcome, facts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def policy(job: CompileJob, folder: Path) -> Policy:
    """The compiler reads its own files, the system's headers and libraries, and ours; it writes its folder only."""
    system = tuple(path for name in SYSTEM if (path := Path(name)).exists())
    host = job.toolchain.host
    prefix = () if host.is_relative_to("/usr") else (host.parent.parent,)
    folders = dict.fromkeys([str(job.toolchain.root / "bin"), str(host.parent), "/usr/bin", "/bin"])
    return Policy(
        read=(*system, *prefix, job.toolchain.root, HEADERS),
        write=(folder,),
        limits=job.options.limits,
        env={"PATH": ":".join(folders), "TMPDIR": str(folder), "LC_ALL": "C"},
        cwd=folder,
    )


def libraries(job: CompileJob) -> tuple[Path, ...]:
    """The libraries that the task allows and this machine has; linked only where they are used."""
    wanted = (LIBRARY_FILES[name] for name in job.options.libraries if name in LIBRARY_FILES)
    return tuple(path for stem in wanted if (path := job.toolchain.library(stem)) is not None)


def _look(job: CompileJob, folder: Path, outcome: ChildOutcome, facts: CompileFacts) -> Built:
    said = _said(job, folder, outcome)
    roots = _roots(job, folder)
    outside = _read_outside(folder, roots)
    if outside is not None or not outcome.ok:
        fault = outside or classify(outcome, said, job.options, roots)
        return Built(facts.model_copy(update={"findings": fault.findings}), fault=fault)
    artifact = _collect(folder / ARTIFACT)
    needs = _needs(artifact)
    if isinstance(needs, Fault):
        return Built(facts, fault=needs)
    undefined, needed = needs
    facts = facts.model_copy(
        update={
            "kernels": read_resources(said),
            "symbols": undefined,
            "libraries": tuple(name for name in needed if not name.startswith(RUNTIME_SONAMES)),
            "findings": to_findings(read_diagnostics(said)),
        }
    )
    symbols = (*undefined, *ptx_externs(artifact))
    refused = LinkPolicy.load().check(symbols, job.options.libraries) if job.options.link_policy else None
    if refused is not None:
        findings = (*refused.findings, *facts.findings)
        return Built(facts.model_copy(update={"findings": findings}), fault=refused)
    return Built(facts, artifact)


def _needs(artifact: bytes) -> tuple[tuple[str, ...], tuple[str, ...]] | Fault:
    """The undefined symbols and the libraries; a source's own assembly can add sections that the loader never reads."""
    try:
        elf = Elf(artifact)
        return elf.undefined, elf.needed
    except ValueError as error:
        detail = f"The artifact is no library that can be read: {error}. Leave its tables to the linker."
        return Fault(Reason.COMPILE_ERROR, detail)


def _said(job: CompileJob, folder: Path, outcome: ChildOutcome) -> str:
    """The tools' words without the paths of this machine: they are noise to a reader and differ between machines."""
    said = (outcome.stderr + outcome.stdout).decode(errors="replace")
    cuda = str(job.toolchain.root)
    for path, name in ((f"{folder}/", ""), (str(HEADERS), "include"), (f"{cuda}/bin/..", "cuda"), (cuda, "cuda")):
        said = said.replace(path, name)
    return said


def _roots(job: CompileJob, folder: Path) -> tuple[Path, ...]:
    host = job.toolchain.host.parent.parent
    system = [path for name in SYSTEM_INCLUDES if (path := Path(name)).exists()]
    own = [host / "lib", host / "include"] if not host.is_relative_to("/usr") else []
    return tuple(path.resolve() for path in (folder, job.toolchain.root, HEADERS, *system, *own))


def _read_outside(folder: Path, roots: tuple[Path, ...]) -> Fault | None:
    """The first file that the preprocessor read and should not have, by the list it left."""
    listed = folder / DEPENDENCIES
    if listed.is_symlink() or not listed.is_file():
        return None
    words = listed.read_text(errors="replace").replace("\\\n", " ").split()
    paths = (word for word in words if word.startswith(("/", "..")) and not word.endswith(":"))
    outside = next((path for path in paths if not is_inside(path, roots)), None)
    return forbidden(outside) if outside is not None else None


def _collect(path: Path) -> bytes:
    if path.is_symlink() or not path.is_file():
        raise HarnessError(f"nvcc ended well and left no {path.name}.")
    return path.read_bytes()
