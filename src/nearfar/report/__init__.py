"""A report on a metric: one HTML file that needs nothing else.

    study     what is looked at: the metric, rows held out, queries before and after
    figures   pictures as SVG that follows the page from light to dark
    page      the sections, and the file

Needs matplotlib and Jinja: ``pip install "nearfar[report]"``.
"""

from nearfar.report.page import write_report
from nearfar.report.study import Study

__all__ = ["Study", "write_report"]
