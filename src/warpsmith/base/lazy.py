"""Public members of a package that are imported on first access (PEP 562)."""

import importlib
import sys
from collections.abc import Callable, Mapping


def lazy_members(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package: `modules` maps each of its modules to the names that it provides."""
    homes = {name: f"{package}.{module}" for module, names in modules.items() for name in names}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return load
