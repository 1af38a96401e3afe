"""`nearfar threshold`: the function, on the columns of a table."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from nearfar import threshold

OPTIONS = "--score", "similarity", "--left", "a", "--right", "b", "--target", "fmr<=0.02"


@pytest.fixture
def pairs(tmp_path):
    rng = np.random.default_rng(0)
    same = np.arange(1500) % 3 == 0
    table = {"similarity": rng.normal(np.where(same, 0.9, 0.4), 0.1), "same": same}
    left = np.arange(1500) // 3
    right = np.where(same, left + 10_000, (left + 1 + np.arange(1500) % 3) % 500)
    path = tmp_path / "pairs.csv"
    pl.DataFrame(table | {"a": left, "b": right}).write_csv(path)
    return path


def test_it_is_the_function(run, pairs):
    table = pl.read_csv(pairs)
    ids = {"left": table["a"].to_numpy(), "right": table["b"].to_numpy()}
    scores, same = (table[name].to_numpy() for name in ("similarity", "same"))
    expected = threshold(scores, same, target="fmr<=0.02", **ids).to_dict()
    found = json.loads(run("threshold", pairs, *OPTIONS, "--json").stdout)
    for name in ("threshold", "bound", "fmr", "recall"):
        assert found[name] == pytest.approx(expected[name])
    assert "fmr<=0.02 is certified with 95 % confidence" in run("threshold", pairs, *OPTIONS).stdout


def test_what_is_refused(fail, pairs):
    assert "score" in fail("threshold", pairs)
    assert "not numbers in column same" in fail("threshold", pairs, "--score", "same")
    refused = fail("threshold", pairs, *OPTIONS[:-1], "fmr<=1e-5")
    assert "cannot be certified" in refused
    assert "most likely" in refused
