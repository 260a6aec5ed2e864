"""Every import points to a lower line of layers.txt, and every room stands on a line."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "warpsmith"
LAYERS = [line.split() for line in (ROOT / "layers.txt").read_text().splitlines() if line.strip()]
LEVEL = {room: level for level, line in enumerate(LAYERS) for room in line}
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """Each import of a room of the package, at any depth of nesting, with its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "warpsmith" else [module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "warpsmith" and len(parts) > 1 and not parts[1].startswith("__"):
                yield node.lineno, parts[1]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    assert room in LEVEL, f"{room} stands on no line of layers.txt"
    for line, target in imported_rooms(path):
        assert target == room or LEVEL[target] < LEVEL[room], f"{path}:{line}: {room} imports {target}"


def test_a_break_would_show(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f() -> None:\n    from warpsmith.cli import main\n    import warpsmith.evaluation.run\n")
    assert list(imported_rooms(bad)) == [(2, "cli"), (3, "evaluation")]


def test_no_cycle_between_rooms() -> None:
    graph: dict[str, set[str]] = {}
    for path in FILES:
        room = room_of(path)
        graph.setdefault(room, set()).update(target for _, target in imported_rooms(path) if target != room)
    order: list[str] = []
    while len(order) < len(graph):
        free = [room for room, needs in graph.items() if room not in order and needs <= set(order)]
        assert free, f"a cycle among {sorted(set(graph) - set(order))}"
        order += free
