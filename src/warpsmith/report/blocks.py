"""What a document is made of. Views render these and nothing else, so text and HTML say the same."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from warpsmith.report.page import Node


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `kind` is plain, strong or soft."""

    text: str
    kind: str = "plain"


@dataclass(frozen=True)
class Table:
    """Columns and rows of text; columns whose name stands in `numbers` are set to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Figure:
    """A plot and the sentence that says what is to be seen; `wide` ones scroll on a small screen."""

    svg: str
    caption: str
    wide: bool = False


@dataclass(frozen=True)
class Code:
    """Text as it is, with marks beside lines (from 1); `numbered` shows the numbers."""

    text: str
    marks: Mapping[int, str] = field(default_factory=dict)
    numbered: bool = False
    title: str = ""  # of one that is folded


@dataclass(frozen=True)
class Attachment:
    """A file that the page carries with it."""

    name: str
    text: str


@dataclass(frozen=True)
class Tree:
    """Kernels by their parents."""

    nodes: tuple[Node, ...]


Block: TypeAlias = Paragraph | Table | Figure | Code | Attachment | Tree


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it; `level` 1 is a run, 2 a part of it."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2


@dataclass(frozen=True)
class Document:
    """A whole report, ready to be rendered."""

    title: str
    sections: tuple[Section, ...]
    foot: str = ""
