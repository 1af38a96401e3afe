"""Reports on a metric, or on a search, as one self-contained HTML file.

    study              the rows, the metric, and both metric and baselines on held-out data
    headline           two numbers, a badge, and why the report is about its method
    sections           the sections in the order of the page; data and features
    bars               the section that compares methods
    classes            the section of errors by class and of confusions
    neighbor_section   the section of neighbours before and after
    map_section        the section with rows on a map, before and after
    planes             the plane of a map
    usage              the section of code to copy
    appendix           the command, seed, versions, parameters, p-values and curves
    search_page        a report on a judged search
    match_page         a report on matched records
    blocks             what sections are made of
    figures            plots as SVG that follows the page's light or dark colours
    page               the HTML file

Needs matplotlib and Jinja: ``pip install "nearfar[report]"``.
"""

from nearfar.report.page import write_report
from nearfar.report.search_page import SearchStudy, write_search_report
from nearfar.report.study import Study

__all__ = ["SearchStudy", "Study", "write_report", "write_search_report"]
