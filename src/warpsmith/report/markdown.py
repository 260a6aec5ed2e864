"""A document as markdown."""

import re
from collections.abc import Iterator, Mapping

from warpsmith.base import escape_controls
from warpsmith.report.blocks import (
    Attachment,
    Block,
    Code,
    Document,
    Figure,
    Paragraph,
    Section,
    Table,
    Tree,
    TreeNode,
    build_trees,
)
from warpsmith.report.words import SHORT, lines_of, macro_flags

MOST_DEPTH = 12  # of the list: deeper ones stay at this depth


def render_markdown(document: Document) -> str:
    """Render the complete markdown text."""
    parts = [f"# {_plain(document.title)}", *(_section(section) for section in document.sections)]
    # Names and messages come from models and tasks, so control characters are replaced.
    return escape_controls("\n\n".join([*parts, f"*{_plain(document.foot)}*"]) + "\n")


def _section(section: Section) -> str:
    head = f"{'#' * (section.level + 1)} {_plain(section.title)}"
    return "\n\n".join([head, *(text for block in section.blocks if (text := _block(block)))])


def _block(block: Block) -> str:
    match block:
        case Paragraph(text=text, kind="strong"):
            return f"**{_plain(text)}**"
        case Paragraph(text=text):
            return _plain(text)
        case Table():
            return _table(block)
        case Figure(caption=caption):
            return f"*{_plain(caption)}*"
        case Code(text=text, marks=marks):
            return _fenced(_marked(text, marks))
        case Attachment(name=name):
            return f"{_plain(name)}: the record, which the JSON and the HTML view of this report carry."
        case Tree(nodes=nodes):
            return "\n".join(line for root in build_trees(nodes) for line in _branch(root, 0))


def _table(table: Table) -> str:
    line = ["---:" if name in table.numbers else "---" for name in table.columns]
    rows = [table.columns, tuple(line), *(tuple(map(_plain, row)) for row in table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _marked(text: str, marks: Mapping[int, str]) -> str:
    if not marks:
        return text
    lines = lines_of(text)
    return "\n".join(f"{line}  // <- {marks[place]}" if place in marks else line for place, line in enumerate(lines, 1))


def _branch(grown: TreeNode, depth: int) -> Iterator[str]:
    node = grown.node
    star = "★ " if node.line else ""
    who = " by ".join(word for word in (node.operator, node.model) if word)
    words = f"{star}`{node.candidate[:SHORT]}` {who} {macro_flags(node.macros)}".rstrip()
    yield f"{'  ' * min(depth, MOST_DEPTH)}- {words}: {_plain(node.outcome)}"
    for child in grown.children:
        yield from _branch(child, depth + 1)


def _fenced(text: str) -> str:
    """Fence text with more backticks than any run inside it has."""
    # A fence that is longer than any run of backticks inside cannot be closed by the text.
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"


def _plain(text: str) -> str:
    """Escape markdown characters and join lines."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))
