"""The frame of a report: one self-contained HTML file.

Needs matplotlib and Jinja: ``pip install "nearfar[report]"``.
"""
