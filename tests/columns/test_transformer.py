"""Columns as a transformer of scikit-learn: in pipelines, cloned, copied and checked."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing

from nearfar import LDA, AutoMetric, Columns, MetricNeighborsClassifier
from nearfar.columns.guess import Category, FreeText

OF_ROWS = ["age", "city", "joined", "comment"]
"""Columns of customers whose median, levels, first date and words depend on the rows."""


@pytest.fixture(params=["polars", "pandas"])
def frame(request, customers):
    return customers if request.param == "polars" else customers.to_pandas()


@pytest.fixture
def y(customers):
    return np.where(customers["income"] > customers["income"].median(), "rich", "poor")


def test_parameters_are_kept_and_cloned(customers):
    columns = Columns(text=["comment"], drop=["emb"], impute=True).fit(customers)
    again = clone(columns)
    assert again.get_params() == columns.get_params()
    assert not hasattr(again, "kinds_")
    assert again.fit(customers) == columns
    assert clone(Columns(kinds=columns.kinds_)).fit(customers).kinds_ == columns.kinds_
    assert repr(Columns(numeric=["zip"])) == "Columns(numeric=['zip'])"


def test_what_a_fit_sets(frame):
    columns = Columns(drop=["emb"])
    assert columns.fit(frame, y="ignored") is columns
    assert columns.feature_names_in_.tolist() == list(frame.columns)
    assert columns.n_features_in_ == 10
    assert columns.left_out_ == {"customer_id": "looks like ids", "comment": "free text"}
    assert columns.names == ("age", "income", "city", "active", "member", "joined", "born")
    names = columns.get_feature_names_out()
    assert names.tolist() == columns.get_feature_names_out(frame.columns).tolist()
    assert len(names) == columns.transform(frame).shape[1]
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        columns.get_feature_names_out(["a"] * 10)


def test_before_a_fit():
    columns = Columns()
    assert not columns.__sklearn_tags__().input_tags.two_d_array
    for call in (columns.transform, columns.apply, columns.get_feature_names_out):
        with pytest.raises(NotFittedError, match="Columns instance is not fitted yet"):
            call(None)
    assert columns != Columns()
    with pytest.raises(TypeError, match="A table with named columns is needed; got ndarray"):
        columns.fit(np.eye(3))


def test_output_is_a_frame_if_asked(frame):
    columns = Columns().fit(frame)
    expected = columns.transform(frame)
    for name, kind in [("pandas", pd.DataFrame), ("polars", pl.DataFrame)]:
        shown = clone(columns).set_output(transform=name).fit_transform(frame)
        assert type(shown) is kind
        assert list(shown.columns) == list(columns.feature_names)
        np.testing.assert_array_equal(shown.to_numpy(), expected)
    with config_context(transform_output="pandas"):
        assert type(columns.apply(frame)) is np.ndarray


def test_rows_of_pandas_keep_their_index(customers):
    frame = customers.to_pandas().set_index("customer_id")
    shown = Columns().set_output(transform="pandas").fit_transform(frame)
    assert shown.index.equals(frame.index)


def test_other_tables(frame, customers):
    columns = Columns().fit(frame)
    expected = columns.transform(frame)
    mixed = frame[list(reversed(frame.columns))]
    np.testing.assert_array_equal(columns.transform(mixed), expected)
    wide = customers.with_columns(new=pl.lit("not seen before"))
    np.testing.assert_array_equal(columns.transform(wide), expected)
    np.testing.assert_array_equal(columns.transform(customers.drop("comment")), expected)
    with pytest.raises(ValueError, match="lacks columns that are needed: age, emb"):
        columns.transform(customers.drop("age", "emb", "comment"))
    with pytest.raises(ValueError, match="lacks columns that are needed: age"):
        Columns(kinds=columns.kinds_).fit(customers.drop("age"))


def test_copies_are_equal(customers):
    columns = Columns(text=["comment"]).fit(customers)
    both = pickle.loads(pickle.dumps([columns, Columns(kinds=columns.kinds_)]))
    assert both[0] == columns
    assert both[0].feature_names_in_.tolist() == columns.feature_names_in_.tolist()
    assert both[0].get_params() == columns.get_params()
    assert both[1].kinds == columns.kinds_
    assert columns != Columns().fit(customers)


def test_a_later_fit_does_not_change_a_metric(customers):
    columns = Columns().fit(customers)
    metric = AutoMetric(candidates=["RCA"]).fit(
        columns.transform(customers), customers["income"] > 25_000
    )
    metric = metric.metric_.with_columns(columns)
    expected = metric.transform(customers)
    columns.fit(customers[["age", "income"]])
    np.testing.assert_array_equal(metric.transform(customers), expected)


class TestInPipelines:
    def test_they_predict(self, frame, y):
        train, new = np.arange(0, 300, 2), np.arange(1, 300, 2)
        rows, others = _safe_indexing(frame, train), _safe_indexing(frame, new)
        outside = make_pipeline(Columns(), MetricNeighborsClassifier(LDA())).fit(rows, y[train])
        inside = MetricNeighborsClassifier(make_pipeline(Columns(), LDA())).fit(rows, y[train])
        by_hand = Columns().fit(rows)
        plain = MetricNeighborsClassifier(LDA()).fit(by_hand.transform(rows), y[train])
        expected = plain.predict(by_hand.transform(others))
        assert outside.predict(others).tolist() == expected.tolist()
        assert inside.predict(others).tolist() == expected.tolist()
        assert outside.score(others, y[new]) > 0.7

    def test_auto_metric(self, frame, y):
        pipeline = make_pipeline(Columns(), AutoMetric(candidates=["LDA", "NCA"], budget=5.0))
        mapped = pipeline.fit(frame, y).transform(frame)
        assert mapped.shape == (300, len(pipeline.get_feature_names_out()))
        metric = pipeline[-1].metric_.with_columns(pipeline[0])
        np.testing.assert_allclose(metric.transform(frame), mapped)
        scores = cross_val_score(clone(pipeline), frame, y, cv=2, error_score="raise")
        assert scores.min() > 0.5

    def test_grid_search_over_parameters_of_columns(self, frame, y):
        pipeline = make_pipeline(Columns(), StandardScaler(), MetricNeighborsClassifier(LDA()))
        grid = {"columns__drop": [["income"], ["comment"]]}
        search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(frame, y)
        assert search.best_params_ == {"columns__drop": ["comment"]}

    def test_cross_validation_learns_from_training_rows_only(self, frame, y, monkeypatch):
        """Every kind is fitted to the rows of a fold, and features are those of a fit by hand."""
        seen = {Category: set(), FreeText: set()}
        for kind, sizes in seen.items():
            fit = kind.fit.__func__
            monkeypatch.setattr(
                kind,
                "fit",
                classmethod(
                    lambda cls, name, v, fit=fit, sizes=sizes: (
                        sizes.add(len(v)) or fit(cls, name, v)
                    )
                ),
            )
        pipeline = make_pipeline(
            Columns(text=["comment"]), MetricNeighborsClassifier(LDA(), votes="whole")
        )
        folds = KFold(3)
        found = cross_val_predict(pipeline, frame, y, cv=folds)
        assert seen == {Category: {200}, FreeText: {200}}
        for train, test in folds.split(y):
            rows, others = _safe_indexing(frame, train), _safe_indexing(frame, test)
            again = clone(pipeline).fit(rows, y[train])
            assert found[test].tolist() == again.predict(others).tolist()

    def test_rows_that_are_not_fitted_to_change_nothing(self, customers):
        """Other medians, levels, dates, words, and one more town."""
        half = customers.head(150)
        other = customers.tail(150).with_columns(
            age=pl.lit(1000, pl.Int64),
            city=pl.lit("Rom"),
            joined=pl.col("joined").dt.offset_by("-90y"),
            comment=pl.lit("quite other words"),
        )
        names = OF_ROWS
        columns = Columns(text=["comment"]).fit(half[names])
        state = columns.to_json()
        X = columns.transform(pl.concat([half, other])[names])
        np.testing.assert_array_equal(X[:150], columns.transform(half[names]))
        assert columns.to_json() == state
        together = Columns(text=["comment"]).fit(pl.concat([half, other])[names])
        assert together.to_json() != state
        town = [j for j, name in enumerate(columns.feature_names) if name.startswith("city=")]
        rare = "city=(other)" in columns.feature_names
        assert X[150:, town].sum(axis=1).tolist() == [float(rare)] * 150
