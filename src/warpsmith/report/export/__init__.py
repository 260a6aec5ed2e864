"""Installable Python packages that contain a kernel as a PyTorch operator."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.report.export.package import Package, default_name, package_files

__getattr__ = lazy_members(__name__)
