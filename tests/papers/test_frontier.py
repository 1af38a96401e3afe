"""The frontier: mean ranks, which sets count, and what is shown."""

from __future__ import annotations

import numpy as np
import pytest

import nearfar
from papers.frontier import fits, page


def line(name, method, error, split=0):
    return {"set": name, "method": method, "split": split, "error": error, "cpu": 1.0}


def test_ranks_share_ties():
    errors = np.array([[1.0, 2, 2], [3, 1, 2]])
    np.testing.assert_allclose(page.ranks(errors), [2, 1.75, 2.25])


@pytest.mark.parametrize(("k", "n", "value"), [(2, 10, 0.62), (10, 20, 3.03)])
def test_critical_difference_is_nemenyis(k, n, value):
    """Values of the table of Demsar (2006): q = 1.960 and 3.164."""
    assert page.critical_difference(k, n) == pytest.approx(value, abs=0.005)


def test_only_sets_with_all_methods_count_and_failures_are_left_out():
    lines = [
        line(name, method, 0.1)
        for name in ("a", "b", "c", "d")
        for method in ("Euclidean", "nearfar RCA")
    ]
    lines[-1] = {"set": "d", "method": "nearfar RCA", "split": 0, "failure": "crash"}
    lines.append(line("a", "nearfar LMNN", 0.05))
    methods, sets = page.complete(page.means(lines))
    assert methods == ["Euclidean"] or sets == ["a", "b", "c"]
    assert "nearfar LMNN" not in methods


def test_names_exist():
    for module, name in fits.METHODS.values():
        if module == "nearfar":
            assert hasattr(nearfar, name)


def test_the_page_is_the_one_that_the_results_give():
    assert page.PAGE.read_text("utf-8") == page.page(), "Run `python -m papers report`."
