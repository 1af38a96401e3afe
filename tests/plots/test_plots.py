"""Pictures: what is drawn, not how it looks."""

from __future__ import annotations

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from nearfar import (
    NCA,
    BoostMetric,
    DRMetric,
    MaxMarginMetric,
    Metric,
    MetricBoost,
    MixtureNCA,
    Pairs,
    RandomPairs,
    SparseNCA,
    evaluate,
    plots,
)
from nearfar.runtime.history import History, Iteration
from wines import BROKEN, GATED, NAMES, PLAIN, X, Y, kernel_metric

mpl.use("Agg")
PARTS = X[::2], Y[::2], X[1::2], Y[1::2]


@pytest.fixture(autouse=True)
def closed():
    yield
    for number in pyplot.get_fignums():
        pyplot.figure(number).canvas.draw()
    pyplot.close("all")


def points_of(ax):
    return np.vstack([np.asarray(c.get_offsets()) for c in ax.collections])


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def same_up_to_sign(drawn, expected):
    signs = np.sign((drawn * expected).sum(axis=0))
    np.testing.assert_allclose(drawn * signs, expected, atol=1e-8 * np.abs(expected).max())


def principal(P):
    P = P - P.mean(axis=0)
    return P @ np.linalg.svd(P, full_matrices=False)[2][:2].T


class TestProjections:
    def test_of_a_gate(self):
        axes = plots.projections(GATED, X, Y)
        flat, chosen = GATED.projections(X)
        for number, ax in enumerate(axes):
            rows = np.flatnonzero(chosen == number)
            assert 0 < len(rows) < 178
            assert ax.get_title() == f"metric {number + 1} ({len(rows)} points)"
            order = rows[np.argsort(Y[rows], kind="stable")]
            same_up_to_sign(points_of(ax), flat[order])
        with pytest.raises(ValueError, match="2 axes"):
            plots.projections(GATED, X, Y, axes=[axes[0]])

    def test_of_a_gate_that_leaves_a_metric_without_points(self):
        metric = MixtureNCA(n_metrics=2, random_state=0).fit(X, Y).metric_
        axes = plots.projections(metric, X, Y)
        assert [len(points_of(ax)) for ax in axes] == [178, 0]
        assert legend_of(axes[-1]) == ["0", "1", "2"]

    def test_of_one_metric(self):
        (ax,) = plots.projections(Metric.identity(13), X)
        same_up_to_sign(points_of(ax), principal(X))
        assert ax.get_legend() is None
        assert plots.projections(Metric.identity(13), X, Y, axes=[ax])[0] is ax

    def test_of_a_metric_with_votes(self):
        learner = MetricBoost(response="binary", max_iter=5).fit(X, Y)
        assert learner.metric_.votes is not None
        (ax,) = plots.projections(learner.metric_, X, Y)
        assert len(points_of(ax)) == 178


class TestBeforeAndAfter:
    def test_coordinates_names_and_shares(self):
        metric = NCA(n_components=4).fit(X, Y).metric_
        before, after = plots.before_and_after(metric, X, NAMES)
        order = np.argsort(NAMES, kind="stable")
        same_up_to_sign(points_of(before), principal((X - X.mean(axis=0)) / X.std(axis=0))[order])
        same_up_to_sign(points_of(after), principal(metric.transform(X))[order])
        assert legend_of(after) == ["barbera", "barolo", "grignolino"]
        assert before.get_legend() is None
        spread = np.linalg.eigvalsh(np.cov(metric.transform(X).T))[::-1]
        assert after.get_xlabel() == f"axis 1 ({100 * spread[0] / spread.sum():.0f} %)"
        assert "before" in before.get_title()

    def test_classes_look_alike_in_both_and_differ_by_mark(self):
        before, after = plots.before_and_after(PLAIN, X, Y)
        for one, other in zip(before.collections, after.collections, strict=True):
            np.testing.assert_array_equal(one.get_facecolor(), other.get_facecolor())
        marks = {path.get_paths()[0].vertices.tobytes() for path in before.collections}
        colours = {path.get_facecolor().tobytes() for path in before.collections}
        assert len(marks) == len(colours) == 3

    def test_many_points_by_a_fixed_choice_of_each_class(self):
        many, labels = np.tile(X, (20, 1)), np.tile(Y, 20)
        first = plots.before_and_after(PLAIN, many, labels)
        again = plots.before_and_after(PLAIN, many, labels)
        for ax, other in zip(first, again, strict=True):
            assert "2000 of 3560 points" in ax.get_title()
            counts = [len(c.get_offsets()) for c in ax.collections]
            assert sum(counts) == 2000
            np.testing.assert_allclose(counts, np.bincount(labels) * 2000 / 3560, atol=1)
            np.testing.assert_array_equal(points_of(ax), points_of(other))
        assert len(points_of(plots.before_and_after(PLAIN, many)[1])) == 2000

    def test_more_than_ten_classes(self):
        labels = np.array([f"class {c:02}" for c in np.arange(178) % 12])
        before, after = plots.before_and_after(PLAIN, X, labels)
        assert after.get_legend() is None
        assert [text.get_text() for text in before.texts] == np.unique(labels).tolist()
        middle = np.median(points_of(after)[labels == "class 03"], axis=0)
        np.testing.assert_allclose(after.texts[3].get_position(), middle)
        _, crowd = plots.before_and_after(PLAIN, X, np.arange(178))
        assert not crowd.texts

    def test_one_coordinate_by_class(self):
        before, after = plots.before_and_after(Metric([[2.0]]), X[:, :1], NAMES)
        for ax in (before, after):
            rows = [set(c.get_offsets()[:, 1].tolist()) for c in ax.collections]
            assert rows == [{0.0}, {1.0}, {2.0}]
            assert [t.get_text() for t in ax.get_yticklabels()] == np.unique(NAMES).tolist()
        _, rank_one = plots.before_and_after(Metric(PLAIN.L[:1]), X)
        assert not points_of(rank_one)[:, 1].any()
        assert rank_one.get_xlabel() == "axis 1 (100 %)"

    def test_of_a_gate(self):
        axes = plots.before_and_after(GATED, X, Y)
        sizes = np.bincount(GATED.assign(X))
        assert [len(points_of(ax)) for ax in axes] == [178, *sizes]
        assert f"metric 2 ({sizes[1]} points)" in axes[2].get_title()
        with pytest.raises(ValueError, match="3 axes"):
            plots.before_and_after(GATED, X, Y, axes=axes[:2])

    def test_of_a_kernel(self):
        _, after = plots.before_and_after(kernel_metric(), X)
        same_up_to_sign(points_of(after), principal(kernel_metric().transform(X)))

    def test_refusals(self):
        with pytest.raises(ValueError, match="NaN"):
            plots.before_and_after(PLAIN, BROKEN, Y)
        with pytest.raises(ValueError, match="one label each"):
            plots.before_and_after(PLAIN, X, Y[1:])
        with pytest.raises(ValueError, match="Labels must not be NaN"):
            plots.before_and_after(PLAIN, X, np.where(Y == 1, np.nan, Y))
        with pytest.raises(ValueError, match="13 features"):
            plots.before_and_after(PLAIN, X[:, :4], Y)
        frame = pd.DataFrame(X).rename(columns=str)
        with pytest.raises(ValueError, match="in this order"):
            plots.before_and_after(PLAIN.named([f"f{j}" for j in range(13)]), frame)


class TestSpectra:
    def test_sparse_and_free(self):
        free = SparseNCA(sparsity=0.0).fit(X, Y).metric_
        sparse = SparseNCA(sparsity=0.1).fit(X, Y).metric_
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


class TestRounds:
    def test_of_boosting(self):
        learner = BoostMetric(max_iter=30).fit(X, Y)
        objective, eigenvalue = plots.rounds(learner.history_)
        assert objective.lines[0].get_xdata().tolist() == list(range(1, 31))
        np.testing.assert_array_equal(objective.lines[0].get_ydata(), learner.history_.objective)
        np.testing.assert_array_equal(eigenvalue.lines[0].get_ydata(), learner.history_.eigenvalue)
        assert eigenvalue.get_ylabel() == "leading eigenvalue"
        assert objective.get_title() == "stopped: max_iter"
        assert plots.rounds(learner.history_, axes=[objective, eigenvalue])[1] is eigenvalue

    def test_of_solvers_without_directions(self):
        pairs = MaxMarginMetric(random_state=0).fit(X, Y)
        assert plots.rounds(pairs.history_)[1].get_ylabel() == "gap"
        (objective,) = plots.rounds(NCA().fit(X, Y).history_)
        assert objective.get_ylabel() == "objective"

    def test_scales(self):
        up = np.array([1.0])
        wide = History([Iteration(1.0, 100.0, 1.0, up), Iteration(-1.0, 0.1, 1.0, up)])
        objective, eigenvalue = plots.rounds(wide)
        assert (objective.get_yscale(), eigenvalue.get_yscale()) == ("linear", "log")
        with pytest.raises(ValueError, match="no rounds"):
            plots.rounds(History())


class TestAccuracyByRank:
    def test_without_prior_by_rank(self):
        learner = BoostMetric(prior=None, max_iter=60).fit(*PARTS[:2])
        ax = plots.accuracy_by_rank(learner, *PARTS, n_neighbors=5)
        last = {metric.n_components: metric for metric in learner.staged_metrics()}
        line, level = ax.lines
        assert line.get_xdata().tolist() == sorted(last) == list(range(1, 14))
        for rank, accuracy in zip(*line.get_data(), strict=True):
            error = evaluate.knn_error(last[rank], *PARTS, n_neighbors=5)
            assert accuracy == 1 - error
        plain = Metric(np.diag(1 / PARTS[0].std(axis=0)))
        assert level.get_ydata()[0] == 1 - evaluate.knn_error(plain, *PARTS, n_neighbors=5)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("rank", "5-NN accuracy")
        assert legend_of(ax) == ["BoostMetric", "Euclidean, standardised"]

    def test_with_prior_by_rounds(self):
        learner = BoostMetric(max_iter=80).fit(*PARTS[:2])
        ax = plots.accuracy_by_rank(learner, *PARTS, max_points=6)
        shown = ax.lines[0].get_xdata()
        assert shown[0] == 1
        assert shown[-1] == 80
        assert len(shown) == 6
        assert ax.get_xlabel() == "rounds (rank 13 from the start)"
        assert ax.get_xscale() == "log"
        final = 1 - evaluate.knn_error(learner.metric_, *PARTS)
        assert ax.lines[0].get_ydata()[-1] == final

    def test_one_point_is_the_final_metric(self):
        learner = DRMetric(prior=None).fit(*PARTS[:2])
        ax = plots.accuracy_by_rank(learner, *PARTS, max_points=1)
        final = 1 - evaluate.knn_error(learner.metric_, *PARTS)
        assert ax.lines[0].get_ydata().tolist() == [final]

    def test_frames_and_names(self):
        names = [f"f{j}" for j in range(13)]
        train, test = (pd.DataFrame(part, columns=names) for part in (PARTS[0], PARTS[2]))
        learner = BoostMetric(max_iter=3).fit(train, NAMES[::2])
        ax = plots.accuracy_by_rank(learner, train, NAMES[::2], test, NAMES[1::2])
        assert ax.lines[0].get_xdata().tolist() == [1, 2, 3]

    def test_refusals(self):
        with pytest.raises(ValueError, match="NCA has no `staged_metrics`"):
            plots.accuracy_by_rank(NCA().fit(*PARTS[:2]), *PARTS)
        form = MetricBoost(psd=False, max_iter=3).fit(*PARTS[:2])
        with pytest.raises(ValueError, match="psd=False"):
            plots.accuracy_by_rank(form, *PARTS)
        learner = BoostMetric(max_iter=3).fit(*PARTS[:2])
        with pytest.raises(ValueError, match="max_points"):
            plots.accuracy_by_rank(learner, *PARTS, max_points=0)
        with pytest.raises(ValueError, match="NaN"):
            plots.accuracy_by_rank(learner, BROKEN[::2], *PARTS[1:])
        learner.history_ = History()
        with pytest.raises(ValueError, match="learned nothing"):
            plots.accuracy_by_rank(learner, *PARTS)


class TestCurves:
    def test_of_accuracies(self):
        found = evaluate.accuracy_by("n_metrics", [1, 2], MixtureNCA(random_state=0), *PARTS)
        assert all(0.8 < accuracy <= 1 for accuracy in found.values())
        ax = plots.curves({"mixture": found}, "metrics")
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
                evaluate.neighbor_accuracy_curve(metric, PARTS[0], NAMES[::2], max_k=7, **queries),
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
            curve = evaluate.verification_curve(metric, X, pairs)
            result = evaluate.verification(metric, X, pairs)
            np.testing.assert_array_equal(line.get_xdata(), curve.false_positive_rate)
            np.testing.assert_array_equal(line.get_ydata(), curve.true_positive_rate)
            assert f"AUC {result.auc:.3f}, EER {100 * result.eer:.1f} %" in text
        assert ax.get_xlabel() == "false positive rate"

    def test_refusals(self):
        pairs = Pairs([[0, 1], [0, 100]], [True, False])
        one = {"plain": PLAIN}
        form = MetricBoost(psd=False, max_iter=3).fit(X, Y).metric_
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


def test_dark_style():
    with pyplot.style.context("dark_background"):
        _, after = plots.before_and_after(PLAIN, X, np.arange(178) % 12)
        assert after.texts[0].get_color() == "white"
        assert after.texts[0].get_bbox_patch().get_facecolor()[:3] == (0, 0, 0)
        after.figure.canvas.draw()


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"nearfar\[plots\]"):
        plots.projections(Metric.identity(13), X)
    assert "row" in plots.neighbor_lines({"plain": PLAIN}, X, [0], ["row"] * 178)


def test_matplotlib_is_not_imported_with_the_library():
    code = "import sys, nearfar.plots, nearfar.metrics.importance; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
