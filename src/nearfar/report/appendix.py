"""The appendix: what it takes to do the same again, the tests, and curves."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import numpy as np

from nearfar import plots
from nearfar.comparison import Comparison
from nearfar.comparison.verdict_wording import probability_text
from nearfar.constraints import Pairs, RandomPairs
from nearfar.learners.base import MetricLearner
from nearfar.plots.canvas import one_axes
from nearfar.report.blocks import Block, Code, Facts, Figure, Figures, Section, Table
from nearfar.report.figures import svgs
from nearfar.report.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nearfar.plots.canvas import AxesGrid

_PACKAGES = ("nearfar", "numpy", "scipy", "scikit-learn", "matplotlib")
# The default of `plots.neighbor_curve`.
_MAX_CURVE_NEIGHBORS = 30


def appendix_section(study: Study) -> Section:
    """Return what it takes to do the same again, gains and curves."""
    comparison, learner = study.comparison, study.learner
    blocks: list[Block] = []
    if study.command:
        blocks.append(Code("Command", study.command))
    facts = [("Random seed", str(study.random_state))]
    if comparison is not None:
        facts.append(("Comparison", f"{comparison.n_folds} folds, {comparison.n_rows} rows"))
    facts.append(("Baseline in this report", study.baseline))
    facts += study.notes
    facts.append(("Versions", versions()))
    blocks.append(Facts(facts))
    if learner is not None:
        parameters = [f"    {name}={value!r}," for name, value in learner.get_params().items()]
        call = "\n".join([f"{type(learner).__name__}(", *parameters, ")"])
        blocks.append(Code("Parameters", call))
    if comparison is not None:
        blocks.append(gains_table(study, comparison))
    figures = [
        Figure(svg, caption)
        for number, (draw, caption) in enumerate(curves(study))
        for svg in svgs(draw, caption, f"curve{number}")
    ]
    return Section("Appendix", "appendix", [*blocks, Figures(figures)])


def versions() -> str:
    """Return the versions of Python and of the packages that matter."""
    names = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            names.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(names)


def gains_table(study: Study, comparison: Comparison) -> Table:
    """Return the gains of all methods, for each goal."""
    goals = study.compared_goals
    header = ["method"]
    for goal in goals:
        header += [f"gain, {goal.measure.column}", "sure"]
    rows = []
    for result in comparison.results:
        row = [result.name]
        for goal in goals:
            if (gain := goal.gains.get(result.name)) is None:
                row += ["", ""]
                continue
            row.append(goal.measure.write_gain(gain.gain, gain.low, gain.high))
            row.append(probability_text(gain.probability))
        if any(row[1:]):
            rows.append(row)
    caption = (
        "Expected gain over the baseline with its 90 % interval, and the probability that it "
        "makes a practical difference."
    )
    return Table(header, rows, caption, summary="Expected gains")


def curves(study: Study) -> Iterator[tuple[Callable[[], Axes | AxesGrid], str]]:
    """Yield functions that draw the curves that apply to a study, and captions."""
    X, y, metric, learner = study.X, study.labels, study.metric, study.learner
    train, test = study.split
    # The first metric has the main colour: that of the report.
    metrics = dict(reversed(study.metrics.items()))
    if y is not None:
        rows = "Held-out rows" if study.relearn is not None else "Some rows"
        max_k = min(_MAX_CURVE_NEIGHBORS, len(train) - 1)
        yield (
            lambda: plots.neighbor_curve(
                metrics, X[train], y[train], max_k=max_k, X_query=X[test], y_query=y[test]
            ),
            f"{rows}: how often the k-th nearest neighbour has the same class.",
        )
        pairs = RandomPairs()(X[test], y[test], np.random.RandomState(study.random_state))
        if pairs.similar.any() and not pairs.similar.all():
            yield (
                lambda: plots.roc(metrics, X[test], pairs),
                f"Pairs of {rows.lower()}: same class or not, by a threshold on the distance.",
            )
    elif (
        study.judgements is not None
        and isinstance(unseen := study.judgement_split[1], Pairs)
        and unseen.similar.any()
        and not unseen.similar.all()
    ):
        yield (
            lambda: plots.roc(metrics, X, unseen),
            "Held-out pairs: similar or not, by a threshold on the distance.",
        )
    eigenvalues = [plots.eigenvalues(part)[: part.n_components] for part in metric.parts]
    if any(np.ptp(values) > 0 for values in eigenvalues):

        def spectrum() -> Axes:
            ax = plots.spectra({study.method: metric})
            # Eigenvalues beyond the map's rows are zero.
            ax.set_xlim(right=max(part.n_components for part in metric.parts) + 0.5)
            return ax

        yield (
            spectrum,
            "Eigenvalues of the metric: the number of large ones is its effective dimension.",
        )
    if learner is not None and len(learner.history_) > 1:
        history = learner.history_
        yield lambda: plots.iterations(history, axes=one_axes), "The fit, iteration by iteration."
    relearned = study.relearned
    if y is None or not isinstance(relearned, MetricLearner) or len(relearned.history_) < 2:
        return
    if hasattr(relearned, "staged_metrics"):
        yield (
            lambda: plots.accuracy_by_rank(
                relearned,
                X[train],
                y[train],
                X[test],
                y[test],
                n_neighbors=study.n_neighbors,
                baseline={study.baseline: study.metrics[study.baseline]},
            ),
            "Held-out rows: accuracy as the metric grows.",
        )
