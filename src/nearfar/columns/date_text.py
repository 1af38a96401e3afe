"""Dates as people write them: 2024-12-31, 31.12.2024, 12/31/2024 23:59, 31 Dec 2024, 12/2024."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime

from nearfar.runtime.quoting import quoted

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = rf"(?P<name>{'|'.join(_MONTHS)})[a-z]*\.?"
_TIME = r"(?:,?[ T]+(?P<time>\d{1,2}:\d\d(?::\d\d)?)(?: ?(?P<half>[ap])\.?m\.?)?)?"
_FORMS = [
    re.compile(form + _TIME, re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})(?P<mark>[/-])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",
        r"(?P<first>\d{1,2})(?P<mark>[/.-])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4})",
        r"(?P<first>\d{1,2})(?P<mark>[/-])(?P<second>\d{1,2})(?P=mark)(?P<year>\d\d)",
        # With points, numbers of versions look like dates: 1.12.3.
        r"(?P<first>\d\d)\.(?P<second>\d\d)\.(?P<year>\d\d)",
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?[ -]*{_NAME},?[ -]*(?P<year>\d{{4}}|\d\d)",
        rf"{_NAME} *(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? +(?P<year>\d{{4}})",
        rf"{_NAME}[ -]+(?P<year>\d{{4}})",
        r"(?P<month>\d{1,2})[/.](?P<year>(?:19|20)\d\d)",
        r"(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)",
    )
]


def parse_date(text: str, *, month_first: bool = False) -> datetime:
    """Read a date; raise ValueError if it is not one.

    Parameters
    ----------
    text : str
    month_first : bool, default=False
        Whether the month comes first in dates such as 12/31/2024.

    Examples
    --------
    >>> from nearfar.columns.date_text import parse_date
    >>> print(parse_date("31/12/2024 18:30"), parse_date("Feb 3, 2024"), sep=", ")
    2024-12-31 18:30:00, 2024-02-03 00:00:00
    """
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    match = next((match for form in _FORMS if (match := form.fullmatch(text))), None)
    if match is None:
        raise ValueError(f"{quoted(text)} is not a date")
    parts = match.groupdict()
    day, month, year = (int(parts.get(part) or 1) for part in ("day", "month", "year"))
    if name := parts.get("name"):
        month = 1 + _MONTHS.index(name.lower())
    if first := parts.get("first"):
        day, month = int(first), int(parts["second"] or 1)
        day, month = (month, day) if month_first else (day, month)
    if year < 100:
        # As POSIX has it.
        year += 1900 if year > 68 else 2000
    hour, minute, second = (int(part) for part in f"{parts['time'] or '0:0'}:0".split(":")[:3])
    if half := parts["half"]:
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    return datetime(year, month, day, hour, minute, second)
