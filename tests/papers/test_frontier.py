"""The frontier: mean ranks, which sets count, and what is shown."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import nearfar
from papers.frontier import fits, page


def line(name, method, error, split=0):
    return {"set": name, "method": method, "split": split, "error": error, "cpu": 1.0}


def test_ranks_share_ties_and_failures_are_last():
    errors = np.array([[1.0, 2, 2], [3, 1, np.nan]]) / 100
    found = page.Standing(["Euclidean", "a", "b"], ["s", "t"], [1, 1], errors, np.ones((2, 3)))
    np.testing.assert_allclose(found.ranks, [1.5, 1.75, 2.75])
    np.testing.assert_allclose(found.mean_errors, [2, 1.5, 2.5])


@pytest.mark.parametrize(("k", "n", "value"), [(2, 10, 0.62), (10, 20, 3.03)])
def test_critical_difference_is_nemenyis(k, n, value):
    """Values of the table of Demsar (2006): q = 1.960 and 3.164."""
    assert page.critical_difference(k, n) == pytest.approx(value, abs=0.005)


def test_only_sets_and_splits_that_all_methods_tried_count():
    lines = [
        line(name, method, 0.1 + 0.1 * split, split)
        for name in ("a", "b")
        for split in (0, 1)
        for method in ("Euclidean", "nearfar RCA")
    ]
    failure = {"set": "c", "method": "nearfar RCA", "split": 0, "failure": "ValueError"}
    lines += [line("c", "Euclidean", 0.5), failure, line("d", "Euclidean", 0.5)]
    lines = [each for each in lines if (each["set"], each["split"], each["method"]) != DROPPED]
    found = page.standing(lines)
    assert (found.methods, found.sets) == (["Euclidean", "nearfar RCA"], ["a", "b", "c"])
    assert found.splits == [2, 1, 1]
    expected = [[0.15, 0.15], [0.1, 0.1], [0.5, np.nan]]
    np.testing.assert_allclose(found.errors, expected)


DROPPED = ("b", 1, "nearfar RCA")


def test_a_changed_default_is_stale():
    known = {"method": "nearfar RCA", "parameters": fits.parameters("nearfar RCA")}
    assert not fits.is_stale(known)
    assert fits.is_stale({**known, "parameters": {**known["parameters"], "scale": "other"}})
    assert not fits.is_stale({"method": "scikit-learn LDA", "parameters": {}})


def test_methods_without_an_interpreter_are_left_out():
    programs = fits.Interpreters(torch="python-with-torch")
    assert programs.of("metric-learn LMNN") is None
    assert programs.of("pytorch-metric-learning triplets") == "python-with-torch"
    assert programs.of("nearfar RCA") == sys.executable


def test_one_process_fits_several_methods(monkeypatch):
    """A method that its library refuses has a line, too."""
    monkeypatch.setitem(fits.METHODS, "no such", ("sklearn.neighbors", "KNeighborsClassifier"))
    methods = ["scikit-learn LDA", "no such", "Euclidean"]
    rows = fits.Rows("iris", most=100)
    found = dict(fits.fitted(sys.executable, rows, split=1, methods=methods, limit=100))
    assert list(found) == methods
    assert found["no such"]["failure"] == "AttributeError"
    for name in ("scikit-learn LDA", "Euclidean"):
        assert found[name]["n"] == [70, 30]
        assert found[name]["error"] < 0.2
        assert {"cpu", "versions", "commit", "parameters"} <= set(found[name])


def test_names_exist():
    for module, name in fits.METHODS.values():
        if module == "nearfar":
            assert hasattr(nearfar, name)


def test_the_page_is_the_one_that_the_results_give():
    assert page.PAGE.read_text("utf-8") == page.page(), "Run `python -m papers report`."
