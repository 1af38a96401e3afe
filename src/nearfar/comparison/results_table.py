"""A table of results with notes and a verdict, as text and as HTML: of methods, or of searches."""

from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeVar

GAIN_NAMES = ("gain", "gain_low", "gain_high", "gain_probability")
"""Names of the figures of a `Gain` in rows."""

Result = TypeVar("Result")


class ResultsTable(Mapping[str, Result]):
    """Results by name that print as a table with a verdict, also in a notebook.

    A subclass gives the texts: `title`, `_headings`, `_groups`, `_footnotes` and `verdicts`.
    """

    # Heading of the names in HTML; empty in a terminal.
    _compared = "distance"

    @property
    @abstractmethod
    def title(self) -> str:
        """Title of the table."""

    @property
    @abstractmethod
    def _headings(self) -> list[str]:
        """Headings of the columns, without that of the names."""

    @abstractmethod
    def _groups(self) -> dict[str, list[list[str]]]:
        """Lines of the table as cells, by the heading of each group; "" for the first."""

    @property
    @abstractmethod
    def _footnotes(self) -> list[str]:
        """Sentences below the table."""

    @property
    @abstractmethod
    def verdicts(self) -> list[str]:
        """The lines of the verdict."""

    def __str__(self) -> str:
        header, groups = ["", *self._headings], self._groups()
        lines = [header, *(cells for group in groups.values() for cells in group)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

        def aligned(cells: Sequence[str]) -> str:
            name, *numbers = cells
            padded = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
            return "  ".join([name.ljust(widths[0]), *padded]).rstrip()

        table = [aligned(header)]
        for heading, group in groups.items():
            table += [f"{heading}:"] * bool(heading) + [aligned(cells) for cells in group]
        return "\n".join([self.title, *table, *self._footnotes, *self.verdicts])

    def to_html(self, *, verdict: bool = True) -> str:
        """Return the table, with or without the verdict, as an HTML fragment."""
        head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in self._headings)
        body = ""
        for heading, group in self._groups().items():
            width = len(self._headings) + 1
            rows = "".join(
                f'<tr><th scope="row">{html.escape(name)}</th>'
                f"{''.join(f'<td>{cell}</td>' for cell in numbers)}</tr>"
                for name, *numbers in group
            )
            if heading:
                title = f'<th scope="rowgroup" colspan="{width}">{html.escape(heading)}</th>'
                rows = f"<tr>{title}</tr>{rows}"
            body += f"<tbody>{rows}</tbody>"
        after = " ".join(html.escape(line) for line in self._footnotes)
        lines = self.verdicts if verdict else []
        verdicts = "".join(f"<p><strong>{html.escape(line)}</strong></p>" for line in lines)
        return (
            f'<table class="comparison"><caption>{self.title}</caption>'
            f'<thead><tr><th scope="col">{self._compared}</th>{head}</tr></thead>'
            f"{body}</table><p>{after}</p>{verdicts}"
        )

    def _repr_html_(self) -> str:
        return self.to_html()
