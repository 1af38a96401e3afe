"""How results show themselves in a notebook: a title, sentences, and horizontal bars.

Everything is one HTML fragment with styles of its own: no scripts and no files. Text has the
colour of the notebook, and bars are half transparent, so that light and dark themes work.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

_BAR = "height:0.8em;background:#3a86c8;opacity:0.75;border-radius:2px"
_CELL = "padding:1px 8px;text-align:left;border:none;background:none"
# Bars that fit on a screen beside the code.
_MOST_BARS = 12


def fragment(title: str, sentences: Sequence[str] = (), bars: str = "") -> str:
    """Return a title, sentences and bars as HTML; texts are escaped.

    Examples
    --------
    >>> from nearfar.runtime.notebook_html import fragment
    >>> "<b>a &lt; b</b>" in fragment("a < b")
    True
    """
    lines = "".join(f"<div>{html.escape(line)}</div>" for line in sentences)
    return f'<div class="nearfar"><div><b>{html.escape(title)}</b></div>{lines}{bars}</div>'


def bars(values: Mapping[str, float], write: str = "{:.1%}") -> str:
    """Return a table of bars for numbers that are 0 or more; small ones are summed up in a row.

    Parameters
    ----------
    values : mapping of str to float
        In the order of the rows.
    write : str
        Format of the numbers.

    Examples
    --------
    >>> from nearfar.runtime.notebook_html import bars
    >>> bars({"x": 0.75, "y": 0.25}).count("<tr")
    2
    """
    largest = max([0.0, *values.values()]) or 1.0
    shown = list(values.items())[:_MOST_BARS]
    rows = "".join(
        f'<tr style="background:none"><td style="{_CELL}">{html.escape(name)}</td>'
        f'<td style="{_CELL};text-align:right">{html.escape(write.format(value))}</td>'
        f'<td style="{_CELL};width:14em"><div style="{_BAR};width:'
        f'{100 * max(0.0, value) / largest:.1f}%"></div></td></tr>'
        for name, value in shown
    )
    more = len(values) - len(shown)
    rest = f"<div>and {more} more</div>" if more else ""
    return f'<table style="border:none;margin:4px 0">{rows}</table>{rest}'


class ShowsFit:
    """An estimator that shows its diagram and, once it is fitted, what it has learned."""

    def _fit_html(self) -> str:
        """Return what was learned as HTML; "" before a fit."""
        return ""

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr

        return f"{estimator_html_repr(self)}{self._fit_html()}"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
