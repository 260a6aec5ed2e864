"""Records to pages that people look at: one frozen page; text, markdown, HTML and JSON are its views."""

from warpsmith.report.blocks import Document
from warpsmith.report.board import suite_document
from warpsmith.report.document import document
from warpsmith.report.gather import PROFILE, report, run_page
from warpsmith.report.html import html
from warpsmith.report.markdown import markdown
from warpsmith.report.page import Calibrated, ReportPage, RunPage, SuitePage
from warpsmith.report.suite import load_folder, suite

__all__ = [
    "PROFILE",
    "Calibrated",
    "Document",
    "ReportPage",
    "RunPage",
    "SuitePage",
    "document",
    "html",
    "load_folder",
    "markdown",
    "report",
    "run_page",
    "suite",
    "suite_document",
]
