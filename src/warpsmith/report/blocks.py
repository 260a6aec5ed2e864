"""A document's elements. Every view renders the same elements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from warpsmith.report.page import Node

MOST_DEPTH = 40  # browsers give up at some hundred nested elements


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `kind` is plain, strong or soft."""

    text: str
    kind: str = "plain"


@dataclass(frozen=True)
class Table:
    """A table of text; columns named in `numbers` are aligned right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Figure:
    """A plot with its caption; a `wide` figure scrolls on a small screen."""

    svg: str
    caption: str
    wide: bool = False


@dataclass(frozen=True)
class Code:
    """Literal text, with marks beside lines (from 1) and optional line numbers."""

    text: str
    marks: Mapping[int, str] = field(default_factory=dict)
    numbered: bool = False
    title: str = ""  # of one that is folded


@dataclass(frozen=True)
class Attachment:
    """A file that the page contains."""

    name: str
    text: str


@dataclass(frozen=True)
class Tree:
    """Kernels under their parents."""

    nodes: tuple[Node, ...]


Block: TypeAlias = Paragraph | Table | Figure | Code | Attachment | Tree


@dataclass(frozen=True)
class Section:
    """A heading with its blocks; level 1 is a run, level 2 a part of a run."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2


@dataclass(frozen=True)
class Document:
    """A complete report, ready to be rendered."""

    title: str
    sections: tuple[Section, ...]
    foot: str = ""


@dataclass
class TreeNode:
    """A kernel with its children, oldest first."""

    node: Node
    children: list["TreeNode"] = field(default_factory=list)


def build_trees(nodes: Sequence[Node]) -> list[TreeNode]:
    """Build trees from a list in which every parent precedes its children.

    Below `MOST_DEPTH`, a child is placed beside its parent instead of under it.
    """
    known: dict[str, tuple[TreeNode, int, list[TreeNode]]] = {}  # the node, its depth, and the list that it stands in
    roots: list[TreeNode] = []
    for node in nodes:
        parent = known.get(node.parent)
        if parent is None:
            depth, beside = 0, roots
        elif parent[1] >= MOST_DEPTH:
            depth, beside = parent[1], parent[2]
        else:
            depth, beside = parent[1] + 1, parent[0].children
        grown = TreeNode(node)
        beside.append(grown)
        known[node.candidate] = (grown, depth, beside)
    return roots


def count_descendants(grown: TreeNode) -> int:
    """Count the kernels below a node."""
    return sum(1 + count_descendants(child) for child in grown.children)
