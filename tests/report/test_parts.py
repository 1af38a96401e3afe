"""Bars, classes, measures and losses of reports."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics import confusion_matrix, roc_auc_score

from nearfar import BoostMetric, Metric, Pairs, compare
from nearfar.comparison import Comparison, GoalComparison, MethodResult, default_methods
from nearfar.report.bars import comparison_section
from nearfar.report.blocks import Bars, Matrix, Table
from nearfar.report.classes import classes_section, confusion_counts
from nearfar.report.held_out import judgement_losses
from nearfar.report.measures import ERROR, MAP_AT_R, interval, loss_interval
from studies import judgements_study, wine_study

X, Y = load_wine(return_X_y=True)


class TestBars:
    def test_values_and_intervals(self):
        study = wine_study()
        errors, rankings = (b for b in comparison_section(study).blocks if isinstance(b, Bars))
        (group,) = errors.groups
        shown = {bar.name: bar for bar in group.bars}
        assert set(shown) == set(study.comparison)
        values = [study.comparison[bar.name].error for bar in group.bars]
        assert values == sorted(values)
        for bar in group.bars:
            assert bar.text == f"{100 * study.comparison[bar.name].error:.1f} %"
            assert 0 <= bar.low <= bar.length <= bar.high <= 100 + 1e-9
        assert max(bar.high for bar in group.bars) == pytest.approx(100)
        assert shown["BoostMetric"].note == "this report"
        assert "baseline" in shown[study.baseline].note
        (group,) = rankings.groups
        assert [bar.name for bar in group.bars if bar.look == "best"] == [
            study.comparison.ranking.verdict.method
        ]
        assert group.bars[0].text == f"{max(r.map_at_r for r in study.comparison.results):.3f}"

    def test_methods_tried_on_less_are_a_group_with_their_own_baseline(self):
        ticks = iter(range(10**6))
        comparison = compare(X, Y, [BoostMetric(max_iter=3)], cv=5, budget=60, clock=ticks.__next__)
        assert comparison.partly_tried
        study = wine_study(comparison=comparison)
        bars = next(b for b in comparison_section(study).blocks if isinstance(b, Bars))
        reference = comparison.classification.reference.name
        for group in bars.groups:
            names = [bar.name for bar in group.bars]
            assert reference in names
            assert len(names) > 1
            assert not (group.folded and "BoostMetric" in names)

    def test_of_nothing_but_the_baseline(self):
        methods = [method for method in default_methods([]) if method.kind == "baseline"]
        figures = dict.fromkeys(
            ["errors", "maps_at_r", "triplet_accuracies", "seconds"], np.zeros(1)
        )
        by_row = dict.fromkeys(["wrong", "average_precision"], np.zeros(178))
        only = MethodResult(methods[0], **figures, **by_row)
        comparison = Comparison([only], n_neighbors=3, n_folds=1, n_rows=178)
        study = wine_study(comparison=comparison, relearn=None)
        assert not any(isinstance(block, Bars) for block in comparison_section(study).blocks)


class TestClasses:
    def test_errors_by_class(self):
        study = wine_study()
        table = classes_section(study).blocks[0]
        assert isinstance(table, Table)
        assert table.header == ["class", "rows", study.baseline, "BoostMetric", "change"]
        wrong = study.comparison["BoostMetric"].wrong
        for name, count, _, after, _ in table.rows:
            rows = str(name) == Y.astype(str)
            assert int(count) == rows.sum()
            assert after == f"{100 * wrong[rows].mean():.1f} %"

    def test_confusions(self):
        study = wine_study()
        matrices = [b for b in classes_section(study).blocks if isinstance(b, Matrix)]
        assert [bool(matrix.summary) for matrix in matrices] == [False, True]
        _, test = study.split
        predicted = study.predicted(study.metrics["BoostMetric"])
        expected = confusion_matrix(Y[test], predicted)
        shown = [[int(cell.text or 0) for cell in row] for row in matrices[0].rows]
        assert shown == expected.tolist()

    def test_counts(self, rng):
        names = np.array(["a", "b", "c"])
        actual, predicted = rng.choice(names, size=(2, 50))
        counts = confusion_counts(names, actual, predicted)
        np.testing.assert_array_equal(counts, confusion_matrix(actual, predicted, labels=names))


class TestMeasures:
    def test_intervals_contain_the_mean_of_most_samples(self, rng):
        for share in (0.02, 0.3):
            samples = (rng.random((500, 200)) < share).astype(float)
            found = np.array([interval(s.mean(), s.var() / 200, 200) for s in samples])
            covered = ((found[:, 0] <= share) & (share <= found[:, 1])).mean()
            assert 0.84 < covered < 0.97

    def test_limits(self):
        low, high = interval(0.0, 0.0, 20)
        assert low == 0
        assert 0.05 < high < 0.2
        narrow, wide = interval(0.5, 0.001, 100), interval(0.5, 0.004, 100)
        assert wide[0] < narrow[0] < 0.5 < narrow[1] < wide[1]

    def test_rankings_are_less_sure_and_rows_not_tested_do_not_count(self):
        euclidean = default_methods([])[0]
        losses = np.append(np.linspace(0, 1, 101), np.nan)
        result = MethodResult(euclidean, wrong=losses, average_precision=1 - losses)
        goals = [GoalComparison([result], goal) for goal in ("classification", "ranking")]
        errors, rankings = (loss_interval(goal, result) for goal in goals)
        assert rankings[0] < errors[0] < 0.5 < errors[1] < rankings[1]
        unknown = MethodResult(euclidean, wrong=np.full(3, np.nan))
        assert loss_interval(goals[0], unknown) == (0.0, 1.0)

    def test_judgements_that_share_rows_are_less_sure(self):
        study = judgements_study("triplets")
        comparison = compare(study.X, study.y, [BoostMetric(max_iter=3)], cv=2)
        (goal,) = comparison.goals.values()
        result = comparison["BoostMetric"]
        low, high = loss_interval(goal, result)
        independent = interval(result.error, np.nanvar(result.wrong) / len(study.y), len(study.y))
        assert low < independent[0] < result.error < independent[1] < high

    def test_numbers(self):
        assert ERROR.value(0.25) == 0.25
        assert MAP_AT_R.value(0.25) == 0.75


class TestLosses:
    def test_of_pairs_have_the_mean_of_the_roc_curve(self, rng):
        index = np.array([(i, j) for i, j in rng.integers(178, size=(300, 2)) if i != j])
        pairs = Pairs(index, Y[index[:, 0]] == Y[index[:, 1]])
        metric = Metric.identity(13)
        losses = judgement_losses(metric, X, pairs)
        area = roc_auc_score(pairs.similar, -metric.pair_distances(X, index))
        for kind in (True, False):
            assert losses[pairs.similar == kind].mean() == pytest.approx(1 - area)

    def test_of_pairs_of_one_kind_are_none(self):
        pairs = Pairs([[0, 1], [1, 2]], [True, True])
        assert not judgement_losses(Metric.identity(13), X, pairs).any()
