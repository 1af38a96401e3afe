"""Reports on numbers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

import nearfar
from nearfar import MLKR
from nearfar.comparison import learned_method
from nearfar.tables.report_headline import headlines
from nearfar.tables.report_study import Study

X, Y = make_friedman1(150, n_features=5, noise=0.5, random_state=0)


@pytest.fixture(scope="module")
def learned():
    return nearfar.learn(X, label=Y, methods="mlkr", cv=3)


def test_the_page_agrees_with_what_was_learned(learned, tmp_path):
    learned.report(tmp_path / "r.html", tmp_path / "m.safetensors")
    page = (tmp_path / "r.html").read_text()
    r2 = 1 - learned.comparison["MLKR"].loss("r2")
    assert f"{r2:.3f}" in page
    assert f"{r2:.3f}" in str(learned)
    for text in ("R² of numbers that neighbours predict", "MAE", "gradient boosting", "Neighbours"):
        assert text in page
    for text in ("confus", "classified", "1 class"):
        assert text not in page
    assert f"Numbers from {Y.min():g} to {Y.max():g}" in page


def test_without_a_comparison_held_out_rows_count():
    metric = MLKR(random_state=0).fit(X, Y).metric_
    relearn = learned_method("MLKR", MLKR(random_state=0))
    study = Study("friedman", X, Y, metric, "MLKR", relearn=relearn, numbers=True)
    (headline,) = headlines(study)
    train, test = study.split
    nearest = np.argsort(study.evaluated_metric.distances(X[test], X[train]), axis=1)[:, :3]
    missed = ((Y[train][nearest].mean(axis=1) - Y[test]) ** 2).mean() / Y.var()
    assert headline.after == f"{1 - missed:.3f}"
    assert headline.basis == "Regression with 3 neighbours. Measured on 45 held-out rows."
