"""Packages are imported by their public API, and a public class has a name of its own. Both counts may only fall."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "warpsmith"
FILES = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
# Lower a bound when the count falls: it may be above the count by as much as SLACK.
MOST_DEEP_IMPORTS, MOST_SHARED_CLASSES, SLACK = 35, 10, 20
Place = tuple[str, ...]


def place_of(path: Path) -> Place:
    """Return the dotted name of a file below the package; for an `__init__` the name of its folder."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


PACKAGES = {place_of(path) for path in FILES if path.name == "__init__.py"}


def targets(tree: ast.Module) -> Iterator[Place]:
    """Yield the modules of the package that the `from` imports of a file name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "warpsmith":
            yield tuple(str(node.module).split("."))[1:]


def owner_of(target: Place) -> Place:
    """Return the innermost package that contains a module."""
    return next(target[:length] for length in range(len(target), -1, -1) if target[:length] in PACKAGES)


def deep_imports(path: Path, tree: ast.Module) -> list[str]:
    """Return the modules that a file imports from inside another package."""
    home = place_of(path) if path.name == "__init__.py" else place_of(path)[:-1]
    inner = [target for target in targets(tree) if target not in PACKAGES]
    return [".".join(target) for target in inner if home[: len(owner_of(target))] != owner_of(target)]


def shared(names: Iterable[str]) -> list[str]:
    """Return each public name that occurs more than once, as often as it does."""
    counts = Counter(name for name in names if not name.startswith("_"))
    return sorted(name for name, count in counts.items() if count > 1 for _ in range(count))


def require_fall(found: list[str], most: int) -> None:
    """Raise if a count has risen, or if its bound was not lowered after the count."""
    assert len(found) <= most, f"{len(found)}, and at most {most} before: {sorted(found)}"
    assert most <= len(found) + SLACK, f"lower the bound {most} to {len(found)}"


def test_imports_from_inside_another_package_only_fall() -> None:
    require_fall(
        [f"{'.'.join(place_of(path))}: {name}" for path, tree in FILES.items() for name in deep_imports(path, tree)],
        MOST_DEEP_IMPORTS,
    )


def test_public_class_names_of_more_than_one_class_only_fall() -> None:
    classes = [node.name for tree in FILES.values() for node in tree.body if isinstance(node, ast.ClassDef)]
    require_fall(shared(classes), MOST_SHARED_CLASSES)


def test_both_would_be_seen() -> None:
    tree = ast.parse("from warpsmith.tasks.host.client import a\nfrom warpsmith.tasks.host import b\n")
    assert deep_imports(PACKAGE / "search" / "plan.py", tree) == ["tasks.host.client"]
    assert deep_imports(PACKAGE / "tasks" / "host" / "find.py", tree) == []
    assert shared(["Plan", "_Own", "Plan", "Other", "_Own"]) == ["Plan", "Plan"]
