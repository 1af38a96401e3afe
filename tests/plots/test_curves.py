"""Curves, against the numbers of `evaluate`."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot

from nearfar import MetricBoost, Pairs, RandomPairs, measures, plots
from wines import BROKEN, GATED, NAMES, PLAIN, X, Y, kernel_metric

PARTS = X[::2], Y[::2], X[1::2], Y[1::2]


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


class TestCurves:
    def test_of_accuracies(self):
        ax = plots.curves({"mixture": {1: 0.9, 2: 0.95}}, "metrics")
        assert ax.lines[0].get_xdata().tolist() == [1, 2]
        with pytest.raises(ValueError, match="no curves"):
            plots.curves({}, "metrics")

    def test_of_neighbors(self):
        metrics = {"plain": PLAIN, "gate": GATED, "kernel": kernel_metric()}
        queries = {"X_query": PARTS[2], "y_query": NAMES[1::2]}
        ax = plots.neighbor_curve(metrics, PARTS[0], NAMES[::2], max_k=7, **queries)
        for line, metric in zip(ax.lines, metrics.values(), strict=True):
            assert line.get_xdata().tolist() == list(range(1, 8))
            np.testing.assert_array_equal(
                line.get_ydata(),
                measures.neighbor_accuracy_curve(metric, PARTS[0], NAMES[::2], max_k=7, **queries),
            )
        assert legend_of(ax) == list(metrics)
        looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in ax.lines}
        assert len(looks) == 3
        assert plots.neighbor_curve({"plain": PLAIN}, X, Y, ax=ax) is ax

    def test_roc(self):
        metrics = {"plain": PLAIN, "gate": GATED, "kernel": kernel_metric()}
        pairs = RandomPairs(300)(X, Y, np.random.RandomState(0))
        ax = plots.roc(metrics, X, pairs)
        for line, metric, text in zip(ax.lines, metrics.values(), legend_of(ax), strict=False):
            curve = measures.verification_curve(metric, X, pairs)
            result = measures.verification(metric, X, pairs)
            np.testing.assert_array_equal(line.get_xdata(), curve.false_positive_rate)
            np.testing.assert_array_equal(line.get_ydata(), curve.true_positive_rate)
            assert f"AUC {result.auc:.3f}, EER {100 * result.eer:.1f} %" in text
        assert ax.get_xlabel() == "false positive rate"

    def test_refusals(self):
        pairs = Pairs([[0, 1], [0, 100]], [True, False])
        one = {"plain": PLAIN}
        form = MetricBoost(variant="paper", max_iter=3).fit(X, Y).metric_
        for metrics, message in [({}, "by name"), (PLAIN, "by name"), ({"f": form}, "SignedForm")]:
            with pytest.raises(ValueError, match=message):
                plots.roc(metrics, X, pairs)
            with pytest.raises(ValueError, match=message):
                plots.neighbor_curve(metrics, X, Y)
            with pytest.raises(ValueError, match=message):
                plots.spectra(metrics)
        with pytest.raises(ValueError, match="Pairs; got list"):
            plots.roc(one, X, [[0, 1]])
        with pytest.raises(ValueError, match="NaN"):
            plots.roc(one, BROKEN, pairs)
        with pytest.raises(ValueError, match="NaN"):
            plots.neighbor_curve(one, BROKEN, Y)
        with pytest.raises(ValueError, match="max_k"):
            plots.neighbor_curve(one, X, Y, max_k=178)
        assert not pyplot.get_fignums()
