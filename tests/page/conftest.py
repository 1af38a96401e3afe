"""Reports that several tests read."""

from page.reports import report_file

__all__ = ["report_file"]
