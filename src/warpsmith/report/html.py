"""A document as one self-contained HTML file without network access. Every text is escaped."""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from pathlib import Path

from warpsmith.base import pluralize
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
    count_descendants,
)
from warpsmith.report.page import Node
from warpsmith.report.words import SHORT, lines_of, macro_flags

STYLE = Path(__file__).parent / "style.css"
SCRIPT = Path(__file__).parent / "script.js"
ICON = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>"  # else a browser asks a server for one


def render_html(document: Document) -> str:
    # The page works from a file, without a server: style and script are embedded.
    """Render the complete HTML file."""
    script = SCRIPT.read_text()
    body = "\n".join(_section(place, section) for place, section in enumerate(document.sections))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">\n'
        f'<title>{escape(document.title)}</title>\n<link rel="icon" href="{ICON}">\n'
        f"<style>{STYLE.read_text()}</style>\n</head>\n<body>\n<main>\n{_contents(document)}{body}\n</main>\n"
        f"<footer>{escape(document.foot)}</footer>\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _policy(script: str) -> str:
    """Return a content policy that allows our own script alone, by its hash.

    A script in a kernel's text could neither run nor load anything.
    """
    # 'unsafe-inline' holds for styles only, since the style sheet is embedded; it cannot run code.
    known = b64encode(sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{known}'"


def _contents(document: Document) -> str:
    """Return links to the runs; empty for a single run."""
    runs = [(place, section) for place, section in enumerate(document.sections) if section.level == 1]
    if len(runs) < 2:
        return ""
    links = "".join(f'<a href="#s{place}">{escape(section.title)}</a>' for place, section in runs)
    return f"<nav>{links}</nav>\n"


def _section(place: int, section: Section) -> str:
    level = section.level
    parts = [f'<section id="s{place}">', f"<h{level}>{escape(section.title)}</h{level}>"]
    return "\n".join([*parts, *map(_block, section.blocks), "</section>"])


def _block(block: Block) -> str:
    match block:
        case Paragraph(text=text, kind=kind):
            return f'<p class="{kind}">{escape(text)}</p>'
        case Table():
            return _table(block)
        case Figure(svg=svg, caption=caption, wide=wide):
            frame = "scroll wide" if wide else "scroll"
            return f'<figure><div class="{frame}">{svg}</div><figcaption>{escape(caption)}</figcaption></figure>'
        case Code():
            return _code(block)
        case Attachment(name=name, text=text):
            # A data URL lets a reader save the record without another file.
            inside = b64encode(text.encode()).decode()
            return (
                f'<p><a download="{escape(name)}" href="data:application/json;base64,{inside}">{escape(name)}</a></p>'
            )
        case Tree(nodes=nodes):
            return f'<ul class="tree">{"".join(_branch(root) for root in build_trees(nodes))}</ul>'


def _table(table: Table) -> str:
    kinds = [' class="n"' if name in table.numbers else "" for name in table.columns]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(table.columns, kinds, strict=True))
    rows = (
        "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) for row in table.rows
    )
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _code(code: Code) -> str:
    if not code.numbered:
        return f'<pre class="words">{escape(code.text)}</pre>'
    body = "".join(_lines(code.text, code.marks))
    return f'<details open><summary>{escape(code.title)}</summary><pre class="source">{body}</pre></details>'


def _lines(text: str, marks: Mapping[int, str]) -> Iterator[str]:
    for place, line in enumerate(lines_of(text), 1):
        mark = f"<b>{escape(marks[place])}</b>" if place in marks else ""
        kind = ' class="hot"' if mark else ""
        yield f"<span{kind}><i>{place}</i>{escape(line)}{mark}\n</span>"


def _branch(grown: TreeNode) -> str:
    node, below = grown.node, count_descendants(grown)
    inside = _diff(node) + (f"<ul>{''.join(map(_branch, grown.children))}</ul>" if grown.children else "")
    # The line of the best kernel is open, all other branches are closed.
    kind = "line" if node.line else "right" if node.right else "wrong"
    head = _node(node) + (f' <span class="soft">{pluralize(below, "kernel")} below</span>' if below else "")
    if not inside:
        return f'<li class="{kind}"><div class="leaf">{head}</div></li>'
    return f'<li class="{kind}"><details{" open" if node.line else ""}><summary>{head}</summary>{inside}</details></li>'


def _node(node: Node) -> str:
    star = "★ " if node.line else ""
    who = " by ".join(word for word in (node.operator, node.model) if word)
    macros = "".join(f" <code>{escape(flag)}</code>" for flag in macro_flags(node.macros).split())
    born = f" · generation {node.generation}"
    return (
        f"{star}<code>{escape(node.candidate[:SHORT])}</code> {escape(who)}{born}{macros} "
        f'<span class="outcome">{escape(node.outcome)}</span>'
    )


def _diff(node: Node) -> str:
    """Return the folded diff of a node; the script adds colours when a reader opens it."""
    if node.note:
        return f'<p class="soft">{escape(node.note)}</p>'
    if not node.diff:
        return ""
    title = f"what changed against {escape(node.parent[:SHORT])}"
    return f'<details class="change"><summary>{title}</summary><pre class="diff">{escape(node.diff)}</pre></details>'
