"""Prepare and check the documentation site.

`pages.py stage` copies its pages before the build, `pages.py check` checks its links after it, and
`pages.py requirements` prints what the build needs. Python's own library is enough for all three.
"""

import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
SOURCES = ("*.md", "docs/**/*.md", "design/*.md", "tests/recorded/README.md")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
CLICKS = 2  # the distance of every page from the front


def stage() -> None:
    """Copy the pages and their images to build/pages, with the paths that they have in the repository."""
    shutil.rmtree(PAGES, ignore_errors=True)
    pages = {page for pattern in SOURCES for page in ROOT.glob(pattern) if page.name != "CLAUDE.md"}
    for page in sorted(pages):
        target = PAGES / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(LINK.sub(partial(_link, page, pages), page.read_text()))


def _link(page: Path, pages: set[Path], link: re.Match[str]) -> str:
    """Return a link as it stands if it leads to a page or an image, else its text: source files are not on the site."""
    image, text, target = link[1], link[2], (page.parent / link[3]).resolve()
    if "://" in link[3] or target in pages:
        return link[0]
    if not image:
        return text
    copy = PAGES / target.relative_to(ROOT)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(target, copy)
    return link[0]


class _Page(HTMLParser):
    """The anchors of one HTML page, its links and its assets."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.assets: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the ids and targets of one element."""
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                (self.links if tag == "a" else self.assets).add(value)


def problems(site: Path = SITE) -> Iterator[str]:
    """Yield dead links, missing anchors, assets of other hosts, and pages far from the front."""
    pages = {path.resolve(): _Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    targets: dict[Path, set[Path]] = {path: set() for path in pages}
    for path, page in sorted(pages.items()):
        name = path.relative_to(site.resolve())
        yield from (f"{name} loads {asset} from another host" for asset in page.assets if urlsplit(asset).netloc)
        for link in sorted(page.links | page.assets):
            if (parts := urlsplit(link)).scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name} links to {link}, which does not exist"
            elif target in pages:
                targets[path].add(target)
                if parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                    yield f"{name} links to {link}, which has no such heading"
    yield from _far_pages(site.resolve(), targets)


def _far_pages(site: Path, targets: dict[Path, set[Path]]) -> Iterator[str]:
    near = {site / "index.html"}
    for _ in range(CLICKS):
        near |= {target for page in near for target in targets[page]}
    yield from (f"{page.relative_to(site)} is more than {CLICKS} clicks from the front" for page in set(targets) - near)


def check() -> int:
    """Print the problems of the built site and return the exit code."""
    found = list(problems())
    print("\n".join(found) or f"{len(list(SITE.rglob('*.html')))} pages: links, anchors and distances are right")
    return 1 if found else 0


def requirements() -> None:
    """Print the extra `docs` of the package, so that pip can install it without the package and torch."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    print(*project["optional-dependencies"]["docs"])


if __name__ == "__main__":
    sys.exit({"stage": stage, "check": check, "requirements": requirements}[sys.argv[1]]())
