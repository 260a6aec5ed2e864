"""A user's Python file as a seeded module."""

import importlib.util
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from warpsmith.base import UsageError

SALT = 0x9E3779B9  # keeps parameters and inputs of one trial from being the same random numbers


def load(path: Path) -> ModuleType:
    """Execute a file and return the module."""
    # A task file may import the files beside it.
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    name = f"warpsmith_foreign_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader  # a .py path always has both
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look their module up
    # Code at the top level may draw weights; they must not depend on earlier imports.
    seed(0)
    spec.loader.exec_module(module)
    return module


def require_attribute(module: ModuleType, path: Path, name: str, way_out: str) -> Any:
    """Return a module's attribute. Raise UsageError without one."""
    if not hasattr(module, name):
        raise UsageError(f"{path}: no '{name}' in it. {way_out}")
    return getattr(module, name)


def first_function(module: ModuleType, names: tuple[str, ...]) -> Callable[..., Any] | None:
    """Return a module's first named function, or None."""
    return next((getattr(module, name) for name in names if callable(getattr(module, name, None))), None)


def seed(value: int) -> None:
    """Seed torch, random and, if loaded, numpy."""
    torch.manual_seed(value)
    random.seed(value)
    # numpy is seeded only if the task has loaded it: importing it here would cost every task time.
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(value % (1 << 32))
