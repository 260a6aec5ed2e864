"""A run as a page: what it says, in every view, and what it does with runs that have little or odd content."""

import json
from base64 import b64decode
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from made import NASTY, measured, record, saved, start

from warpsmith.archive import Archive
from warpsmith.base import UsageError
from warpsmith.records import HotLine, KernelProfile, Place, ProfileFacts, Record
from warpsmith.report import (
    PROFILE,
    ReportPage,
    RunPage,
    build_report,
    render_html,
    render_markdown,
    report_document,
)
from warpsmith.report.blocks import MOST_DEPTH, TreeNode, build_trees
from warpsmith.report.page import Node
from warpsmith.report.svg import Bar, Dot, bars_svg, progress_svg
from warpsmith.report.tree import MOST_NODES, diff_candidates

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def archive() -> Iterator[Archive]:
    with Archive.open("sqlite://") as opened:
        yield opened


def one(archive: Archive, name: str) -> RunPage:
    return build_report(archive, [name]).runs[0]


def test_a_measured_headline_has_its_interval_and_its_baseline(archive: Archive) -> None:
    head = one(archive, measured(archive)).headline
    assert (head.kind, head.value) == ("measured", pytest.approx(2.0))
    assert head.low == pytest.approx(1.96) and head.high == pytest.approx(2.04) and head.level == 0.999
    assert head.against == "torch's best mode (compile)"
    assert head.gain == pytest.approx(26 / 12)
    assert "faster than torch's best mode (compile)" in head.sentence and "99.9% interval" in head.sentence


def test_modes_that_nobody_measured_are_named_in_the_headline(archive: Archive) -> None:
    archive.add(start(archive), record("k", 12.0, modes=("eager", "eager-graph")))
    said = one(archive, "measured").headline.sentence
    assert "faster than the best of torch's modes that were measured (compile; without max-autotune" in said
    assert "torch's best mode" not in said


def test_a_slower_winner_is_called_slower(archive: Archive) -> None:
    archive.add(start(archive), record("k", 30.0))
    assert "slower than torch's best mode" in one(archive, "measured").headline.sentence


def test_a_modelled_headline_claims_nothing(archive: Archive) -> None:
    page = one(archive, saved(archive))
    assert page.headline.kind == "modelled" and page.headline.low is None and page.headline.against == ""
    assert "modelled (never measured)" in page.headline.sentence
    assert page.headline.gain == pytest.approx(1.87, abs=0.01)


def test_modelled_times_are_called_so_in_every_view(archive: Archive) -> None:
    made = report_document(build_report(archive, [saved(archive)]))
    for line in render_markdown(made).splitlines():
        if " µs" in line and "Call:" not in line and not line.startswith(("1.", "  ")):
            assert "modelled" in line, line


def test_progress_counts_evaluations_and_dollars(archive: Archive) -> None:
    points = one(archive, measured(archive)).progress.points
    assert [point.evaluation for point in points] == [1, 3, 4]
    assert [point.usd for point in points] == [0.0, 0.75, 1.0], "what never became an evaluation was paid too"
    assert [point.value for point in points] == pytest.approx([24 / 26, 1.2, 2.0]) and all(p.better for p in points)


def test_the_funnel_has_proposals_that_were_never_evaluated(archive: Archive) -> None:
    steps = {(step.stage, step.reason or step.verdict): step.count for step in one(archive, saved(archive)).funnel}
    assert steps[("proposal", "model_failed")] == 1
    assert steps[("compile", "compile_error")] == 1 and steps[("check", "findings")] == 1
    assert steps[("timing", "pass")] > 10


def test_verifiers_are_counted(archive: Archive) -> None:
    found = one(archive, saved(archive)).verifiers
    assert (found.stopped, found.missed) == (1, 1) and found.reached > 10
    assert found.evaluation_s and found.saved_s == pytest.approx(found.evaluation_s)


def test_the_generalization_gap_is_held_out_over_seen(archive: Archive) -> None:
    page = one(archive, measured(archive))
    assert page.gap is not None and page.gap.ratio == pytest.approx(0.5) and page.gap.checked == 1
    assert "held-out over seen 0.50" in page.gap.sentence
    assert [case.group for case in page.cases] == ["timing", "heldout"]


def test_a_gap_that_was_not_timed_is_not_made_up(archive: Archive) -> None:
    gap = one(archive, saved(archive)).gap
    assert gap is not None and gap.ratio is None and gap.checked == 5 and "not known" in gap.sentence


def test_the_tree_leads_from_the_seed_to_the_best(archive: Archive) -> None:
    page = one(archive, saved(archive))
    line = [node for node in page.lineage if node.line]
    assert line[0].operator == "seed" and page.best is not None and line[-1].candidate == page.best.candidate
    assert all(child.parent == parent.candidate for parent, child in pairwise(line))
    by_hand = next(node for node in page.lineage if node.model == "a person" and node.right)
    assert "+  float values[Vec], count = 0.0f" in by_hand.diff


def test_a_diff_shows_macros() -> None:
    before, after = record("text\n", 1.0).candidate, record("text\n", 1.0).candidate
    after = after.model_copy(update={"macros": {"BLOCK": "512"}})
    assert "+// compiled with -DBLOCK=512" in diff_candidates(before, after)
    assert diff_candidates(before, before) == "the same text"


def test_long_texts_are_cut_or_not_compared() -> None:
    short, long = record("a\n", 1.0).candidate, record("b\n" * 15_000, 1.0).candidate
    assert (
        diff_candidates(short, long).endswith("characters more were left out")
        and len(diff_candidates(short, long)) < 21_000
    )
    assert diff_candidates(short, record("b\n" * 150_000, 1.0).candidate).startswith(
        "not compared: a text of 300000 characters"
    )


def test_a_form_feed_ends_no_line(archive: Archive) -> None:
    archive.add(start(archive), record("one\ftwo\nthree\n", 12.0))
    made = render_html(report_document(build_report(archive, ["measured"])))
    assert "Source, 2 lines" in made and "<i>2</i>three" in made


def test_costs_are_by_model_and_operator(archive: Archive) -> None:
    page = build_report(archive, [measured(archive)])
    assert page.runs[0].usd == 1.0 and {call.model for call in page.runs[0].calls} == {"m", "n"}
    assert "| m | improve | 1 | 900 | 300 |" in render_markdown(report_document(page))


def test_lines_of_the_profile_are_marked_where_they_are_the_kernel_s(archive: Archive) -> None:
    name = measured(archive)
    best = archive.best(name)
    assert best is not None
    lines = [("k.cu", 2, "__global__ void k() {}"), ("half.h", 1, "other"), ("k.cu", 99, "")]
    hot = tuple(HotLine(place=Place(file=f, line=n), share=0.5, of="stall samples", code=c) for f, n, c in lines)
    kernel = KernelProfile(name="k", launches=1, lines=hot)
    archive.note(name, PROFILE, json.loads(ProfileFacts(source="ncu", kernels=(kernel,)).text()), best.candidate)
    page = build_report(archive, [name])
    assert page.runs[0].best is not None and [line.place.line for line in page.runs[0].best.hot] == [2]
    assert "__global__ void k() {}<b>50% of stall samples</b>" in render_html(report_document(page))
    assert "__global__ void k() {}  // <- 50% of stall samples" in render_markdown(report_document(page))


def test_the_best_kernel_has_its_environment_and_commands(archive: Archive) -> None:
    page = one(archive, saved(archive))
    assert page.best is not None and page.profile is not None
    assert page.best.commands[2].startswith("warpsmith eval layernorm layernorm-tuned.cu --direction forward")
    assert "-DVEC=4" in page.best.commands[2] and page.best.record.environment.device == "virtual H200"


def test_the_page_carries_the_record_that_regrade_reads(archive: Archive) -> None:
    page = build_report(archive, [saved(archive)])
    best = archive.best("layernorm-tuned")
    made = render_html(report_document(page))
    inside = made.partition('download="layernorm-tuned.record.json" href="data:application/json;base64,')[2]
    assert best is not None and Record.parse(b64decode(inside.partition('"')[0])) == best.record
    assert page.runs[0].best is not None and page.runs[0].best.record == best.record
    assert "warpsmith regrade layernorm-tuned.record.json --device vgpu" in made


def test_an_empty_run_is_a_page(archive: Archive) -> None:
    page = build_report(archive, [start(archive)])
    assert page.runs[0].headline.sentence == "No kernel was right and timed." and page.runs[0].best is None
    assert "Nothing was evaluated yet" in render_html(report_document(page)) and "--resume" in render_markdown(
        report_document(page)
    )


def test_a_run_without_a_right_kernel_says_how_they_ended(archive: Archive) -> None:
    archive.add(start(archive), record("wrong", None))
    page = build_report(archive, ["measured"])
    assert page.runs[0].best is None and "wrong\\_value" in render_markdown(report_document(page))
    assert "wrong_value" in render_html(report_document(page))


def test_an_older_record_is_a_page(archive: Archive) -> None:
    start(archive)
    for path in GOLDEN.glob("*.json"):
        archive.add("measured", Record.parse(path.read_text()))
    page = build_report(archive, ["measured"])
    assert page.runs[0].evaluations == len(list(GOLDEN.glob("*.json"))) > 0
    assert render_html(report_document(page)).endswith("</html>\n")


class _Tags(HTMLParser):
    """Counts tags and checks that they close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag


def test_kernel_text_with_markup_stays_text(archive: Archive) -> None:
    made = render_html(report_document(build_report(archive, [measured(archive)])))
    tags = _Tags()
    tags.feed(made)
    assert tags.open == [] and tags.seen.count("script") == 1 and "img" not in tags.seen
    assert "onerror=&#x27;window.broken" in made and "<b>3 are wrong" not in made


def test_nothing_is_fetched(archive: Archive) -> None:
    made = render_html(report_document(build_report(archive, [saved(archive)])))
    assert "default-src 'none'" in made
    for word in ('src="http', 'href="http', "@import", "url(http"):
        assert word not in made


def test_markdown_fences_hold_backticks(archive: Archive) -> None:
    archive.add(start(archive), record("// ```\nnot the end\n", 12.0))
    text = render_markdown(report_document(build_report(archive, ["measured"])))
    assert "````\n// ```\nnot the end\n````" in text


def test_the_json_is_the_page(archive: Archive) -> None:
    page = build_report(archive, [saved(archive), measured(archive)])
    assert ReportPage.parse(page.text()) == page
    assert [run["run"]["name"] for run in json.loads(page.text())["runs"]] == ["layernorm-tuned", "measured"]
    assert '<nav><a href="#s0">layernorm-tuned</a>' in render_html(report_document(page))


def test_a_run_that_is_not_there_is_usage(archive: Archive) -> None:
    with pytest.raises(UsageError, match="Did you mean measured"):
        build_report(archive, [start(archive), "measurd"])


def test_an_ancestor_of_itself_ends_nothing(archive: Archive) -> None:
    start(archive)
    loop = record("loop", 12.0)
    own = loop.candidate.model_copy(update={"parents": (loop.candidate.id,)})
    archive.add("measured", loop.model_copy(update={"candidate": own}))
    assert [node.candidate for node in one(archive, "measured").lineage] == [loop.candidate.id]
    assert "★" in render_html(report_document(build_report(archive, ["measured"])))


def test_a_deep_chain_is_cut_and_stays_whole() -> None:
    names = [f"k{place}" for place in range(MOST_NODES)]
    nodes = [Node(candidate=name, parent=parent) for parent, name in zip(["", *names], names, strict=False)]
    roots = build_trees(nodes)
    assert depth(roots) == MOST_DEPTH + 1 and size(roots) == MOST_NODES


def depth(roots: list[TreeNode]) -> int:
    return 1 + max((depth(root.children) for root in roots), default=-1) if roots else 0


def size(roots: list[TreeNode]) -> int:
    return sum(1 + size(root.children) for root in roots)


@pytest.mark.parametrize("values", [[1.0], [1.0, 1.0], [0.001, 1000.0], [3.0, 2.0, 1.0]])
def test_plots_stay_on_their_paper(values: list[float]) -> None:
    text = progress_svg([Dot(place, value, "w", True) for place, value in enumerate(values)], "x", "y")
    places = [float(part.split('"')[1]) for part in text.split("cy=")[1:]]
    assert len(places) == len(values) and all(0 < place < 270 for place in places) and "nan" not in text


def test_bars_are_escaped_and_in_proportion() -> None:
    text = bars_svg([Bar("<a>", 2.0, "2"), Bar("b", 1.0, "1")], "bars")
    full, half = (float(part.split('"')[1]) for part in text.split(" width=")[1:])
    assert full == 2 * half and "<a>" not in text
    assert NASTY not in text
