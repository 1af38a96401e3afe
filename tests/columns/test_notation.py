"""Numbers as people write them: read back what was written, in every form."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from columns.scikit import column_transformer
from nearfar.columns import Columns
from nearfar.columns import numbers as shapes_module
from nearfar.columns.cells import CellError
from nearfar.columns.columns import column_examples
from nearfar.columns.numbers import PLAIN, Notation, survey

NAN = float("nan")


def objects(cells):
    found = np.empty(len(cells), dtype=object)
    found[:] = list(cells)
    return found


def read(*cells):
    """The cells as numbers; they must be a column of numbers."""
    found = survey(objects(cells))
    assert found.is_number
    return found.notation.read(objects(cells)).tolist()


COLUMNS = {
    "percent": (["38%", "4.5 %", "-2 %", "100"], [38, 4.5, -2, 100]),
    "money before": (["€128.90", "€ 1,234.5", "EUR 5", "€.5"], [128.9, 1234.5, 5, 0.5]),
    "money after": (["128.90 €", "1,234.5 EUR", "5€"], [128.9, 1234.5, 5]),
    "dollars": (["$1,234.5", "-$5", "$-6", "($3.20)", "US$7"], [1234.5, -5, -6, -3.2, 7]),
    "a dot after a currency": (["Rs.500", "Rs. 1,200", "rs 5"], [500, 1200, 5]),
    "money by unit": (["€12.50/m²", "€13/m2"], [12.5, 13]),
    "no cents": (["1.299,- €", "899,- €", "12,50 €"], [1299, 899, 12.5]),
    "decimal comma": (["1.234,5", "12,5", "3", "1.234"], [1234.5, 12.5, 3, 1234]),
    "decimal point": (["1,234.5", "12.5", "3", "1,234"], [1234.5, 12.5, 3, 1234]),
    "only thousands": (["1,234", "12,500", "7"], [1234, 12500, 7]),
    "only decimals": (["1.234", "2.500"], [1.234, 2.5]),
    "points between thousands": (["1.234", "12.500", "930"], [1234, 12500, 930]),
    "zero before a comma": (["0,532", "1,234"], [0.532, 1.234]),
    "both marks": (["12.5", "1.5", "0,5"], [12.5, 1.5, 0.5]),
    "spaces": (["1 234,5", "1\u202f234,7", "1\u2009234\u00a0567"], [1234.5, 1234.7, 1234567]),
    "apostrophes": (["1'234.50", "2’345"], [1234.5, 2345]),
    "Indian groups": (["1,23,456", "12,34,567.5"], [123456, 1234567.5]),
    "metres": (["1.43 m", "804 cm", "3", "2km"], [1.43, 8.04, 3, 2000]),
    "power of a unit": (["1.2 g/cm3", "1300 kg/m3", "2 g/cm^3"], [1.2, 1.3, 2]),
    "digits in a unit": (["5.6 l/100 km", "7 l/100 km"], [5.6, 7]),
    "out of": (["3/10", "10/10"], [3, 10]),
    "temperature": (["37.5 °C", "99.5 °F", "38C"], [37.5, 37.5, 38]),
    "feet": (["5'6\"", "6'", "4'3", "5 ft 9 in"], [5.5, 6, 4.25, 5.75]),
    "hours": (["1h 30m", "45 min", "2h", "1h15", "90 s"], [1.5, 0.75, 2, 1.25, 0.025]),
    "clock": (["12:30", "1:15:36", "4:30.0"], [12.5, 1.26, 4.5]),
    "plural": (["3 rooms", "1 room", "2 Rooms"], [3, 1, 2]),
    "case": (["3 KG", "500 G", "2 Kg"], [3, 0.5, 2]),
    "thousands in words": (
        ["12k", "3.4M", "800", "2bn", "1.5 million"],
        [12e3, 34e5, 800, 2e9, 15e5],
    ),
    "thousands of a unit": (["12k km", "75,000 km"], [12000, 75000]),
    "thousands of money": (["€12k", "€3.4m", "5 Mio. €"], [12000, 34e5, 5e6]),
    "a small m is metres": (["3.4m", "5 m"], [3.4, 5]),
    "brackets": (["(3.2)", "5", "(1,234.5)"], [-3.2, 5, -1234.5]),
    "bounds": (["<5", "> 100", "≥7", "<= 2", "5+", "over 9"], [5, 100, 7, 2, 5, 9]),
    "about": (["~12", "ca. 5", "approx. 7", "about 8"], [12, 5, 7, 8]),
    "signs": (["+5", "-3", "\u22125", "12-"], [5, -3, -5, -12]),
    "errors": (["5.1 ± 0.2", "5.2+-0.1 m", "4 +/- 1 m"], [5.1, 5.2, 4]),
    "powers of ten": (["1e5", "2.5E-3", "3x10^5", "3.1 × 10^-2"], [1e5, 2.5e-3, 3e5, 0.031]),
    "ordinals": (["1st", "2nd", "3rd", "11th"], [1, 2, 3, 11]),
    "missing": (["5", "n.d.", "--", "missing", "6", "#DIV/0!"], [5, NAN, NAN, NAN, 6, NAN]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_forms(name):
    cells, expected = COLUMNS[name]
    np.testing.assert_allclose(read(*cells), expected, rtol=1e-12)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_cell_is_read_in_the_same_way_on_its_own(name):
    cells, _ = COLUMNS[name]
    notation = survey(objects(cells)).notation
    alone = [notation.read(objects([cell]))[0] for cell in cells]
    np.testing.assert_array_equal(alone, notation.read(objects(cells)))


NOT_NUMBERS = {
    "dates": ["2021-03-04", "31.12.2024", "12/03/2021", "3 May 2021"],
    "ranges": ["0-20 cm", "20-50 cm", "3 - 4"],
    "pairs": ["120/80", "130/70", "125/85"],
    "sizes": ["30 x 40", "20 x 50", "10 x 15"],
    "codes": ["00501", "90210", "02139"],
    "codes of several lengths": ["0123", "45", "007", "0171"],
    "versions": ["1.2.3", "1.10.0", "2.0.1"],
    "labels": ["Room 12", "Room 14", "#7"],
    "seats": ["12A", "14C", "7F", "3B"],
    "hashes": ["3f7a9c", "90b1d2", "7e88aa"],
    "phone numbers": ["+49 170 1234567", "030-123456"],
    "several currencies": ["€5", "$7", "£9"],
    "several dimensions": ["5 kg", "7 m", "9 s"],
    "too large": ["1e999", "2e888"],
    "words": ["red", "green"],
}


@pytest.mark.parametrize("name", NOT_NUMBERS)
def test_what_is_not_a_number(name):
    assert not survey(objects(NOT_NUMBERS[name])).is_number


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_numbers_of_computers_are_read_exactly(numbers):
    cells = objects([repr(number) for number in numbers])
    found = survey(cells)
    assert found.is_plain
    np.testing.assert_array_equal(found.notation.read(cells), numbers)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=30))
def test_any_text_is_read_or_refused(cells):
    found = survey(objects(cells))
    if found.is_number:
        assert len(found.notation.read(objects(cells))) == len(cells)
        assert "→" in str(found.notation) or not found.notation.example


class TestOtherCells:
    def test_one_in_ten_may_be_anything(self):
        for n, expected in ((1, True), (2, False)):
            cells = objects([str(v) for v in range(10)] + [f"x{k}" for k in range(n)])
            assert survey(cells[-10:]).is_number is expected

    def test_one_in_four_may_be_a_few_words(self):
        numbers = [str(v) for v in range(30)]
        assert survey(objects([*numbers, *["pending"] * 10])).is_number
        assert not survey(objects([*numbers, *["pending"] * 11])).is_number
        assert not survey(objects([*numbers, *["sample 7"] * 10])).is_number
        assert not survey(objects([*numbers, *"abcdef"])).is_number
        assert survey(objects([*numbers, *"abc"])).is_number

    def test_they_are_errors_later_unless_there_were_some(self):
        strict = survey(objects(["5 m", "6 m"])).notation
        with pytest.raises(CellError, match=r"'lost' in row 1 .* is not a number in m"):
            strict.read(objects(["3", "lost"]))
        lenient = survey(objects(["5 m", "6 m"] * 5 + ["lost"])).notation
        assert lenient.gaps == ("lost",)
        assert lenient.n_gaps == 1
        np.testing.assert_array_equal(lenient.read(objects(["3", "stolen", None])), [3, NAN, NAN])

    def test_words_for_missing_are_always_missing(self):
        assert np.isnan(PLAIN.read(objects(["n.a.", "Unknown", "…"]))).all()


class TestUnits:
    def test_other_units_of_the_dimension_may_come_later(self):
        notation = survey(objects(["143 cm", "804 cm"])).notation
        np.testing.assert_allclose(notation.read(objects(["12 mm", "1 in"])), [1.2, 2.54])
        with pytest.raises(CellError, match=r"'5 kg' in row 0 .* is not a number in cm"):
            notation.read(objects(["5 kg"]))

    def test_a_unit_in_few_cells_is_that_of_the_others(self):
        found = survey(objects(["1.5", "2.5", "30 cm"])).notation
        assert found.unit == "cm"

    def test_a_word_in_few_cells_is_no_unit(self):
        found = survey(objects([*map(str, range(30)), "14a"])).notation
        assert (found.unit, found.gaps) == ("", ("14a",))


class TestRecipe:
    TABLE = pl.DataFrame(
        {
            "depth": ["1.43 m", "804 cm", None, "2 m"] * 5,
            "price": ["1.234,50 €", "7,- €", "12,5 €", "on request"] * 5,
            "born": ["12/31/1999", "1/2/2000", "3/4/2001", "n/a"] * 5,
            "town": ["Bonn", "bonn ", "Ulm", "ULM"] * 5,
            "plain": ["1", "2", "3.5", "4"] * 5,
        }
    )

    def test_it_is_kept(self):
        columns = Columns().fit(self.TABLE)
        again = Columns.from_json(columns.to_json())
        assert again == columns
        new = pl.DataFrame(
            {
                "depth": ["30 mm", "4"],
                "price": ["1.500 €", "?"],
                "born": ["2/1/2000", None],
                "town": ["BONN", "Ulm"],
                "plain": ["1,234.5", "2"],
            }
        )
        found = dict(zip(columns.feature_names, again.apply(new).T.tolist(), strict=True))
        np.testing.assert_allclose(found["depth"], [0.03, 4])
        assert found["price"] == [1500, 12.5]
        assert found["price=(missing)"] == [0, 1]
        assert found["born (month)"][0] == 2
        assert found["town=Bonn"] == [1, 0]
        assert found["plain"] == [1234.5, 2]

    def test_plain_columns_are_written_as_before(self):
        columns = Columns().fit(self.TABLE.select("plain"))
        assert columns.to_json() == (
            '{"impute": true, "columns": [{"kind": "number", "name": "plain", "fill": [2.75], '
            '"indicator": false}], "left_out": {}}'
        )

    def test_it_says_what_was_read(self):
        columns = Columns().fit(self.TABLE)
        assert [tuple(each) for each in column_examples(columns)] == [
            ("depth", "number in m; missing values filled in (as 2)", "'804 cm' → 8.04 m"),
            (
                "price",
                "number in €; 5 cells unreadable ('on request'); "
                "missing values filled in (as 12.5)",
                "'7,- €' → 7",
            ),
            ("born", "date, month first; missing values filled in", ""),
            ("town", "category, 2 levels", "'bonn' → town=Bonn"),
            ("plain", "number", ""),
        ]

    def test_the_same_features_as_scikit_learn(self):
        columns = Columns().fit(self.TABLE)
        expected = column_transformer(columns).fit_transform(self.TABLE)
        np.testing.assert_allclose(columns.apply(self.TABLE), expected, rtol=1e-12)

    def test_missing_numbers_can_be_refused(self):
        with pytest.raises(ValueError, match="Column price: 'on request' in row 3"):
            Columns(impute=False).fit(self.TABLE.select("price"))
        with pytest.raises(ValueError, match=r"Column x: 'n\.d\.' in row 1"):
            Columns(impute=False).fit(pl.DataFrame({"x": ["1 m", "n.d."]}))

    def test_numbers_that_are_asked_for_may_be_codes(self):
        table = pl.DataFrame({"zip": ["00501", "90210"]})
        assert Columns(numeric=["zip"]).fit(table).apply(table).tolist() == [[501], [90210]]

    @pytest.mark.parametrize(
        "wrong", [{"decimal": ";"}, {"unit": 3}, {"gaps": 3}, {"n_gaps": "x"}, {"size": 1}]
    )
    def test_other_json_is_refused(self, wrong):
        with pytest.raises((ValueError, TypeError)):
            Notation(**wrong)


class TestBounds:
    def test_long_cells_are_not_numbers(self):
        cells = objects(["9" * 10**6, "1" * 65, "7"])
        assert not survey(cells).is_number
        assert np.isnan(Notation(gaps=("x",)).read(cells)[:2]).all()

    def test_few_shapes_are_understood(self, monkeypatch):
        """However many different ones there are."""
        known = shapes_module._after
        seen = []
        monkeypatch.setattr(shapes_module, "_after", lambda *a: seen.append(a) or known(*a))
        cells = objects([f"{n} unit{n}" for n in range(20_000)])
        assert not survey(cells).is_number
        assert 0 < len(seen) <= shapes_module._MOST_SHAPES

    def test_what_is_stored_is_short(self):
        cells = objects([*map(str, range(100)), *["x" * 10**5] * 3])
        assert sum(map(len, survey(cells).notation.gaps)) <= 40


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["98.6 °C", "37 °C", "100.6 °F"], "'100.6 °F' → 38.11 °C"),
        (["1:49"] * 3, "'1:49' → 1.817"),
        (["12k"] * 3, "'12k' → 12000"),
        (["€1,766.29"] * 3, "'€1,766.29' → 1766.29"),
    ],
)
def test_examples_have_few_digits(cells, expected):
    assert str(survey(np.array(cells, dtype=object)).notation) == expected
