from __future__ import annotations

from datetime import datetime

import numpy as np
import polars as pl
import pytest

from nearfar.columns import Columns
from nearfar.columns.cells import parse_date

FORMS = ["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%d/%m/%y", "%d.%m.%y"]
FORMS += ["%d %b %Y", "%d. %B %Y", "%d-%b-%y", "%b %d, %Y", "%B %d %Y", "%d%b%Y"]
TIMES = ["", " %H:%M", " %H:%M:%S", " %I:%M %p", ", %I:%M:%S%p"]
DAYS = [datetime(1999, 12, 31), datetime(2024, 2, 29), datetime(2001, 3, 4)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("time", TIMES)
def test_read_back(form, time):
    for day in DAYS:
        for hour, minute in ((0, 0), (11, 59), (12, 30), (23, 1)):
            moment = day.replace(hour=hour, minute=minute) if time else day
            assert parse_date(moment.strftime(form + time)) == moment


@pytest.mark.parametrize("text", ["12/31/2024", "12/31/24 08:15", "2/29/2024"])
def test_month_first(text):
    assert parse_date(text, month_first=True).day > 12
    with pytest.raises(ValueError, match=r"month must be|day is out"):
        parse_date(text)


@pytest.mark.parametrize(
    "text", ["03/2015", "3/2015", "2015-03", "Mar 2015", "march 2015", "3.2015"]
)
def test_months(text):
    assert parse_date(text) == datetime(2015, 3, 1)


@pytest.mark.parametrize(
    "text",
    ["", "x", "1.2.3", "10.2.11", "12", "120/80", "12:30", "31/02/2024", "1/2", "32 May 2020"],
)
def test_what_is_not_a_date(text):
    with pytest.raises(ValueError, match=r"."):
        parse_date(text)


def test_the_order_is_that_of_the_column():
    cells = ["1/2/2024", "12/31/2024", None, "unknown"]
    columns = Columns().fit(pl.DataFrame({"d": cells}))
    assert columns.kinds_[0].month_first
    assert columns.apply(pl.DataFrame({"d": ["3/4/2024", "n/a"]}))[:, 1].tolist() == [3, 6.5]
    european = Columns().fit(pl.DataFrame({"d": ["1/2/2024", "31/12/2024"]}))
    assert european.apply(pl.DataFrame({"d": ["3/4/2024"]}))[0, 1] == 4
    assert not np.isnan(european.apply(pl.DataFrame({"d": [None]}))).any()
    assert "month_first" not in european.to_json()
