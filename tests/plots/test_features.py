"""Bars of feature importances, and curves of columns."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import NCA, ForestMetric, Metric, plots
from nearfar.metrics.explanations import feature_importances
from wines import BROKEN, GATED, PLAIN, X, Y, kernel_metric


class TestImportances:
    def test_bars_and_the_rest(self):
        frame = load_wine(as_frame=True).data
        metric = NCA().fit(frame, Y).metric_
        ax = plots.importances(metric, frame, n_features=4)
        widths = [bar.get_width() for bar in ax.patches]
        shares = feature_importances(metric, frame)
        order = np.argsort(-np.abs(shares))
        np.testing.assert_allclose(widths, shares[order[:4]])
        rest = 100 * (1 - sum(widths))
        assert ax.get_title() == f"the other 9 features: {rest:.0f} %"
        labels = [label.get_text() for label in ax.get_yticklabels()]
        assert labels == frame.columns[order[:4]].tolist()
        assert ax.get_xlabel() == "share of the mean squared distance"

    def test_columns_have_the_sums_of_their_features(self):
        columns = ["a", "b", *["c"] * 11]
        ax = plots.importances(PLAIN, X, n_features=2, columns=columns)
        shares = feature_importances(PLAIN, X)
        sums = {"a": shares[0], "b": shares[1], "c": shares[2:].sum()}
        order = sorted(sums, key=lambda name: -abs(sums[name]))
        labels = [label.get_text() for label in ax.get_yticklabels()]
        assert labels == order[:2]
        widths = [bar.get_width() for bar in ax.patches]
        np.testing.assert_allclose(widths, [sums[name] for name in order[:2]])
        assert ax.get_title() == f"the other 1 column: {100 * sums[order[2]]:.0f} %"
        with pytest.raises(ValueError, match="13 features need one column each; got 2"):
            plots.importances(PLAIN, X, columns=["a", "b"])

    def test_shares_that_cancel_are_drawn_relative_to_their_absolute_sum(self):
        metric = Metric([[1.0, -1.0]], ["one", "other"])
        points = np.array([[0.0, 0.1], [1.0, 1.0], [2.0, 2.1], [3.0, 3.0]])
        shares = feature_importances(metric, points)
        assert np.abs(shares).sum() > 10
        ax = plots.importances(metric, points)
        widths = np.array([bar.get_width() for bar in ax.patches])
        np.testing.assert_allclose(np.abs(widths).sum(), 1.0)
        np.testing.assert_allclose(np.sort(widths), np.sort(shares / np.abs(shares).sum()))
        assert ax.get_xlabel() == "share of absolute contributions"
        one, other = (bar.get_facecolor() for bar in ax.patches)
        assert one != other

    def test_refusals(self):
        for metric, message in [(GATED, "gated"), (kernel_metric(), "kernel")]:
            with pytest.raises(ValueError, match=message):
                plots.importances(metric, X)
        with pytest.raises(ValueError, match="n_features"):
            plots.importances(PLAIN, X, n_features=0)
        with pytest.raises(ValueError, match="NaN"):
            plots.importances(PLAIN, BROKEN)


class TestColumnCurve:
    def test_a_point_at_a_time(self):
        forest = ForestMetric(n_trees=10).fit(X, Y).metric_
        ax = plots.column_curve(forest, X[:20], 9, n_values=7)
        values, found = ax.lines[0].get_data()
        spaced = np.linspace(X[:20, 9].min(), X[:20, 9].max(), 7)
        np.testing.assert_array_equal(values, sorted([*spaced, np.median(X[:20, 9])]))
        for value, mean in zip(values, found, strict=True):
            moved, start = X[:20].copy(), X[:20].copy()
            moved[:, 9], start[:, 9] = value, np.median(X[:20, 9])
            expected = [
                forest.distances([a], [b]).item() for a, b in zip(moved, start, strict=True)
            ]
            assert mean == pytest.approx(np.mean(expected), abs=1e-6)
        assert ax.get_xlabel() == "x9"

    def test_it_is_straight_for_a_linear_metric(self):
        ax = plots.column_curve(PLAIN, X, 2)
        values, found = ax.lines[0].get_data()
        weight = np.linalg.norm(PLAIN.L[:, 2])
        np.testing.assert_allclose(found, weight * np.abs(values - np.median(X[:, 2])), atol=1e-9)

    def test_unknown_names(self):
        with pytest.raises(ValueError, match="no feature 'z'"):
            plots.column_curve(PLAIN, X, "z")
