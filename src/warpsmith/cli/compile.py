"""`warpsmith compile`: a kernel to an artifact, with its resources and what the compiler said."""

from typing import Annotated

import typer

from warpsmith.app import read_kernel
from warpsmith.cli._options import Json, Kernel, Macros, Pass, Style, read_macros
from warpsmith.cli._output import console, print_json, print_table
from warpsmith.languages import compile_candidate
from warpsmith.languages.nvcc import DEFAULT_ARCH, Compiled, CompileOptions
from warpsmith.records import CompileFacts, Finding, StageResult, Task


def command(
    kernel: Kernel,
    target: Annotated[str | None, typer.Option("--task", help="Hold its signature to a task's.")] = None,
    direction: Pass = None,
    language: Style = None,
    arch: Annotated[str, typer.Option(help="The architecture to compile for.")] = DEFAULT_ARCH,
    macro: Macros = None,
    as_json: Json = False,
) -> int:
    """Compile one kernel; exit code 1 when it does not compile or does not fit the task."""
    task = _task(target) if target else None
    candidate = read_kernel(kernel, task.name if task else "", direction, language, read_macros(macro or []))
    options = CompileOptions.of(task, arch) if task else CompileOptions(arch=arch)
    signature = task.signature(candidate.direction) if task else None
    return _report(compile_candidate(candidate, signature, options), as_json)


def _task(target: str) -> Task:
    from warpsmith.tasks.host import open_task  # a task may need torch; a kernel alone does not

    with open_task(target) as opened:
        return opened.describe()


def _report(made: Compiled, as_json: bool) -> int:
    if as_json:
        print_json(made.result)
    else:
        _print(made)
    return 0 if made.ok else 1


def _print(made: Compiled) -> None:
    out, result = console(), made.result
    assert isinstance(result.facts, CompileFacts)
    out.print(_headline(result, result.facts), style="bold")
    if result.detail:
        out.print(result.detail)
    for finding in result.facts.findings:
        out.print(f"  {_place(finding)}{finding.severity}: {finding.message}")
    for entry in made.entries:
        out.print(f"  {entry.name}({', '.join(entry.arguments)}) -> {', '.join(entry.results) or 'nothing'}")
    if result.facts.kernels:
        rows = [
            (
                kernel.name,
                str(kernel.registers),
                str(kernel.spilled_bytes),
                str(kernel.shared_bytes),
                str(kernel.stack_bytes),
            )
            for kernel in result.facts.kernels
        ]
        print_table(("kernel", "registers", "spilled bytes", "shared bytes", "stack bytes"), rows)
    if made.artifact:
        out.print(f"artifact {made.artifact}")


def _headline(result: StageResult, facts: CompileFacts) -> str:
    reason = f" ({result.reason})" if result.reason else ""
    origin = "from the cache" if facts.cached else facts.toolchain or "not compiled"
    return f"{result.verdict}{reason} in {result.seconds:.2f} s · {facts.arch or 'no architecture'} · {origin}"


def _place(finding: Finding) -> str:
    return f"{finding.place.file}:{finding.place.line}:{finding.place.column}: " if finding.place else ""
