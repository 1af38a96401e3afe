"""Bars of feature importances."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearfar import NCA, Metric, plots
from nearfar.metrics.importance import feature_importances
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

    def test_all_features_and_without_points(self):
        ax = plots.importances(PLAIN)
        np.testing.assert_allclose(
            sorted(bar.get_width() for bar in ax.patches), np.sort(feature_importances(PLAIN))
        )
        assert ax.get_xlabel() == "share of diag(M)"
        assert ax.get_title() == ""
        one = plots.importances(Metric([[3.0]]), [[0.0], [1.0]], ax=ax)
        assert one is ax
        assert ax.yaxis_inverted()
        assert ax.patches[-1].get_width() == 1

    def test_refusals(self):
        for metric, message in [(GATED, "gated"), (kernel_metric(), "kernel")]:
            with pytest.raises(ValueError, match=message):
                plots.importances(metric, X)
        with pytest.raises(ValueError, match="n_features"):
            plots.importances(PLAIN, X, n_features=0)
        with pytest.raises(ValueError, match="NaN"):
            plots.importances(PLAIN, BROKEN)
