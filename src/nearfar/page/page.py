"""Write a report: render headlines and sections as one HTML file."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Sequence

from nearfar.page.blocks import Section
from nearfar.runtime.atomic_write import atomic_write
from nearfar.runtime.messages import Note, optional_package
from nearfar.tables.report_headline import Headline, headlines, reason
from nearfar.tables.report_sections import Progress, sections
from nearfar.tables.report_study import Study

# Fewer rows leave too few to hold out, and a page of figures would mislead.
_MIN_ROWS = 10
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def check_packages() -> None:
    """Raise ImportError if a package is missing, before work that ends in a report."""
    for package in ("matplotlib", "jinja2"):
        optional_package(package, "A report", "nearfar[report]")


def write_report(
    path: str | os.PathLike[str], study: Study, *, progress: Progress | None = None
) -> None:
    """Write a report as one HTML file that needs no network.

    Parameters
    ----------
    path: An existing file is replaced only once the report is complete.
    progress: Called before each section with the number of finished sections, their total,
        and the name of the next one.
    """
    if len(study.X) < _MIN_ROWS:
        raise ValueError(f"A report needs at least {_MIN_ROWS} rows; got {len(study.X)}.")
    write_page(path, render(study, progress))


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page; an existing file is replaced once the new one is complete."""
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def render(study: Study, progress: Progress | None = None) -> str:
    """Return the page as HTML; see `write_report`."""
    n_components = study.metric.n_components
    coordinates = "coordinate" if n_components == 1 else "coordinates"
    mapped = f"{study.metric.n_features} features mapped to {n_components} {coordinates}"
    return render_page(
        study.title or study.name,
        title=study.title or f"{study.name}: a learned distance",
        subject=f"{study.method}, {mapped}",
        headlines=headlines(study),
        reason=reason(study),
        notes=study.notes_on_top,
        sections=sections(study, progress),
    )


def render_page(
    name: str,
    *,
    title: str,
    subject: str,
    headlines: list[Headline],
    reason: str,
    notes: Sequence[Note],
    sections: Iterable[Section],
) -> str:
    """Return a page as HTML.

    Parameters
    ----------
    name, title, subject: Heading of the page, title of its window, and what it is about.
    headlines: The first is the main one.
    reason: Sentences below the headlines.
    notes: What to know first.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError('A report needs Jinja: pip install "nearfar[report]".') from error
    environment = Environment(
        loader=PackageLoader("nearfar.page", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["with_code"] = with_code
    from nearfar import __version__

    return environment.get_template("page.html").render(
        name=name,
        title=title,
        subject=subject,
        headlines=headlines,
        reason=reason,
        notes=notes,
        sections=list(sections),
        version=__version__,
    )


def with_code(text: str) -> str:
    """Return text as HTML; what is between backticks is code, and options are not torn."""
    escaped = _OPTION.sub(r'<span class="option">\g<0></span>', html.escape(text))
    parts = escaped.split("`")
    if len(parts) % 2 == 0:
        return escaped
    return "".join(
        f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts)
    )
