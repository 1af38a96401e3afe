"""Studies to report on, of every kind."""

from __future__ import annotations

from functools import cache

import numpy as np
from sklearn.datasets import load_digits, load_wine

from nearfar import NCA, BoostMetric, GatedMetric, MaxMarginMetric, Metric, compare
from nearfar.report import Study

KINDS = ["table", "texts", "images", "gated", "kernel", "plain"]


def boost(X, y):
    return BoostMetric(max_iter=15).fit(X, y)


def nca(X, y):
    return NCA(n_components=5, max_iter=20, tol=0.01, random_state=0).fit(X, y)


@cache
def _wine_fit():
    X, y = load_wine(return_X_y=True)
    return boost(X, y), compare(X, y, [BoostMetric(max_iter=15)], cv=2)


def wine_study(name="wine", **options):
    """Return a study of wines, with other options or rows where they are given."""
    X, y = load_wine(return_X_y=True)
    learner, comparison = _wine_fit()
    defaults = {
        "metric": learner.metric_,
        "method": "BoostMetric",
        "relearn": boost,
        "learner": learner,
        "comparison": comparison,
        "feature_names": load_wine().feature_names,
        "metric_file": "wine.safetensors",
    }
    X, y = options.pop("X", X), options.pop("y", y)
    return Study(name, X, y, **(defaults | options))


def make_study(kind):
    """Return a study, by what is special about it."""
    X, y = load_wine(return_X_y=True)
    if kind == "table":
        return wine_study()
    if kind == "texts":
        return wine_study(
            "<script>alert(1)</script>",
            texts=[f"a wine called <b>{i}</b> & more words" * 5 for i in range(len(y))],
            feature_names=[f"<&> ${i}$" for i in range(13)],
            y=np.array(["$a_$", "_b", "c"])[y],
        )
    if kind == "images":
        images, labels = (part[:300] for part in load_digits(return_X_y=True))
        learner = nca(images, labels)
        options = {"relearn": nca, "learner": learner, "image_shape": (8, 8)}
        return Study("digits", images, labels, learner.metric_, "NCA", **options)
    if kind == "gated":
        metrics = [Metric.identity(13), Metric(2 * np.eye(13))]
        gated = GatedMetric(metrics, np.eye(2, 13), [-13.0, -2.0])
        return wine_study(metric=gated, relearn=None, learner=None, method="gated")
    if kind == "kernel":
        kernel = MaxMarginMetric(kernel="rbf", n_basis=20, random_state=0).fit(X, y)
        return wine_study(metric=kernel.metric_, relearn=None, learner=kernel, method="kernel")
    return wine_study(metric=Metric(np.eye(13)[:1]), relearn=None, learner=None, comparison=None)
