"""Pictures: what is drawn, not how it looks."""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import Metric, MixtureNCA, SparseNCA, evaluate, plots

mpl.use("Agg")
X, Y = load_wine(return_X_y=True)


@pytest.fixture(autouse=True)
def closed():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def test_projections_of_a_gate():
    metric = MixtureNCA(n_metrics=2, random_state=0).fit(X, Y).metric_
    axes = plots.projections(metric, X, Y)
    counts = [len(ax.collections[0].get_offsets()) for ax in axes]
    assert counts == np.bincount(metric.assign(X), minlength=2).tolist()
    with pytest.raises(ValueError, match="2 axes"):
        plots.projections(metric, X, Y, axes=[axes[0]])


def test_projections_of_one_metric():
    (ax,) = plots.projections(Metric.identity(13), X)
    assert len(ax.collections[0].get_offsets()) == 178
    assert plots.projections(Metric.identity(13), X, Y, axes=[ax])[0] is ax


def test_spectra():
    free = SparseNCA(sparsity=0.0).fit(X, Y).metric_
    sparse = SparseNCA(sparsity=0.1).fit(X, Y).metric_
    assert np.count_nonzero(plots.eigenvalues(sparse)) == 2
    np.testing.assert_allclose(
        plots.eigenvalues(free), np.linalg.eigvalsh(free.matrix)[::-1], atol=1e-6
    )
    ax = plots.spectra({"free": free, "sparse": sparse})
    assert [len(line.get_xdata()) for line in ax.lines] == [13, 13]
    assert plots.spectra({"free": free}, ax=ax) is ax


def test_curves():
    found = evaluate.accuracy_by(
        "n_metrics", [1, 2], MixtureNCA(random_state=0), X[::2], Y[::2], X[1::2], Y[1::2]
    )
    assert all(0.8 < accuracy <= 1 for accuracy in found.values())
    ax = plots.curves({"mixture": found}, "metrics")
    assert ax.lines[0].get_xdata().tolist() == [1, 2]


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"nearfar\[plots\]"):
        plots.projections(Metric.identity(13), X)
