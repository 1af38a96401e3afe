"""Columns: equal to scikit-learn's transformers, on every kind of table, after save and load."""

from __future__ import annotations

import datetime
import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from columns.scikit import column_transformer
from nearfar import GatedMetric, Metric
from nearfar.columns import Columns
from nearfar.neighbors import kneighbors


def as_text(frame):
    """The table as a .csv file has it."""
    scalar = frame.drop("emb", strict=False)
    return pl.read_csv(scalar.write_csv().encode(), infer_schema=False)


def test_default_kinds(customers):
    columns = Columns().fit(customers)
    assert {kind.name: kind.kind for kind in columns.kinds_} == {
        "age": "number",
        "income": "number",
        "city": "category",
        "active": "boolean",
        "member": "boolean",
        "joined": "date",
        "born": "date",
        "emb": "vector",
    }
    assert columns.left_out_ == {"customer_id": "looks like ids", "comment": "free text"}
    missing = [name for name in columns.feature_names if name.endswith("=(missing)")]
    assert missing == [f"{name}=(missing)" for name in ("age", "city", "active", "joined")]


@pytest.mark.parametrize("form", ["polars", "pandas"])
def test_distances_are_those_of_the_column_transformer(customers, form):
    frame = customers if form == "polars" else customers.to_pandas()
    columns = Columns().fit(frame)
    X = columns.apply(frame)
    fitted = column_transformer(columns).fit(frame)
    metric = Metric(np.random.default_rng(1).standard_normal((4, X.shape[1]))).with_columns(columns)
    expected = cdist(*[fitted.transform(frame) @ metric.L.T] * 2)
    np.testing.assert_allclose(
        metric.distances(frame), expected, rtol=0, atol=1e-12 * expected.max()
    )
    np.testing.assert_allclose(X, fitted.transform(frame), rtol=0, atol=1e-12)


def test_numbers_and_categories_as_scikit_learn_users_write_them(customers):
    """Written without any of our own pieces."""
    frame = customers.select("age", "income", "city").to_pandas()
    theirs = ColumnTransformer(
        [
            ("age", SimpleImputer(strategy="median", add_indicator=True), ["age"]),
            ("income", SimpleImputer(strategy="median", add_indicator=True), ["income"]),
            (
                "city",
                make_pipeline(
                    SimpleImputer(strategy="constant", fill_value="(missing)"),
                    OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist"),
                ),
                ["city"],
            ),
        ],
        sparse_threshold=0,
    )
    # SimpleImputer does not see None, which is what text lacks in pandas 2.
    expected = theirs.fit_transform(frame.fillna({"city": "(missing)"}))
    np.testing.assert_allclose(Columns().fit(frame).apply(frame), expected, rtol=1e-12)


def test_parts_of_dates():
    dates = [datetime.date(2024, 2, 29), datetime.date(2024, 3, 4), None]
    columns = Columns().fit(pl.DataFrame({"d": dates}))
    assert columns.feature_names == (
        "d (year)",
        "d (month)",
        "d (weekday)",
        "d (days)",
        "d=(missing)",
    )
    assert columns.apply(pl.DataFrame({"d": dates})).tolist() == [
        [2024, 2, 3, 0, 0],
        [2024, 3, 0, 4, 0],
        [2024, 2.5, 1.5, 2, 1],
    ]


@pytest.mark.parametrize(
    "written",
    ["2024-02-29", "2024/02/29", "29.02.2024", "2024-02-29T00:00:00Z", "2024-02-29 01:00+01:00"],
)
def test_written_dates(written):
    frame = pl.DataFrame({"d": [written, "2024-03-04"]})
    assert Columns().fit(frame).apply(frame)[0].tolist() == [2024, 2, 3, 0]


def test_text_files_give_the_same_as_typed_tables(customers):
    typed, text = customers.drop("emb"), as_text(customers)
    assert Columns().fit(typed) == Columns().fit(text)
    columns = Columns().fit(typed)
    np.testing.assert_allclose(columns.apply(text), columns.apply(typed), rtol=1e-12)
    np.testing.assert_array_equal(columns.apply(typed.to_pandas()), columns.apply(typed))


def test_json_round_trip(customers):
    columns = Columns().fit(customers)
    again = Columns.from_json(columns.to_json())
    assert again == columns
    np.testing.assert_array_equal(again.apply(customers), columns.apply(customers))
    assert again.left_out_ == columns.left_out_


RECIPE = """{"impute": true, "columns": [
    {"kind": "number", "name": "age", "fill": [35.0], "indicator": true},
    {"kind": "category", "name": "plan", "levels": ["basic"], "rare": true, "min_frequency": 2},
    {"kind": "boolean", "name": "paid", "fill": [1.0], "indicator": true},
    {"kind": "date", "name": "joined", "fill": [2024.0, 2.0, 2.0, 4.0], "indicator": true,
     "origin": "2024-02-29"},
    {"kind": "number", "name": "wait", "fill": [1.25], "indicator": false},
    {"kind": "vector", "name": "emb", "fill": [3.0, 4.0], "indicator": true}],
    "left_out": {"note": "free text"}}"""
"""A recipe as an older version wrote it into a metric file."""


@pytest.mark.parametrize("form", ["polars", "pandas", "pandas with pyarrow types", "pyarrow"])
def test_stored_recipes_stay_the_same(form):
    days = [datetime.datetime(2024, 2, 29), None, datetime.datetime(2024, 3, 4)]
    frame = pl.DataFrame(
        {
            "age": [20, None, 40, 35],
            "plan": ["basic ", "pro", "basic", "n/a"],
            "paid": [True, False, None, True],
            "joined": [*days, datetime.datetime(2025, 1, 1)],
            "wait": [datetime.timedelta(hours=hours) for hours in (12, 12, 48, 48)],
            "emb": [[1.0, 2.0], [3.0, 4.0], None, [5.0, 6.5]],
            "note": [f"this is note number {i}" for i in range(4)],
        }
    )
    forms = {
        "polars": frame,
        "pandas": frame.to_pandas(),
        "pandas with pyarrow types": frame.to_pandas(use_pyarrow_extension_array=True),
        "pyarrow": frame.to_arrow(),
    }
    stored = Columns.from_json(RECIPE)
    fitted = Columns().fit(forms[form])
    assert (fitted.feature_names, fitted.left_out_) == (stored.feature_names, stored.left_out_)
    np.testing.assert_array_equal(fitted.apply(frame), stored.apply(frame))
    np.testing.assert_array_equal(stored.apply(forms[form]), stored.apply(frame))
    assert stored.apply(frame)[1].tolist() == [35, 1, 0, 1, 0, 0, 2024, 2, 2, 4, 1, 0.5, 3, 4, 0]


@pytest.mark.parametrize("names", [["a", "a"], ["1", 1]])
def test_columns_of_one_name_are_refused(names):
    with pytest.raises(ValueError, match="several columns of one name"):
        Columns().fit(pd.DataFrame([[1, 2], [3, 4]], columns=names))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(columns=[]),
        lambda d: d.pop("left_out"),
        lambda d: d["columns"][0].update(kind="code"),
        lambda d: d["columns"][0].update(fill=["x"]),
        lambda d: d["columns"][0].update(surprise=1),
        lambda d: d["columns"].append(d["columns"][0]),
    ],
)
def test_other_json_is_refused(customers, change):
    document = json.loads(Columns().fit(customers).to_json())
    change(document)
    with pytest.raises(ValueError, match=r"."):
        Columns.from_json(json.dumps(document))


def test_what_was_not_seen_is_handled_as_scikit_learn_does(customers):
    columns = Columns().fit(customers)
    fitted = column_transformer(columns).fit(customers)
    new = customers.head(4).with_columns(
        pl.Series("city", ["Rom", None, "Rheda", "Bonn"]),
        pl.Series("age", [None, 20, 30, 40]),
        pl.Series("income", [None, 1.0, 2.0, 3.0]),
        pl.Series("member", [None, True, False, True]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(columns.apply(new), fitted.transform(new), rtol=1e-12)
    found = pl.DataFrame(columns.apply(new), schema=list(columns.feature_names))
    assert found["city=(other)"].to_list() == [1, 0, 1, 0]
    assert found["city=(missing)"].to_list() == [0, 1, 0, 0]
    assert found["age=(missing)"].to_list() == [1, 0, 0, 0]
    assert found["income"][0] == customers["income"].median()
    assert "income=(missing)" not in found.columns


def test_an_unknown_level_without_rare_levels_is_zero():
    frame = pl.DataFrame({"size": ["S", "M"] * 5})
    columns = Columns().fit(frame)
    assert columns.apply(pl.DataFrame({"size": ["XL", None, "M"]})).tolist() == [
        [0, 0],
        [0, 0],
        [1, 0],
    ]


def test_what_the_user_says_comes_first():
    frame = pl.DataFrame(
        {"zip": [10115, 50667, 10115, 50667], "id": [1, 2, 3, 4], "x": [1, 2, 3, 5]}
    )
    columns = Columns(categorical=["zip"], numeric=["id"], drop=["x"]).fit(frame)
    assert columns.feature_names == ("zip=10115", "zip=50667", "id")
    assert not columns.left_out_
    with pytest.raises(ValueError, match="no column 'y'; there are zip, id, x"):
        Columns(drop=["y"]).fit(frame)
    with pytest.raises(ValueError, match="either numeric or categorical"):
        Columns(numeric=["x"], categorical=["x"]).fit(frame)
    with pytest.raises(ValueError, match="No columns are left"):
        Columns(drop=["zip", "x"]).fit(frame)


def test_missing_values_can_be_refused(customers):
    with pytest.raises(ValueError, match=r"Column age: the value in row \d+ .* is missing"):
        Columns(impute=False).fit(customers)
    complete = customers.select("income", "member")
    columns = Columns.from_json(Columns(impute=False).fit(complete).to_json())
    with pytest.raises(ValueError, match="Column income: the value in row 101 "):
        columns.apply(pl.DataFrame({"income": [1.0, None], "member": [True, True]}), first_row=100)


def test_a_cell_that_does_not_fit_is_named(customers):
    columns = Columns().fit(customers)
    text = as_text(customers).with_columns(emb=customers["emb"])
    for name, cell, wanted in [
        ("age", "old", "a number"),
        ("active", "maybe", "true or false"),
        ("joined", "soon", "a date"),
    ]:
        wrong = text.with_columns(pl.lit(cell).alias(name))
        with pytest.raises(
            ValueError, match=f"Column {name}: '{cell}' in row 0 .* is not {wanted}"
        ):
            columns.apply(wrong)
    with pytest.raises(ValueError, match="Column emb: it has lists of 1 numbers; 3 are needed"):
        columns.apply(text.with_columns(pl.Series("emb", [[1.0]] * len(text))))
    with pytest.raises(ValueError, match="lacks columns that are needed: age, city"):
        columns.apply(customers.drop("age", "city"))
    with pytest.raises(ValueError, match="Column x: 'inf' in row 1 "):
        Columns().fit(pl.DataFrame({"x": [1.0, np.inf], "y": ["a", "b"]}))


def test_vectors_stay_in_single_precision():
    E = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    for kind in (pl.List(pl.Float32), pl.Array(pl.Float32, 4)):
        frame = pl.DataFrame({"emb": pl.Series(E.tolist(), dtype=kind)})
        columns = Columns().fit(frame)
        assert columns.feature_names == ("emb[0]", "emb[1]", "emb[2]", "emb[3]")
        assert columns.apply(frame).dtype == np.float32
        np.testing.assert_array_equal(columns.apply(frame), E)


def test_categories_of_pandas_may_be_numbers():
    frame = pd.DataFrame({"zip": pd.Series([7, 8, 7, 8], dtype="category")})
    assert Columns().fit(frame).feature_names == ("zip=7", "zip=8")
    assert Columns(numeric=["zip"]).fit(frame).feature_names == ("zip",)


def test_true_and_false_may_be_written_as_numbers():
    columns = Columns().fit(pl.DataFrame({"paid": [True, False]}))
    for cells in (["1", "0", "true"], [1, 0, 1], [True, False, True], ["yes", "No", "1"]):
        assert columns.apply(pl.DataFrame({"paid": cells})).tolist() == [[1], [0], [1]]


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="Column v: 'a list of 1' in row 2"):
        Columns().fit(pl.DataFrame({"v": [[1.0, 2.0], None, [3.0]]}))


class TestMetric:
    @pytest.fixture
    def metric(self, customers):
        columns = Columns().fit(customers)
        L = np.random.default_rng(3).standard_normal((3, len(columns.feature_names)))
        return Metric(L).with_columns(columns)

    def test_takes_the_table_as_it_is(self, metric, customers):
        X = metric.columns.apply(customers)
        mixed = customers.select(reversed(customers.columns))
        for frame in (customers, mixed, customers.to_pandas()):
            np.testing.assert_array_equal(metric.transform(frame), metric.transform(X))
        np.testing.assert_array_equal(metric.distances(mixed), metric.distances(X))
        features = pd.DataFrame(X, columns=metric.feature_names)
        np.testing.assert_array_equal(metric.transform(features), metric.transform(X))
        with pytest.raises(ValueError, match="lacks columns that are needed: age"):
            metric.transform(customers.drop("age"))

    def test_search_takes_the_table(self, metric, customers):
        X = metric.columns.apply(customers)
        expected = kneighbors(metric, X, rows=[3, 9])
        found = kneighbors(metric, customers, rows=[3, 9])
        np.testing.assert_array_equal(found, expected)
        found = kneighbors(metric, customers, customers.head(2), n_neighbors=1)
        assert found[1].ravel().tolist() == [0, 1]

    def test_save_and_load(self, metric, customers, tmp_path):
        gate = np.random.default_rng(0).standard_normal((2, metric.n_features))
        unit = Metric(metric.L, columns=metric.columns, unit_rows=True)
        gated = GatedMetric([metric, metric], gate, [0.0, 0.0])
        for saved in (metric, unit, gated):
            saved.save(tmp_path / "m.safetensors")
            loaded = Metric.load(tmp_path / "m.safetensors")
            assert loaded.columns == metric.columns
            assert loaded.unit_rows == saved.unit_rows
            np.testing.assert_array_equal(loaded.transform(customers), saved.transform(customers))

    def test_other_metrics_are_saved_as_before(self, metric, tmp_path):
        plain = metric.named(metric.feature_names)
        assert plain.columns is None
        plain.save(tmp_path / "a.safetensors")
        assert b'"version":"1"' in (tmp_path / "a.safetensors").read_bytes()
        assert b'"columns"' not in (tmp_path / "a.safetensors").read_bytes()
        metric.save(tmp_path / "b.safetensors")
        assert b'"version":"5"' in (tmp_path / "b.safetensors").read_bytes()

    def test_columns_must_fit(self, metric):
        with pytest.raises(ValueError, match="must give the features"):
            Metric(metric.L, [str(j) for j in range(metric.n_features)], columns=metric.columns)
        with pytest.raises(ValueError, match="feature names for 2 features"):
            Metric.identity(2).with_columns(metric.columns)


class TestInPipelines:
    @pytest.mark.parametrize("form", ["polars", "pandas"])
    def test_the_same_rows_give_the_same_features(self, customers, form):
        frame = customers if form == "polars" else customers.to_pandas()
        columns = Columns().fit(frame)
        again = clone(Columns(kinds=columns.kinds_)).fit(frame)
        np.testing.assert_array_equal(again.transform(frame), columns.apply(frame))
        assert tuple(again.get_feature_names_out()) == columns.feature_names

    def test_medians_levels_and_words_are_those_of_the_rows_that_it_is_fitted_to(self):
        """The second half has larger numbers, gaps, other towns and other words."""
        first = {"size": ["1 m", "2 m", "3 m"], "town": ["Embu", "Meru", "Meru"]}
        second = {"size": ["800 cm", "9 m", None], "town": ["Rom", "Rom", "Embu"]}
        first["text"], second["text"] = ["red fox", "red hen", "fox"], ["cat", "cat hen", "red"]
        frame = pd.concat([pd.DataFrame(first), pd.DataFrame(second)] * 5, ignore_index=True)
        part = np.flatnonzero(np.arange(30) % 6 < 3)
        columns = Columns(text=["text"]).fit(frame)
        fitted = Columns(kinds=columns.kinds_).fit(frame.iloc[part])
        alone = Columns(text=["text"]).fit(frame.iloc[part])
        assert "size=(missing)" in columns.feature_names
        assert tuple(fitted.get_feature_names_out()) == alone.feature_names
        rest = frame.drop(index=part)
        np.testing.assert_allclose(fitted.transform(rest), alone.apply(rest), atol=1e-12)

    def test_cells_are_read_as_in_the_whole_table(self):
        """In the part alone, 3/4 is a day of April, and 12 has no unit."""
        frame = pd.DataFrame(
            {
                "day": ["3/4/2020", "5/6/2021", "12/31/2022", "1/2/2020"],
                "size": ["1 m", "2", "3 m", "9 cm"],
            }
        )
        columns = Columns().fit(frame)
        fitted = Columns(kinds=columns.kinds_).fit(frame.iloc[[0, 1]])
        expected = columns.apply(frame)
        np.testing.assert_array_equal(fitted.transform(frame)[:, :3], expected[:, :3])
        np.testing.assert_array_equal(fitted.transform(frame)[:, -1], expected[:, -1])

    def test_a_part_without_words_or_numbers(self):
        frame = pd.DataFrame(
            {"text": ["", ""] + ["red hen", "hen"] * 5, "n": [None, None] + [1.5] * 9 + [2]}
        )
        columns = Columns(text=["text"]).fit(frame)
        fitted = Columns(kinds=columns.kinds_).fit(frame.iloc[:2])
        assert np.isfinite(fitted.transform(frame)).all()


def test_times_of_day_are_features_where_they_differ():
    at = pl.Series(["2024-01-01 23:50", "2024-01-02 00:10", "2024-01-01 12:30", None])
    columns = Columns().fit(pl.DataFrame({"at": at}))
    X = dict(zip(columns.feature_names, columns.transform(pl.DataFrame({"at": at})).T, strict=True))
    assert X["at (hour)"].tolist() == [23, 0, 12, 12]
    assert X["at (minute)"].tolist() == [50, 10, 30, 30]
    circle = np.stack([X["at (time of day, sine)"], X["at (time of day, cosine)"]], axis=1)
    gaps = np.linalg.norm(circle[:, None] - circle, axis=2)
    assert gaps[0, 1] < 0.1 < 1.9 < gaps[0, 2]
    assert Columns.from_json(columns.to_json()) == columns
    days = pl.DataFrame({"at": at.str.slice(0, 10)})
    assert Columns().fit(days).feature_names == ("at (year)", "at (month)", "at (weekday)",
        "at (days)", "at=(missing)")  # fmt: skip
