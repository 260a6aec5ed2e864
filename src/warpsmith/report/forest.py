"""Nodes grown into trees. Chains are as deep as a search is long, so depth has a bound and the rest goes on beside."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from warpsmith.report.page import Node

MOST_DEPTH = 40  # browsers give up at some hundred nested elements


@dataclass
class Grown:
    """A node and its children, oldest first."""

    node: Node
    children: list["Grown"] = field(default_factory=list)


def grow(nodes: Sequence[Node]) -> list[Grown]:
    """The trees of a list in which every parent stands before its children."""
    known: dict[str, tuple[Grown, int, list[Grown]]] = {}  # the node, its depth, and the list that it stands in
    roots: list[Grown] = []
    for node in nodes:
        parent = known.get(node.parent)
        if parent is None:
            depth, beside = 0, roots
        elif parent[1] >= MOST_DEPTH:
            depth, beside = parent[1], parent[2]
        else:
            depth, beside = parent[1] + 1, parent[0].children
        grown = Grown(node)
        beside.append(grown)
        known[node.candidate] = (grown, depth, beside)
    return roots


def count(grown: Grown) -> int:
    """The kernels below."""
    return sum(1 + count(child) for child in grown.children)
