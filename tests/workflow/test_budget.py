"""A budget covers reading, the comparison and the fit; many rows are sampled. No clock runs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import nearfar
from nearfar import AutoMetric
from nearfar.comparison import MethodResult, default_methods
from nearfar.comparison import methods as compared_methods
from nearfar.frames.reading import read_table
from nearfar.frames.table import Table
from nearfar.runtime.messages import collecting_notes
from nearfar.tables import learn as learning
from nearfar.tables.compare import compare_table, sampled_rows
from nearfar.tables.methods import find_method


@pytest.fixture(name="table")
def rows() -> Table:
    y = np.repeat([0, 1, 2], [300, 200, 100])
    X = np.random.default_rng(0).standard_normal((600, 4)) + y[:, None]
    return read_table(X, label=y, group=np.arange(600) // 2)


def test_a_sample_of_many_rows_is_compared(table):
    whole = compare_table(table, [], cv=2, classifiers=False)
    sampled = compare_table(table, [], cv=2, classifiers=False, budget=9.0, spent=9.0)
    assert whole.sample is None
    assert sampled.n_rows == 600
    assert np.bincount(table.y[sampled.sample]).tolist() == [50, 33, 17]


def test_rows_of_a_table_keep_what_belongs_to_them(table):
    some = table.take(sampled_rows(table, 30))
    np.testing.assert_array_equal(some.X, table.X[some.places])
    np.testing.assert_array_equal(some.y, table.y[some.places])
    same = table.groups[some.places]
    np.testing.assert_array_equal(np.unique(same, return_inverse=True)[1], some.groups)


def test_reading_and_comparing_are_part_of_the_budget(table, monkeypatch):
    """Reading takes 20 of 100 seconds, and the comparison all that it has."""
    now, seen = [0.0], {}

    def compared(*_, budget, spent, **__):
        seen["comparison"] = budget - spent
        now[0] += budget - spent

    def fitted(*args, **_):
        seen["fit"] = args[3]

    def read(*_, **__):
        now[0] += 20.0
        return table

    monkeypatch.setattr(learning, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(learning, "as_table", read)
    monkeypatch.setattr(learning, "compare_table", compared)
    monkeypatch.setattr(learning, "fit_method", fitted)
    nearfar.learn("rows", methods="autometric", budget=100)
    assert seen == pytest.approx({"comparison": 50.0, "fit": 24.0})
    now[0], seen = 130.0, {}
    nearfar.learn("rows", methods="autometric", budget=100, started=100.0)
    assert seen == pytest.approx({"comparison": 20.0, "fit": 24.0})


def test_what_was_learned_from_is_said(table, monkeypatch):
    monkeypatch.setattr(learning, "_FEWEST_ROWS", 90)
    options = {"methods": AutoMetric(candidates=["RCA"]), "comparison": False}
    learned = nearfar.learn(table, **options, budget=(None, 1e-3))
    assert "Learned from 90 rows in" in str(learned)
    assert "Learned from all rows in" in str(nearfar.learn(table, **options, budget=None))


def test_autometric_learns_from_the_rows_that_it_has_time_for(table, monkeypatch):
    monkeypatch.setattr(learning, "_FEWEST_ROWS", 90)
    learned = learning.Learned(table, None, "classification", fit_seconds=0.01)
    auto = find_method("autometric").method
    assert len(learned.rows_to_learn_from(auto)) == 250
    learned.fit_seconds = None
    assert learned.rows_to_learn_from(auto) is table


@pytest.mark.parametrize("name", ["Euclidean (standardised)", "inverse covariance", "LDA"])
def test_simple_methods_learn_the_same_in_blocks(table, name, monkeypatch):
    method = next(each for each in default_methods([]) if each.name == name)
    in_memory = method.learn(table.X, table.y).matrix
    monkeypatch.setattr(compared_methods, "_IN_BLOCKS_BYTES", 0)
    np.testing.assert_allclose(method.learn(table.X, table.y).matrix, in_memory, rtol=1e-9)


@pytest.mark.parametrize(("seconds", "n_rows"), [(100.0, 600), (4.0, 211), (0.1, 100)])
def test_a_method_learns_from_the_rows_that_it_has_time_for(table, seconds, n_rows):
    """It took one second for 100 rows; times grow with the power 1.5 of the rows."""
    method = next(each for each in default_methods([]) if each.name == "LDA")
    result = MethodResult(method, seconds=np.array([1.0, 1.0]))
    comparison = SimpleNamespace(
        get={"LDA": result}.get, sample=np.arange(200), n_folds=2, n_rows=600
    )
    learned = learning.Learned(table, None, "classification", comparison=comparison)
    learned.fit_seconds = seconds
    with collecting_notes() as notes:
        found = learned.rows_to_learn_from(method)
    assert len(found) == n_rows
    said = f"LDA learned from {n_rows} of 600 rows, for lack of time; increase budget for more."
    assert [note.text for note in notes] == ([] if n_rows == 600 else [said])
