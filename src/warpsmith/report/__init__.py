"""Reports on runs and on the suite: text, markdown, HTML and JSON views of one frozen page."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.report.agreement import Agreement, AgreementAnswer, compare_records, without_verdict
    from warpsmith.report.blocks import Document
    from warpsmith.report.board import suite_document
    from warpsmith.report.document import report_document
    from warpsmith.report.gather import PROFILE, build_report, build_run_page
    from warpsmith.report.html import render_html
    from warpsmith.report.markdown import render_markdown
    from warpsmith.report.page import ReportPage, RunPage, SuitePage
    from warpsmith.report.suite import load_folder, suite_page

__getattr__ = lazy_members(__name__)
