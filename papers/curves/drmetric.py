"""DRMetric: Figures 1 to 4."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import nearfar
from nearfar import DRMetric, FarTargetTriplets
from papers.curves.curve import Curve, Panels, cpu_seconds, fitted, line, neighbor_shares
from papers.methods import Neighbors
from papers.protocols.drmetric import COMPARED
from papers.task import Array, Folds, PerClass, Table

SETS = {"heart disease": "heart_cleveland", "blood transfusion": "blood_transfusion"}
PICTURES = (30, 50, 70, 90)
OWN = {"DRMetric, as printed": {"variant": "paper"}, "DRMetric, default": {}}


def figure_1(run: int) -> Panels:
    """Weight of the triplet that moves most without regularisation, with and without it."""
    X, y = Table("heart_cleveland", standardise=True).load()
    X = Table("heart_cleveland", standardise=True).prepared(X, np.arange(len(X)))
    weights = {}
    for name, tolerance, cap in (("without", 1e-3, 1e6), ("with", 0.1, 10.0)):
        learner = DRMetric(
            variant="paper",
            solver="entropy",
            margin_tol=tolerance,
            cap=cap,
            max_iter=40,
            record_weights=True,
            constraints=FarTargetTriplets(3),
            random_state=run,
        ).fit(X, y)
        weights[name] = learner.triplet_weights_
    moving = int(np.abs(np.diff(weights["without"], axis=0)).sum(axis=0).argmax())
    names = {"without": "without regularisation", "with": "DRMetric"}
    lines = {
        names[name]: line(range(1, len(w) + 1), w[:, moving], 8) for name, w in weights.items()
    }
    return {"heart disease": {"xlabel": "iteration", "ylabel": "weight", "lines": lines}}


def figure_2(run: int) -> Panels:
    """Share of rows whose k-th neighbour has their class, five folds."""
    ranks = (1, 3, 5, 7, 9)
    return {title: _neighbors(Table(name), Folds(5), run, ranks) for title, name in SETS.items()}


def figure_3(run: int) -> Panels:
    """3-NN accuracy by the number of iterations, up to three times the number of columns."""
    panels: Panels = {}
    for title, name in SETS.items():
        table = Table(name, standardise=True)
        X, y = table.load()
        train, test = Folds(5)(y, run)
        X = table.prepared(X, train)
        learner = DRMetric(variant="paper", max_iter=3 * X.shape[1]).fit(X[train], y[train])
        shares = [
            100 * float((Neighbors(m, X[train], y[train]).predict(X[test], 3) == y[test]).mean())
            for m in learner.staged_metrics()
        ]
        panels[title] = {
            "xlabel": "iterations",
            "ylabel": "3-NN accuracy, %",
            "lines": {"DRMetric": line(range(1, len(shares) + 1), shares)},
            "mark": X.shape[1],
        }
    return panels


def figure_4(run: int) -> Panels:
    """Ten categories of Corel, ten folds, k = 1 to 40."""
    table = Table("corel1k_33", standardise=True)
    return {"Corel, 10 categories": _neighbors(table, Folds(10), run, tuple(range(1, 41)))}


def _neighbors(table: Table, split: Folds, run: int, ranks: tuple[int, ...]) -> dict[str, Any]:
    X, y = table.load()
    train, test = split(y, run)
    raw, X = X, table.prepared(X, train)
    lines = {}
    methods: dict[str, tuple[str, dict[str, Any]]] = {**COMPARED}
    methods |= {name: ("DRMetric", parameters) for name, parameters in OWN.items()}
    for column, (method, parameters) in methods.items():
        rows: Array = raw - raw.min(axis=0) if column == "chi2" else X
        model = fitted(method, rows[train], y[train], parameters, run)
        lines[column] = line(ranks, neighbor_shares(model, rows[test], y[test], ranks))
    return {"xlabel": "k", "ylabel": "k-th neighbour has the class, %", "lines": lines}


def seconds(run: int) -> Panels:
    """Seconds to the end of a fit by the number of pictures of each of ten Corel categories."""
    X, y = Table("corel1k_33", standardise=True).load()
    X = Table("corel1k_33", standardise=True).prepared(X, np.arange(len(X)))
    found: dict[str, list[float]] = {}
    for number in PICTURES:
        train, _ = PerClass(number)(y, run)
        for name in ("DRMetric", "BoostMetric", "MetricBoost"):
            learner = getattr(nearfar, name)(variant="paper", random_state=run)
            fit = partial(learner.fit, X[train], y[train])
            found.setdefault(name, []).append(cpu_seconds(fit))
    lines = {name: line(PICTURES, values) for name, values in found.items()}
    where = {"xlabel": "pictures of each category", "ylabel": "seconds of one core"}
    return {"Corel, 10 categories": {**where, "lines": lines}}


CURVES = (
    Curve(
        "drmetric/F1",
        figure_1,
        1,
        ("DRMetric",),
        "As the paper says: without regularisation the weight oscillates, with it it does not.",
    ),
    Curve(
        "drmetric/F2",
        figure_2,
        5,
        ("DRMetric",),
        "The paper has DRMetric ahead of all. Here that holds for the default on heart disease, up "
        "to k = 3, and not for the method as printed.",
    ),
    Curve(
        "drmetric/F3",
        figure_3,
        5,
        ("DRMetric",),
        "As the paper says, most of the rise comes within as many iterations as there are columns "
        "(heart disease); on blood transfusion nothing rises before.",
    ),
    Curve(
        "drmetric/F4",
        figure_4,
        10,
        ("DRMetric",),
        "The paper has DRMetric ahead up to k = 25. Here the method as printed is behind all, and "
        "the default is level with the middle.",
    ),
    Curve(
        "drmetric/seconds",
        seconds,
        10,
        ("DRMetric", "BoostMetric", "MetricBoost"),
        shows="Time to converge of DRMetric, BoostMetric and MatrixBoost on Corel (in the text).",
    ),
)
