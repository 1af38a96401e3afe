"""Plots of fits: eigenvalues, objectives and accuracies by rank."""

from __future__ import annotations

import numpy as np
import pytest

from nearfar import (
    NCA,
    BoostMetric,
    MaxMarginMetric,
    Metric,
    MetricBoost,
    SparseNCA,
    measures,
    plots,
)
from nearfar.runtime.history import History, Iteration
from wines import BROKEN, GATED, X, Y, kernel_metric

PARTS = X[::2], Y[::2], X[1::2], Y[1::2]


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


class TestSpectra:
    def test_sparse_and_free(self):
        free = SparseNCA(scale="standard", sparsity=0.0).fit(X, Y).metric_
        sparse = SparseNCA(scale="standard", sparsity=0.1).fit(X, Y).metric_
        assert np.count_nonzero(plots.eigenvalues(sparse)) == 2
        np.testing.assert_allclose(
            plots.eigenvalues(free), np.linalg.eigvalsh(free.matrix)[::-1], atol=1e-6
        )
        ax = plots.spectra({"free": free, "sparse": sparse})
        assert [len(line.get_xdata()) for line in ax.lines] == [13, 13]
        assert plots.spectra({"free": free}, ax=ax) is ax

    def test_gate_kernel_and_zero(self):
        ax = plots.spectra({"gate": GATED, "kernel": kernel_metric(), "zero": Metric([[0.0, 0.0]])})
        assert legend_of(ax) == ["gate, metric 1", "gate, metric 2", "kernel", "zero"]
        assert len(ax.lines[2].get_xdata()) == kernel_metric().L.shape[1]
        assert ax.lines[3].get_ydata().tolist() == [0, 0]
        with pytest.raises(AttributeError, match="several"):
            plots.eigenvalues(GATED)


class TestIterations:
    def test_of_boosting(self):
        learner = BoostMetric(scale="standard", max_iter=30).fit(X, Y)
        objective, eigenvalue = plots.iterations(learner.history_)
        assert objective.lines[0].get_xdata().tolist() == list(range(1, 31))
        np.testing.assert_array_equal(objective.lines[0].get_ydata(), learner.history_.objective)
        np.testing.assert_array_equal(eigenvalue.lines[0].get_ydata(), learner.history_.eigenvalue)
        assert eigenvalue.get_ylabel() == "leading eigenvalue"
        assert objective.get_title() == "stopped: max_iter"
        assert plots.iterations(learner.history_, axes=[objective, eigenvalue])[1] is eigenvalue

    def test_of_solvers_without_directions(self):
        pairs = MaxMarginMetric(scale="standard", random_state=0).fit(X, Y)
        assert plots.iterations(pairs.history_)[1].get_ylabel() == "gap"
        (objective,) = plots.iterations(NCA(scale="standard").fit(X, Y).history_)
        assert objective.get_ylabel() == "objective"

    def test_scales(self):
        wide = History([Iteration(1.0, 100.0), Iteration(-1.0, 0.1)])
        objective, eigenvalue = plots.iterations(wide)
        assert (objective.get_yscale(), eigenvalue.get_yscale()) == ("linear", "log")
        with pytest.raises(ValueError, match="no iterations"):
            plots.iterations(History())


class TestAccuracyByRank:
    def test_without_prior_by_rank(self):
        learner = BoostMetric(scale="standard", prior=None, max_iter=60).fit(*PARTS[:2])
        ax = plots.accuracy_by_rank(learner, *PARTS, n_neighbors=5)
        last = {metric.n_components: metric for metric in learner.staged_metrics()}
        line, level = ax.lines
        assert line.get_xdata().tolist() == sorted(last) == list(range(1, 14))
        for rank, accuracy in zip(*line.get_data(), strict=True):
            error = measures.knn_error(last[rank], *PARTS, n_neighbors=5)
            assert accuracy == 1 - error
        plain = Metric(np.diag(1 / PARTS[0].std(axis=0)))
        assert level.get_ydata()[0] == 1 - measures.knn_error(plain, *PARTS, n_neighbors=5)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("rank", "5-NN accuracy")
        assert legend_of(ax) == ["BoostMetric", "Euclidean, standardised"]

    def test_with_prior_by_iterations(self):
        learner = BoostMetric(scale="standard", max_iter=80).fit(*PARTS[:2])
        ax = plots.accuracy_by_rank(learner, *PARTS, max_points=6)
        shown = ax.lines[0].get_xdata()
        assert shown[0] == 1
        assert shown[-1] == 80
        assert len(shown) == 6
        assert ax.get_xlabel() == "iterations (rank 13 from the start)"
        assert ax.get_xscale() == "log"
        final = 1 - measures.knn_error(learner.metric_, *PARTS)
        assert ax.lines[0].get_ydata()[-1] == final

    def test_refusals(self):
        with pytest.raises(ValueError, match="NCA has no `staged_metrics`"):
            plots.accuracy_by_rank(NCA(scale="standard").fit(*PARTS[:2]), *PARTS)
        form = MetricBoost(variant="paper", max_iter=3).fit(*PARTS[:2])
        with pytest.raises(ValueError, match="not a metric"):
            plots.accuracy_by_rank(form, *PARTS)
        learner = BoostMetric(scale="standard", max_iter=3).fit(*PARTS[:2])
        with pytest.raises(ValueError, match="max_points"):
            plots.accuracy_by_rank(learner, *PARTS, max_points=0)
        with pytest.raises(ValueError, match="NaN"):
            plots.accuracy_by_rank(learner, BROKEN[::2], *PARTS[1:])
        learner.history_ = History()
        with pytest.raises(ValueError, match="nothing to draw"):
            plots.accuracy_by_rank(learner, *PARTS)
