"""Studies to report on, of every kind."""

from __future__ import annotations

from functools import cache

import numpy as np
from sklearn.datasets import load_digits, load_wine

from nearfar import NCA, BoostMetric, GatedMetric, MaxMarginMetric, Metric, RandomTriplets, compare
from nearfar.supervision import RandomPairs
from nearfar.tables.report_study import Study

KINDS = ["table", "texts", "images", "gated", "kernel", "plain", "many", "triplets", "pairs"]


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
    if kind == "many":
        return many_classes_study()
    if kind in ("triplets", "pairs"):
        return judgements_study(kind)
    return wine_study(metric=Metric(np.eye(13)[:1]), relearn=None, learner=None, comparison=None)


def many_classes_study():
    """Return a study of 40 classes with long names, texts, and a metric like that of LDA."""
    random = np.random.default_rng(0)
    codes = np.repeat(np.arange(40), 8)
    X = random.normal(size=(40, 6))[codes] + 0.4 * random.normal(size=(len(codes), 6))
    X = np.column_stack([X, X[:, 0] + 0.01 * random.normal(size=len(codes))])
    y = np.array([f"{c:02}: the name of a class" for c in codes])
    L = np.column_stack([np.eye(7)[:, :6], -np.eye(7)[:, 0]])
    L[0] *= 20
    L[0, 0] = 19.6
    options = {
        "comparison": compare(X, y, [BoostMetric(max_iter=3)], cv=2),
        "texts": [f"the text of row {i}, of some length" for i in range(len(y))],
        "notes": [("Columns", "colour: one column for each of 3 values")],
        "command": "nearfar report many.csv --label class",
        "reason": "This report is about mine, as asked.",
    }
    return Study("many classes", X, y, Metric(L), "mine", relearn=lambda X, y: Metric(L), **options)


def judgements_study(kind):
    """Return a study of wines with triplets or pairs instead of labels."""
    X, y = load_wine(return_X_y=True)
    if kind == "triplets":
        judgements = RandomTriplets(300)(X, y, np.random.RandomState(0))
    else:
        judgements = RandomPairs(300)(X, y, np.random.RandomState(0))

    def learn(X, judgements):
        if kind == "triplets":
            return BoostMetric(max_iter=15).fit(X, judgements)
        return MaxMarginMetric().fit(X, judgements)

    learner = learn(X, judgements)
    options = {"relearn": learn, "learner": learner, "metric_file": "wine.safetensors"}
    name = type(learner).__name__
    return Study(f"wine, {kind}", X, judgements, learner.metric_, name, **options)
