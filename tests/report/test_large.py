"""Ten thousand records: how large their page is, on the benchmark's own run."""

import importlib.util
from pathlib import Path

import pytest

from warpsmith.archive import Archive
from warpsmith.report import build_report, render_html, report_document
from warpsmith.report.tree import MOST_NODES

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "report.py"
RECORDS, MOST_BYTES = 10_000, 10_000_000


@pytest.mark.usefixtures("linear_time")
def test_ten_thousand_records_are_a_page_of_bounded_size() -> None:
    spec = importlib.util.spec_from_file_location("report_benchmark", BENCHMARK)
    assert spec is not None and spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    with Archive.open("sqlite://") as archive:
        benchmark.fill(archive, "large", RECORDS)
        page = build_report(archive, ["large"])
        text = render_html(report_document(page))
    assert len(text.encode()) <= MOST_BYTES
    assert page.runs[0].evaluations == RECORDS and len(page.runs[0].lineage) == MOST_NODES
    assert page.runs[0].progress.scored == 8000 and len(page.runs[0].left_out) == 2
    assert "9700 of 10000 kernels are not in the lineage tree" in text
