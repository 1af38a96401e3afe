"""Curves of the appendix: neighbours, pairs, eigenvalues, and the fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nearfar import plots
from nearfar.constraints import RandomPairs
from nearfar.plots.canvas import one_axes
from nearfar.report.blocks import Figure, Figures
from nearfar.report.figures import svgs
from nearfar.report.study import Study

_MAX_CURVE_NEIGHBORS = 30

Drawing = tuple[Callable[[], Any], str]


def curve_figures(study: Study) -> Figures:
    """Return the curves that apply to a study, with captions."""
    figures = [
        Figure(svg, caption)
        for number, (draw, caption) in enumerate(_curves(study))
        for svg in svgs(draw, caption, f"curve{number}")
    ]
    return Figures(figures)


def _curves(study: Study) -> Iterator[Drawing]:
    """Yield functions that draw, and captions."""
    if study.labels is not None:
        yield from _label_curves(study)
    elif study.supervision == "pairs":
        unseen: Any = study.judgement_split[1]
        if unseen.similar.any() and not unseen.similar.all():
            yield (
                lambda: plots.roc(_method_first(study), study.X, unseen),
                "Held-out pairs: similar or not, by a threshold on the distance.",
            )
    values = [plots.eigenvalues(part)[: part.n_components] for part in study.metric.parts]
    if any(np.ptp(each) > 0 for each in values):
        yield (
            lambda: _spectrum(study),
            "Eigenvalues of the metric: the number of large ones is its effective dimension.",
        )
    learner = study.learner
    if learner is not None and len(learner.history_) > 1:
        yield (
            lambda: plots.iterations(learner.history_, axes=one_axes),
            "The fit, iteration by iteration.",
        )
    yield from _growth(study)


def _spectrum(study: Study) -> Any:
    """Draw the eigenvalues, of which those beyond the map's rows are zero."""
    ax = plots.spectra({study.method: study.metric})
    ax.set_xlim(right=max(part.n_components for part in study.metric.parts) + 0.5)
    return ax


def _label_curves(study: Study) -> Iterator[Drawing]:
    """Yield how often neighbours and pairs have the same class."""
    X, y = study.X, study.labels
    train, test = study.split
    rows = "Held-out rows" if study.relearn is not None else "Some rows"
    max_k = min(_MAX_CURVE_NEIGHBORS, len(train) - 1)
    yield (
        lambda: plots.neighbor_curve(
            _method_first(study),
            X[train],
            y[train],
            max_k=max_k,
            X_query=X[test],
            y_query=y[test],
        ),
        f"{rows}: how often the k-th nearest neighbour has the same class.",
    )
    pairs = RandomPairs()(X[test], y[test], np.random.RandomState(study.random_state))
    if pairs.similar.any() and not pairs.similar.all():
        yield (
            lambda: plots.roc(_method_first(study), X[test], pairs),
            f"Pairs of {rows.lower()}: same class or not, by a threshold on the distance.",
        )


def _growth(study: Study) -> Iterator[Drawing]:
    """Yield the accuracy by rank, for learners that grow a metric."""
    learner, y = study.relearned, study.labels
    if y is None or not hasattr(learner, "staged_metrics") or len(learner.history_) < 2:
        return
    train, test = study.split
    baseline = {study.baseline: study.metrics[study.baseline]}
    yield (
        lambda: plots.accuracy_by_rank(
            learner,
            study.X[train],
            y[train],
            study.X[test],
            y[test],
            n_neighbors=study.n_neighbors,
            baseline=baseline,
        ),
        "Held-out rows: accuracy as the metric grows.",
    )


def _method_first(study: Study) -> dict[str, Any]:
    """Return the metrics with the report's own first, which gives it the main colour."""
    return dict(reversed(study.metrics.items()))
