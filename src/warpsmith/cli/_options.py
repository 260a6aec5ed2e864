"""Options of more than one command."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from warpsmith.base import UsageError
from warpsmith.evaluation import check_modes, is_measured, settle_device
from warpsmith.records import Defence, Direction, Group

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Target = Annotated[str, typer.Argument(help="A suite task, a task folder, a KernelBench file, or file.py:Name.")]
Kernel = Annotated[Path, typer.Argument(help="A .cu file.")]
Pass = Annotated[Direction | None, typer.Option(help="The direction; by default from the file's name.")]
Style = Annotated[str | None, typer.Option(help="The language, torch or plain; by default from the source.")]
Shapes = Annotated[
    list[str] | None, typer.Option("--input", help="An example input of file.py:Name, as 32x1024:float32; repeatable.")
]
Device = Annotated[str, typer.Option(help="cuda, vgpu (the virtual GPU), or auto: cuda where there is a GPU.")]
Cases = Annotated[Group | None, typer.Option(help="The group of cases to check and time instead of the usual ones.")]
Trust = Annotated[bool, typer.Option("--trust", help="Run the kernel although this machine cannot confine it well.")]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=1, max=256, help="Evaluations at once; one per core by default.")
]
Gpu = Annotated[str, typer.Option(help="The GPU that the virtual GPU models, or a .toml file that describes one.")]
Macros = Annotated[list[str] | None, typer.Option("--macro", "-D", help="NAME=VALUE, as a tuner would set.")]
Claim = Annotated[bool, typer.Option("--claim", help="Evaluate thoroughly; on a GPU, time torch in the same session.")]
Warm = Annotated[bool, typer.Option("--warm", help="Time without flushing the L2 before each call.")]
Baselines = Annotated[str, typer.Option(help="Modes of torch to compare with, with commas; all by default.")]
Pool = Annotated[bool, typer.Option("--pool/--no-pool", help="Evaluate in the resident pool if one runs.")]
Unproven = Annotated[bool, typer.Option("--unproven", help="Accept and mark a kernel that was not evaluated fully.")]
Without = Annotated[str, typer.Option(help="Defences to leave out: static, link, virtual; more with commas.")]


def read_defences(text: str) -> frozenset[Defence]:
    """Return the defences that a comma-separated text names."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [defence.value for defence in Defence]
    for name in names:
        # All names are checked first, so that a misspelt defence is not silently kept.
        if name not in known:
            raise UsageError(f"Defence {name} does not exist; these can be left out: {', '.join(known)}.")
    return frozenset(Defence(name) for name in names)


def read_modes(text: str) -> tuple[str, ...]:
    """Parse comma-separated modes of torch."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    check_modes(names)
    return names


def warn_of_unmeasured(device: str, given: Mapping[str, object]) -> None:
    """Warn on stderr of options without effect on the virtual GPU."""
    idle = [name for name, value in given.items() if value]
    # On the virtual GPU times are modelled, so options of the measurement have no effect.
    if idle and not is_measured(settle_device(device)):
        names = " and ".join(idle)
        print(f"warning: no time is measured on the virtual GPU: nothing comes of {names}.", file=sys.stderr)


def read_macros(texts: list[str]) -> dict[str, str]:
    """Return macros by name. Raise UsageError for one without a value."""
    for text in texts:
        # The value may contain "=", so only the first one separates.
        if "=" not in text:
            raise UsageError(f"Macro {text!r} has no value: write it as NAME=VALUE.")
    return {text.partition("=")[0]: text.partition("=")[2] for text in texts}
