"""Classification of failed compilations: from the compiler's end and output to one reason."""

import re
from pathlib import Path

from warpsmith.base import MachineError, UsageError
from warpsmith.isolation import ChildOutcome, Limit, ProcessLimits
from warpsmith.languages.nvcc.diagnose import Diagnostic, to_findings
from warpsmith.languages.nvcc.operators import called_operator, undeclared_library_name
from warpsmith.languages.nvcc.options import CompileOptions
from warpsmith.languages.nvcc.policy import LinkPolicy
from warpsmith.records import Checker, Failure, Finding, Reason

CRASHED = re.compile(
    r"died due to signal (?!9\b)|internal (?:compiler )?error|Segmentation fault|stack smashing|core dumped"
    r"|Stack dump:|LLVM ERROR|ptxas fatal\s+: (?:Internal|Memory)"
)
STARVED = re.compile(
    r"died due to signal 9\b|Killed signal terminated|[Oo]ut of memory|cannot allocate memory|bad_alloc"
)
OVERSIZED = re.compile("File size limit exceeded signal terminated")  # of a tool that the compiler starts
UNREADABLE = re.compile(
    r"^(?P<path>/\S+|(?=\S*\.\./)\S+): (?:No such file or directory|Permission denied|Not a directory)"
)
UNASSEMBLED = re.compile(r"^(?:file not found|can't open|could not open): ?(?P<path>.+?)(?: for reading.*)?$")
UNLINKED = re.compile(r"^undefined reference to (?P<symbol>\S+)")
SHIM = "warpsmith-shim"  # the name that `source` gives to what it adds
# All that is said, to its end: a source that names itself so by #line says more.
UNKNOWN_ARCH = re.compile(r"nvcc fatal\s+: Unsupported gpu architecture '[^'\n]*'\s*")
TABLE_FILES = (SHIM, "warpsmith/plain.h", "warpsmith/torch/value.h")
ABSENT = re.compile(r'has no (?:member )?"|is undefined')
TAIL_CHARACTERS = 400
OTHERS = ("include/", "cuda/", "/usr/")  # files of ours and of the toolchain, as the tools' words name them


def classify(
    outcome: ChildOutcome,
    said: str,
    diagnostics: tuple[Diagnostic, ...],
    options: CompileOptions,
    roots: tuple[Path, ...],
) -> Failure:
    """Return a compilation's failure, the most specific reason first."""
    _check_arch(said, options.arch)
    errors = tuple(one for one in diagnostics if one.is_error)
    # A limit or a forbidden file also causes ordinary errors, so specific reasons are tested before general ones.
    return (
        _limit_failure(outcome, options.limits, said)
        or _forbidden_file_failure(errors, roots)
        or _crash_failure(outcome, said)
        or _library_failure(errors, options.libraries)
        or _link_failure(errors, options.libraries)
        or _entry_failure(errors)
        or _error_failure(diagnostics, errors, said)
    )


def _check_arch(said: str, arch: str) -> None:
    """Raise UsageError if nvcc refused the architecture."""
    if UNKNOWN_ARCH.fullmatch(said):
        raise UsageError(f"Architecture {arch} is not one of this nvcc's; `nvcc --list-gpu-code` lists them.")


def _limit_failure(outcome: ChildOutcome, limits: ProcessLimits, said: str) -> Failure | None:
    """Return a failure if the compiler reached a limit."""
    if outcome.stopped is not None:
        return Failure(Reason.COMPILE_LIMIT, f"The compiler was stopped: {outcome.stopped.describe(limits)}.")
    if OVERSIZED.search(said):
        return Failure(Reason.COMPILE_LIMIT, f"The compiler was stopped: {Limit.FILE_SIZE.describe(limits)}.")
    if STARVED.search(said):
        return Failure(
            Reason.COMPILE_LIMIT,
            f"The compiler was stopped: it needed more than {limits.memory_bytes} bytes of memory.",
        )
    return None


def _forbidden_file_failure(errors: tuple[Diagnostic, ...], roots: tuple[Path, ...]) -> Failure | None:
    """Return a failure if the source reads a file outside the allowed folders."""
    for error in errors:
        shape = UNASSEMBLED if error.tool == "assembler" else UNREADABLE
        match = shape.match(error.text)
        # Without a line that includes it, a file is only named by #line.
        outside = error.included and error.file.startswith(("/", "..")) and not is_inside(error.file, roots)
        if match is not None or (outside and error.tool == "compiler"):
            path = match["path"].strip() if match else error.file
            return forbidden_file(path)
    return None


def forbidden_file(path: str) -> Failure:
    """Return the failure for reading a forbidden file."""
    detail = f"The source reads the file {path}, which is outside of the toolchain and its own text."
    return Failure(Reason.FORBIDDEN_FILE, detail, (Finding(checker=Checker.COMPILER, message=detail),))


def is_inside(path: str, roots: tuple[Path, ...]) -> bool:
    """Whether a path, links resolved, is inside one of the folders."""
    real = Path(path).resolve()
    return any(real.is_relative_to(root) for root in roots)


def _crash_failure(outcome: ChildOutcome, said: str) -> Failure | None:
    """Return a failure if the compiler crashed."""
    found = CRASHED.search(said)
    if found is None and outcome.signal is None:
        return None
    line = next((line for line in said.splitlines() if CRASHED.search(line)), f"signal {outcome.signal}")
    return Failure(Reason.COMPILER_CRASH, f"The compiler crashed on this source: {line.strip()[:TAIL_CHARACTERS]}")


def _library_failure(errors: tuple[Diagnostic, ...], libraries: tuple[str, ...]) -> Failure | None:
    """Return a failure if the source calls a library or an ATen operator."""
    # Errors in the source come before errors in headers, which are consequences.
    for error in sorted(errors, key=lambda error: error.file.startswith(OTHERS)):
        name = called_operator(error) or undeclared_library_name(error, libraries)
        if name is None:
            continue
        # cublas_v2.h is the header of the library cublas.
        if name.partition(".")[0].removesuffix("_v2").lower() in libraries:
            raise MachineError(
                f"The task allows {name}, but this toolchain has no headers of it: install nvidia-{name}."
            )
        place = f" in line {error.line}" if error.line and not error.file.startswith(OTHERS) else ""
        detail = f"The source calls {name}{place}; a kernel computes by itself and calls no operator of a library."
        return Failure(Reason.LIBRARY_CALL, detail, to_findings(errors))
    return None


def _link_failure(errors: tuple[Diagnostic, ...], libraries: tuple[str, ...]) -> Failure | None:
    """Return a failure for a refused undefined symbol."""
    policy = LinkPolicy.load()
    for error in errors:
        match = UNLINKED.match(error.text) if error.tool == "linker" else None
        # The linker also names the source's own missing functions; those are ordinary errors.
        if match is None or not policy.names_known(match["symbol"]):
            continue
        failure = policy.judge(match["symbol"], libraries)
        if failure is None:
            raise MachineError(f"{match['symbol']} is allowed by the task, but its library is not on this machine.")
        return Failure(failure.reason, failure.detail, to_findings(errors))
    return None


def _entry_failure(errors: tuple[Diagnostic, ...]) -> Failure | None:
    """Return a failure if the first error is about the table of functions."""
    if not errors or not errors[0].file.endswith(TABLE_FILES):
        return None
    # Our table of functions is the last text of the unit: an error inside means that an exported function does not fit.
    said = errors[0].text
    if ABSENT.search(said):
        return Failure(Reason.NO_ENTRY, f"The source exports no such function: {said}.", to_findings(errors))
    if errors[0].file.endswith(SHIM) or "static assertion failed" in said:
        return Failure(Reason.WRONG_SIGNATURE, f"A function has a wrong type: {said}.", to_findings(errors))
    return None


def _error_failure(diagnostics: tuple[Diagnostic, ...], errors: tuple[Diagnostic, ...], said: str) -> Failure:
    """Return the failure for ordinary compile errors."""
    if not errors:
        # A compiler that fails without a message is counted as a crash, not as the candidate's defect alone.
        tail = said.strip()[-TAIL_CHARACTERS:] or "it said nothing"
        return Failure(Reason.COMPILER_CRASH, f"The compiler failed without an error message: {tail}")
    first = errors[0].finding()
    place = f"{first.place.file}:{first.place.line}: " if first.place else ""
    more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
    return Failure(Reason.COMPILE_ERROR, f"{place}{first.message}{more}", to_findings(diagnostics))
