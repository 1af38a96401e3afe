"""The page of a report: headlines and sections as one HTML file."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nearfar.evidence.verdict import Category
from nearfar.page.blocks import Section
from nearfar.runtime.atomic_write import atomic_write
from nearfar.runtime.messages import Note, optional_package

LOOKS = {
    Category.CLEARLY_BETTER: "good",
    Category.PROBABLY_BETTER: "promising",
    Category.CANNOT_TELL: "unsure",
    Category.SAME: "same",
    Category.WORSE: "bad",
    Category.USELESS: "bad",
    Category.NOTHING: "same",
}
"""Classes of the badge in the style sheet."""
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def check_packages() -> None:
    """Raise ImportError if a package is missing, before work that ends in a report."""
    for package in ("matplotlib", "jinja2"):
        optional_package(package, "A report", "nearfar[report]")


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page; an existing file is replaced once the new one is complete."""
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


@dataclass(frozen=True)
class Headline:
    """A goal in two numbers and a badge.

    Attributes
    ----------
    measure, title: What is measured, and what for.
    reference, method: Names of what is compared.
    before, after: The numbers.
    badge: Which of a few categories the difference belongs to.
    look: Class of the badge in the style sheet.
    sentence: What follows for the method.
    gain: Expected gain with its interval and probability, in words; empty if unknown.
    basis: What the numbers were measured on.
    """

    measure: str
    title: str
    reference: str
    method: str
    before: str
    after: str
    badge: str
    look: str
    sentence: str
    gain: str
    basis: str


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
