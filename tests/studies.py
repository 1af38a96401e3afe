"""Studies to report on, of every kind."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from sklearn.datasets import load_digits, load_wine

from nearfar import NCA, BoostMetric, GatedMetric, MaxMarginMetric, Metric, RandomTriplets
from nearfar.frames.reading import read_table
from nearfar.supervision import RandomPairs
from nearfar.tables.held_out import tested
from nearfar.tables.learn import outcome_sentence
from nearfar.tables.report_study import Study

KINDS = ["table", "texts", "images", "gated", "kernel", "plain", "many", "triplets", "pairs"]
NAMES = tuple(load_wine().feature_names)


def study_of(table, learner, **options):
    """Return a study of a table, and of what a learner or a metric is worth on it."""
    found = tested(table, learner, "classification", seed=0, seconds=None, progress=lambda *_: None)
    metric = learner
    if not isinstance(learner, Metric | GatedMetric):
        learner = learner.fit(table.X, table.supervision, groups=table.groups)
        metric, options["learner"] = learner.metric_, learner
    return Study(table, metric, found, outcome_sentence(found, table), **options)


def wines(y=None, **options):
    """Return a table of wines, with other labels or attributes where they are given."""
    X, labels = load_wine(return_X_y=True)
    table = read_table(X, label=labels if y is None else y)
    return replace(table, name="wine", feature_names=NAMES, **options)


@cache
def wine_study():
    """Return a study of wines."""
    return study_of(wines(), BoostMetric(max_iter=15), metric_file="wine.safetensors")


def make_study(kind):
    """Return a study, by what is special about it."""
    y = load_wine().target
    if kind == "table":
        return wine_study()
    if kind == "texts":
        table = wines(
            y=np.array(["$a_$", "_b", "c"])[y],
            texts=[f"a wine called <b>{i}</b> & more words" * 5 for i in range(len(y))],
        )
        names = tuple(f"<&> ${i}$" for i in range(13))
        table = replace(table, name="<script>alert(1)</script>", feature_names=names)
        return study_of(table, BoostMetric(max_iter=5))
    if kind == "images":
        images, labels = (part[:300] for part in load_digits(return_X_y=True))
        nca = NCA(n_components=5, max_iter=20, tol=0.01, random_state=0, validation_fraction=None)
        return study_of(read_table(images, label=labels), nca, image_shape=(8, 8))
    if kind == "gated":
        metrics = [Metric.identity(13), Metric(2 * np.eye(13))]
        return study_of(wines(), GatedMetric(metrics, np.eye(2, 13), [-13.0, -2.0]))
    if kind == "kernel":
        return study_of(wines(), MaxMarginMetric(kernel="rbf", n_basis=20, random_state=0))
    if kind == "many":
        return many_classes_study()
    if kind in ("triplets", "pairs"):
        return judgements_study(kind)
    return study_of(wines(), Metric(np.eye(13)[:1]))


@cache
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
    texts = [f"the text of row {i}, of some length" for i in range(len(y))]
    table = replace(read_table(X, label=y), name="many classes", texts=texts)
    return study_of(table, Metric(L), command="nearfar report many.csv --label class")


@cache
def judgements_study(kind):
    """Return a study of wines with triplets or pairs instead of labels."""
    X, y = load_wine(return_X_y=True)
    strategy = RandomTriplets(300) if kind == "triplets" else RandomPairs(300)
    learner = BoostMetric(max_iter=15) if kind == "triplets" else MaxMarginMetric()
    table = read_table(X, **{kind: strategy(X, y, np.random.RandomState(0))})
    table = replace(table, name=f"wine, {kind}")
    return study_of(table, learner, metric_file="wine.safetensors")
