"""Several numbers in a cell."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from columns.scikit import column_transformer
from nearfar.columns import Columns
from nearfar.columns.cells import column_values
from nearfar.columns.columns import column_examples
from nearfar.columns.guess import guess
from nearfar.columns.measured import SeveralNumbers

N = 50
RNG = np.random.default_rng(0)
A, B, C = RNG.integers(100, 180, N), RNG.integers(50, 99, N), RNG.uniform(1, 9, N).round(2)
BOTH = np.column_stack([A, B])
FORMS = {
    "/": [f"{a}/{b}" for a, b in BOTH],
    " / ": [f"{a} / {b}" for a, b in BOTH],
    "x": [f"{a} x {b}" for a, b in BOTH],
    "×": [f"{a}×{b} cm" for a, b in BOTH],
    "unit of each": [f"{a} cm x {b} cm" for a, b in BOTH],
    "-": [f"{a} - {b}" for a, b in BOTH],
    "en dash": [f"{a}\N{EN DASH}{b}" for a, b in BOTH],
    "brackets": [f"({a}, {b})" for a, b in BOTH],
    ";": [f"{a};{b}" for a, b in BOTH],
    "units": [f"{a} x {b} cm" if a % 2 else f"{a / 100} x {b / 100} m" for a, b in BOTH],
}


def cells(words):
    return column_values(pl.DataFrame({"x": words}), "x")


@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    found = guess("x", cells(FORMS[name]))
    assert isinstance(found, SeveralNumbers)
    assert found.feature_names == ("x (1)", "x (2)")
    X = found.apply(cells(FORMS[name]))
    unit = 100.0 if name == "units" and found.notations[0].unit == "m" else 1.0
    np.testing.assert_allclose(X * unit, BOTH)


def test_three_numbers_and_decimal_commas():
    words = [
        f"{a} x {b} x {str(c).replace('.', ',')} in" for (a, b), c in zip(BOTH, C, strict=True)
    ]
    found = guess("box", cells(words))
    np.testing.assert_allclose(found.apply(cells(words)), np.column_stack([BOTH, C]))


def test_negative_numbers_in_a_range():
    words = [f"{-c} - {b / 10}" for c, b in zip(C, B, strict=True)]
    np.testing.assert_allclose(guess("x", cells(words)).apply(cells(words))[:, 0], -C)


@pytest.mark.parametrize(
    "words",
    [
        [f"{a} km/h" for a in A],
        [f"{n % 10}/10" for n in range(N)],
        [f"{a}/{b}/{a}/{b}/{a}" for a, b in BOTH],
        [f"555-{1000 + n * n}" for n in range(N)],
        [f"{a}/{b}" if n % 2 else f"{a} and {b}" for n, (a, b) in enumerate(BOTH)],
    ],
)
def test_other_columns(words):
    found = guess("x", cells(words))
    assert not isinstance(found, SeveralNumbers)


class TestGaps:
    WORDS = (None, "unknown", *FORMS["/"])

    def test_missing_values_have_an_indicator(self):
        X = guess("x", cells(self.WORDS)).apply(cells(self.WORDS))
        assert X.shape == (N + 2, 3)
        np.testing.assert_array_equal(X[:2], [[np.median(A), np.median(B), 1]] * 2)
        assert not X[2:, 2].any()

    def test_other_cells_are_errors_if_there_were_none(self):
        columns = Columns().fit(pl.DataFrame({"x": FORMS["/"]}))
        with pytest.raises(ValueError, match=r"Column x: 'high' in row 1 .* is not 2 numbers"):
            columns.apply(pl.DataFrame({"x": ["120/80", "high"]}))
        np.testing.assert_array_equal(columns.apply(pl.DataFrame({"x": ["1/2", None]}))[0], [1, 2])

    def test_they_are_missing_if_there_were_some(self):
        columns = Columns().fit(pl.DataFrame({"x": ["high", *self.WORDS]}))
        X = columns.apply(pl.DataFrame({"x": ["120/80", "low"]}))
        assert X[:, 2].tolist() == [0, 1]


class TestColumns:
    FRAME = pl.DataFrame({"pressure": FORMS["/"], "y": C})

    def test_what_is_said(self):
        columns = Columns().fit(self.FRAME)
        first = FORMS["/"][0]
        example = column_examples(columns, self.FRAME)[0]
        assert example == ("pressure", "2 numbers in a cell", f"'{first}' → {A[0]}, {B[0]}")

    def test_files(self):
        columns = Columns().fit(self.FRAME)
        again = Columns.from_json(columns.to_json())
        assert again == columns
        document = json.loads(columns.to_json())
        document["columns"][0]["notations"].pop()
        with pytest.raises(ValueError, match="no valid numbers"):
            Columns.from_json(json.dumps(document))

    def test_scikit_learn_gives_the_same(self):
        columns = Columns().fit(self.FRAME)
        same = column_transformer(columns).fit_transform(self.FRAME)
        np.testing.assert_array_equal(same, columns.apply(self.FRAME))

    def test_numbers_that_are_asked_for(self):
        frame = pl.DataFrame({"x": ["120/80", "130/90"] * 9})
        assert Columns().fit(frame).kinds_[0].kind == "category"
        assert Columns(numeric=["x"]).fit(frame).feature_names == ("x (1)", "x (2)")
        words = pl.DataFrame({"x": ["120/80", "high"] * 9})
        with pytest.raises(ValueError, match="is not a number"):
            Columns(numeric=["x"]).fit(words)
        plain = pl.DataFrame({"x": ["7/10", "8/10"] * 9})
        assert Columns(numeric=["x"]).fit(plain).feature_names == ("x",)
