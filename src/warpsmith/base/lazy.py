"""Package members that load on first access (PEP 562)."""

import ast
import importlib
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path


def lazy_members(package: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a package.

    Its members are the imports of its `if TYPE_CHECKING:` block, which type checkers read too.
    """

    @cache
    def homes() -> Mapping[str, str]:
        """Return the module of each member."""
        # The source is read instead of imported: `import warpsmith` must load neither torch nor numpy.
        return dict(_imports(Path(str(sys.modules[package].__file__)).read_text()))

    def load(name: str) -> object:
        """Import and return a member."""
        if name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(homes()[name])
        # The import makes the submodule an attribute of the package. A member with the name of its submodule would be
        # hidden by it, so all members of the submodule are set at once.
        for member in (member for member, place in homes().items() if place == home.__name__):
            setattr(sys.modules[package], member, getattr(home, member))
        found: object = getattr(home, name)
        return found

    return load


def _imports(text: str) -> list[tuple[str, str]]:
    """Return names and modules of imports in `if` blocks."""
    blocks = (node for node in ast.parse(text).body if isinstance(node, ast.If))
    imports = (node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom))
    return [(alias.name, str(node.module)) for node in imports for alias in node.names]
