"""Reports on a metric as one self-contained HTML file.

    study      the rows, the metric, and a split into training and held-out rows
    sections   text, tables and figures of each section
    figures    plots as SVG that follows the page's light or dark colours
    page       the HTML file

Needs matplotlib and Jinja: ``pip install "nearfar[report]"``.
"""

from nearfar.report.page import write_report
from nearfar.report.study import Study

__all__ = ["Study", "write_report"]
