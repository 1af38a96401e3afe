"""Tables, preparation and figures of the benchmark, against what can be computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

import beyond_linear
from beyond_linear import by_kind, cells, clear, prepared, table


def test_columns_are_numbers_if_all_cells_are():
    numbers, words = by_kind([["1", " 2.5", "?"], ["a", "<null>", "b "], ["3", "4", "x"]])
    np.testing.assert_array_equal(numbers, [[1.0], [2.5], [np.nan]])
    assert words.tolist() == [["a", "3"], ["?", "4"], ["b", "x"]]


def test_preparation_sees_only_the_training_rows():
    numbers = np.array([[1.0], [np.nan], [3.0], [500.0]])
    words = np.array([["a"], ["b"], ["?"], ["c"]], dtype=object)
    X = prepared(numbers, words, np.arange(3))
    np.testing.assert_allclose(X[:3].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X[:3].std(axis=0), 1)
    # The missing number is the mean of 1 and 3; a is as frequent as b, and first.
    np.testing.assert_allclose(X[:3, 0] / X[2, 0], [-1, 0, 1], atol=1e-12)
    np.testing.assert_array_equal(X[2, 1:], X[0, 1:])
    np.testing.assert_allclose(X[3, 1:], [X[1, 1], X[0, 2]])  # a category that is not known


def test_keel_files_are_sampled_by_class(tmp_path):
    lines = [
        f"{i}, {'u' if i % 2 else 'v'}, {'rare' if i % 10 == 0 else 'often'}" for i in range(90)
    ]
    (tmp_path / "iris.dat").write_text("\n".join([*lines, " "]))
    numbers, words, y = cells("keel/iris", str(tmp_path), 30)
    assert numbers.shape == words.shape == (30, 1)
    assert np.bincount(y).tolist() == [27, 3]
    np.testing.assert_array_equal(y, numbers[:, 0] % 10 == 0)


@pytest.fixture
def rows():
    """A method that is right where Euclidean distance is wrong, on the first of two tables."""
    wrong = {("a", "Euclidean 3-NN"): 10, ("a", "AutoMetric"): 2, ("b", "Euclidean 3-NN"): 1}
    return [
        {
            "table": name,
            "method": method,
            "split": split,
            "n": 40,
            "n_test": 20,
            "d": 3,
            "classes": 2,
            "cpu": 0.5,
            "error": wrong.get((name, method), 1) / 20,
            "wrong": list(range(wrong.get((name, method), 1))),
        }
        for name in "ab"
        for method in ("Euclidean 3-NN", "AutoMetric")
        for split in range(2)
    ]


def test_sign_test_takes_rows_that_one_method_has_wrong(rows):
    by = {(row["table"], row["method"], row["split"]): row for row in rows}
    # 16 rows of 16 on table a: 2 / 2**16 < 1 %. No row of table b differs.
    assert clear(by, "AutoMetric", "Euclidean 3-NN", "a") == 1
    assert clear(by, "Euclidean 3-NN", "AutoMetric", "a") == -1
    assert clear(by, "AutoMetric", "Euclidean 3-NN", "b") == 0


def test_figures(rows):
    text = table(rows)
    assert "2 tables, 4 splits in all." in text
    # Ranks 1 and 1.5, because both methods have the same error on table b.
    assert "| AutoMetric | 7.50 | 1.25 | 0.50 | | 1 / 0 | |" in text
    assert "| Euclidean 3-NN | 27.50 | 1.75 | 0.50 | 0 / 1 | | 0 / 1 |" in text


def test_methods_with_fewer_runs_come_after_the_others(rows):
    """Their figures are those of the runs that all methods have."""
    text = table([row for row in rows if (row["table"], row["method"]) != ("b", "AutoMetric")])
    first, second = text.split("1 tables with AutoMetric, 2 splits in all.")
    assert first.startswith("2 tables, 4 splits in all.")
    assert "| Euclidean 3-NN | 27.50 | 1.00 |" in first
    assert "AutoMetric" not in first
    assert "| Euclidean 3-NN | 50.00 | 2.00 |" in second
    assert "| AutoMetric | 10.00 | 1.00 |" in second


def test_listing(rows):
    text = table(rows, listing=True)
    assert "| a | 60 | 3 | 2 | 50.00 | 10.00 |" in text
    assert "| b | 60 | 3 | 2 | 5.00 | 5.00 |" in text


def test_groups_of_tables(rows):
    rows = [row | {"table": "keel/a" if row["table"] == "a" else "b"} for row in rows]
    text = table(rows)
    assert text.index("1 tables of KEEL") < text.index("| AutoMetric | 10.00 | 1.00")
    assert text.index("1 other tables") < text.index("| AutoMetric | 5.00 | 1.50")
    assert "Euclidean" not in table(rows, ["AutoMetric"])


def test_a_run_goes_on_where_the_last_ended(monkeypatch, tmp_path):
    monkeypatch.setattr(beyond_linear, "RESULTS", tmp_path / "results.jsonl")
    options = ["--tables=generated_moons", "--splits=1", "--rows=60"]
    methods = "--methods=Euclidean 3-NN,random forest"
    monkeypatch.setattr("sys.argv", ["beyond_linear.py", *options, methods])
    beyond_linear.main()
    first = beyond_linear.stored()
    beyond_linear.main()
    assert beyond_linear.stored() == first
    assert [row["method"] for row in first] == ["Euclidean 3-NN", "random forest"]
    assert first[1]["parameters"] == "RandomForestClassifier(random_state=0)"
