"""Tasks of our own format: a folder with `task.toml` and `task.py`."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from warpsmith.base import UsageError, digest_files, read_text
from warpsmith.records import Origin, Task, Trial
from warpsmith.tasks.formats.manifest import Manifest, read_manifest
from warpsmith.tasks.formats.signature import backward_signature, has_function, read_signature

if TYPE_CHECKING:
    from torch import Tensor

    from warpsmith.tasks.inputs import Values

MANIFEST, CODE = "task.toml", "task.py"


def read_task(folder: Path) -> Task:
    """Return a folder's task without executing its code."""
    manifest = read_manifest(folder / MANIFEST)
    text = read_text(folder / CODE)
    forward = read_signature(folder / CODE, text, manifest.outputs)
    # The text is enough to find missing functions; nothing of it has run.
    _require(folder / CODE, text, manifest)
    return Task(
        name=manifest.name,
        version=digest_files([folder / MANIFEST, folder / CODE]),
        # Code and manifest together: a changed tolerance is another task too.
        origin=Origin.SUITE,
        description=manifest.description,
        source=text,
        forward=forward,
        backward=backward_signature(forward, manifest.saved),
        axes=manifest.every_axis(),
        cases=manifest.every_case(),
        heldout=manifest.heldout.heldout() if manifest.heldout else None,
        tolerance=manifest.tolerance,
        precision=manifest.precision,
        libraries=manifest.libraries,
        cost=manifest.cost,
    )


def _require(path: Path, text: str, manifest: Manifest) -> None:
    """Raise UsageError if the code lacks a function."""
    wanted = ["inputs", *(["saved"] if manifest.saved else [])]
    for name in wanted:
        if not has_function(text, name):
            raise UsageError(f"{path}: no function '{name}', which {MANIFEST} calls for. Define {name}(...).")


class OwnProgram:
    """A folder's imported `task.py`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The description comes from text, so opening a suite task loads no torch.
        self.task = read_task(folder)

    def arguments(self, trial: Trial) -> "Values":
        """Return the result of `inputs(case, draw)` for a trial."""
        from warpsmith.tasks.inputs import Draw  # torch comes with it
        from warpsmith.tasks.reference import checked

        given = self._call("inputs", trial.case, Draw(trial))
        return checked(self.task.forward, given if isinstance(given, tuple) else (given,))

    def forward(self, arguments: "Values") -> "tuple[Tensor, ...]":
        """Return `forward`'s results at the arguments' precision."""
        from warpsmith.tasks.inputs import outputs

        return outputs(self._call("forward", *arguments))

    def chosen(self, arguments: "Values", kept: "Values") -> "tuple[Tensor, ...]":
        """Return the results of `chosen(..., *saved)`, or of `forward` without `chosen`."""
        from warpsmith.tasks.inputs import outputs

        return outputs(self._call("chosen", *arguments, *kept)) if self._has("chosen") else self.forward(arguments)

    def backward_arguments(self, arguments: "Values", grads: "Sequence[Tensor]") -> "Values":
        """Return upstream gradients, forward's arguments and the results of `saved(...)`."""
        from warpsmith.tasks.inputs import outputs

        kept = outputs(self._call("saved", *arguments)) if self._has("saved") else ()
        return (*grads, *arguments, *kept)

    def _has(self, name: str) -> bool:
        """Whether the task defines a function."""
        return hasattr(self._module, name)

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the task."""
        function: Callable[..., Any] = getattr(self._module, name)
        return function(*arguments)

    @cached_property
    def _module(self) -> ModuleType:
        """The imported module."""
        name = f"warpsmith_task_{self.task.name}"
        spec = importlib.util.spec_from_file_location(name, self.folder / CODE)
        assert spec and spec.loader  # a .py path always has both
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # torch.compile looks the module of a function up
        spec.loader.exec_module(module)
        return module
