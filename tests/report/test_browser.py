"""The HTML in a real browser: nothing goes wrong, every plot is drawn, things open, small screens and dark ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from made import measured, saved, start

from warpsmith.archive import Archive
from warpsmith.report import build_report, render_html, report_document, suite_document, suite_page

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.browser
PAGES = ("saved", "measured", "empty", "both", "suite")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Chrome]":
    from browser import open_browser

    opened = open_browser()
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One file of each kind of report."""
    folder = tmp_path_factory.mktemp("pages")
    with Archive.open("sqlite://") as archive:
        names = {"saved": [saved(archive)], "measured": [measured(archive)], "empty": [start(archive, "empty")]}
        names["both"] = [*names["saved"], *names["measured"]]
        texts = {kind: render_html(report_document(build_report(archive, runs))) for kind, runs in names.items()}
        texts["suite"] = render_html(suite_document(suite_page(archive, "the archive", {"rope": ""})))
    for kind, text in texts.items():
        (folder / f"{kind}.html").write_text(text)
    return {kind: folder / f"{kind}.html" for kind in texts}


@pytest.mark.parametrize("kind", PAGES)
def test_the_console_stays_silent_and_no_kernel_runs(browser: "Chrome", pages: dict[str, Path], kind: str) -> None:
    from browser import show

    browser.get_log("browser")
    show(browser, pages[kind])
    assert browser.get_log("browser") == []
    assert browser.execute_script("return window.broken") is None
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert [name for name in fetched if not name.startswith("data:")] == []


@pytest.mark.parametrize(("kind", "least"), [("saved", 4), ("measured", 4), ("both", 8)])
def test_every_plot_is_drawn(browser: "Chrome", pages: dict[str, Path], kind: str, least: int) -> None:
    from browser import show

    show(browser, pages[kind])
    boxes = browser.execute_script(
        "return [...document.querySelectorAll('figure svg')].map((svg) => {"
        " const inner = svg.getBBox(), outer = svg.getBoundingClientRect();"
        " return [inner.width, inner.height, outer.width, outer.height];})"
    )
    assert len(boxes) >= least and all(min(box) > 10 for box in boxes)
    shapes = "return [...document.querySelectorAll('figure svg')].map((s) => s.querySelectorAll('circle, rect').length)"
    assert all(browser.execute_script(shapes))


def test_labels_stay_inside_their_plot(browser: "Chrome", pages: dict[str, Path]) -> None:
    from browser import PHONE, show

    for kind, size in (("saved", (1100, 900)), ("measured", PHONE), ("saved", PHONE)):
        show(browser, pages[kind], size)
        outside = browser.execute_script(
            "return [...document.querySelectorAll('svg.plot text')].filter((text) => {"
            " const own = text.getBoundingClientRect(), all = text.ownerSVGElement.getBoundingClientRect();"
            " return own.left < all.left - 1 || own.right > all.right + 1;}).map((text) => text.textContent)"
        )
        assert outside == [], (kind, size)


def test_the_tree_opens(browser: "Chrome", pages: dict[str, Path]) -> None:
    from browser import show

    show(browser, pages["saved"])
    seen = "return [...document.querySelectorAll('.tree li')].filter((one) => one.checkVisibility()).length"
    root = browser.find_element("css selector", ".tree > li > details > summary")
    first = browser.execute_script(seen)
    root.click()
    closed = browser.execute_script(seen)
    root.click()
    roots = browser.execute_script("return document.querySelectorAll('.tree > li').length")
    assert closed == roots < browser.execute_script(seen) == first
    assert browser.execute_script("return document.querySelectorAll('.tree li.line').length") == 4


def test_a_diff_shows_when_it_is_opened(browser: "Chrome", pages: dict[str, Path]) -> None:
    from browser import show

    show(browser, pages["saved"])
    pre = browser.find_element("css selector", ".tree li.line > details > .change pre")
    assert not pre.is_displayed() and pre.find_elements("css selector", "span") == []
    browser.find_element("css selector", ".tree li.line > details > .change > summary").click()
    browser.execute_script("return new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")
    assert pre.is_displayed()
    assert pre.find_element("css selector", ".added").text == "+// compiled with -DVEC=4"


@pytest.mark.parametrize("kind", PAGES)
def test_a_phone_needs_no_sideways_scrolling(browser: "Chrome", pages: dict[str, Path], kind: str) -> None:
    from browser import PHONE, show

    show(browser, pages[kind], PHONE)
    browser.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    wide, screen = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= screen == PHONE[0]
    small = (
        "return Math.min(...[...document.querySelectorAll('p, td, summary')].map("
        "(one) => parseFloat(getComputedStyle(one).fontSize)))"
    )
    assert browser.execute_script(small) >= 13


@pytest.mark.parametrize("kind", ["saved", "suite"])
def test_dark_is_dark_and_can_be_read(browser: "Chrome", pages: dict[str, Path], kind: str) -> None:
    from browser import show

    colours = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
    found = []
    for scheme in ("light", "dark"):
        show(browser, pages[kind], scheme=scheme)
        found.append([_luminance(text) for text in browser.execute_script(colours)])
    (light_paper, light_ink), (dark_paper, dark_ink) = found
    assert light_paper > 0.8 > 0.1 > light_ink and dark_paper < 0.1 < 0.6 < dark_ink


def test_plots_change_with_the_scheme(browser: "Chrome", pages: dict[str, Path]) -> None:
    from browser import show

    fills = (
        "return ['.w-better', '.w-good', 'svg .paper', '.w-label'].map("
        "(name) => getComputedStyle(document.querySelector(name)).fill)"
    )
    show(browser, pages["saved"], scheme="light")
    light = browser.execute_script(fills)
    show(browser, pages["saved"], scheme="dark")
    assert all(one != other for one, other in zip(light, browser.execute_script(fills), strict=True))


def _luminance(text: str) -> float:
    """The relative luminance of `rgb(r, g, b)`, as WCAG has it."""
    parts = [int(part) / 255 for part in text[text.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
