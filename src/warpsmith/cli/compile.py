"""`warpsmith compile`: the artifact of a kernel, its resources and the diagnostics of the compiler."""

from typing import Annotated

import typer

from warpsmith import app
from warpsmith.app import KernelRequest
from warpsmith.cli._options import Json, Kernel, Macros, Pass, Style, read_macros
from warpsmith.cli._output import console, print_json, print_table
from warpsmith.languages.nvcc import DEFAULT_ARCH, Compiled
from warpsmith.records import CompileFacts, Finding, StageResult


def command(
    kernel: Kernel,
    target: Annotated[str | None, typer.Option("--task", help="Check the signature against this task.")] = None,
    direction: Pass = None,
    language: Style = None,
    arch: Annotated[str, typer.Option(help="The architecture to compile for.")] = DEFAULT_ARCH,
    macro: Macros = None,
    as_json: Json = False,
) -> int:
    """Compile one kernel; exit code 1 if it does not compile or does not match the task."""
    request = KernelRequest(kernel, target or "", direction, language, read_macros(macro or []))
    made = app.compile_kernel(request, arch)
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
