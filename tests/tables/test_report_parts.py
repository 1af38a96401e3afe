"""Bars, classes, intervals and losses of reports."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics import confusion_matrix, roc_auc_score

from nearfar import ForestMetric, Metric, Pairs
from nearfar.comparison import GoalComparison, MethodResult, default_methods
from nearfar.evidence.intervals import mean_interval
from nearfar.measures.registry import PAIR_AUC, HeldOutJudgements
from nearfar.page.blocks import Bars, Figures, Matrix, Table, Text
from nearfar.tables.report_sections import classes_section, comparison_section, features_section
from studies import judgements_study, wine_study

X, Y = load_wine(return_X_y=True)
EUCLIDEAN = default_methods([])[0]


class TestBars:
    def test_values_and_intervals(self):
        study = wine_study()
        (bars,) = (b for b in comparison_section(study).blocks if isinstance(b, Bars))
        shown = {bar.name: bar for bar in bars.groups[0].bars}
        assert list(shown) == [result.name for result in study.held_out.results]
        for result in study.held_out.results:
            bar = shown[result.name]
            assert bar.text == f"{100 * result.error:.1f} %"
            assert 0 <= bar.low <= bar.length <= bar.high <= 100 + 1e-9
        assert max(bar.high for bar in shown.values()) == pytest.approx(100)
        assert shown["BoostMetric"].note == "this report"
        assert shown[study.baseline].note == "baseline"


class TestClasses:
    def test_errors_by_class(self):
        study = wine_study()
        table = classes_section(study).blocks[0]
        assert isinstance(table, Table)
        assert table.header == ["class", "rows", study.baseline, "BoostMetric", "change"]
        wrong = study.held_out.results[0].losses["error"]
        for name, count, _, after, _ in table.rows:
            rows = str(name) == Y.astype(str)
            assert int(count) == rows.sum()
            assert after == f"{100 * wrong[rows].mean():.1f} %"

    def test_confusions(self):
        study = wine_study()
        matrices = [b for b in classes_section(study).blocks if isinstance(b, Matrix)]
        assert [bool(matrix.summary) for matrix in matrices] == [False, True]
        _, test = study.split
        predicted = study.predicted_classes["BoostMetric"]
        expected = confusion_matrix(Y[test], predicted)
        shown = [[int(cell.text or 0) for cell in row] for row in matrices[0].rows]
        assert shown == expected.tolist()


class TestIntervals:
    def test_rankings_are_less_sure_and_rows_not_tested_do_not_count(self):
        losses = np.append(np.linspace(0, 1, 101), np.nan)
        result = MethodResult(EUCLIDEAN, *2 * [{"error": losses, "map_at_r": losses}])
        goals = [GoalComparison([result], goal) for goal in ("classification", "ranking")]
        errors, rankings = (goal.interval(result) for goal in goals)
        assert rankings[0] < errors[0] < 0.5 < errors[1] < rankings[1]
        unknown = MethodResult(EUCLIDEAN, {"error": np.full(3, np.nan)})
        assert goals[0].interval(unknown) == (0.0, 1.0)

    def test_unseen_classes_count_as_one_row_each(self):
        classes = np.repeat(np.arange(10), 20)
        losses = {"map_at_r": np.repeat(np.linspace(0.2, 0.6, 10), 20)}
        result = MethodResult(EUCLIDEAN, losses, losses)
        rows = GoalComparison([result], "ranking").interval(result)
        low, high = GoalComparison([result], "ranking", unseen=classes).interval(result)
        assert low < rows[0] < 0.4 < rows[1] < high
        variance = 2.0 * np.linspace(0.2, 0.6, 10).var(ddof=1) / 10
        assert (low, high) == pytest.approx(mean_interval(0.4, variance, 10, grouped=True))

    def test_judgements_that_share_rows_are_less_sure(self):
        (goal,) = judgements_study("triplets").goals
        result = goal.results[-1]
        low, high = goal.interval(result)
        n = len(result.wrong)
        independent = mean_interval(result.error, np.nanvar(result.wrong) / n, n)
        assert low < independent[0] < result.error < independent[1] < high


class TestLosses:
    def test_of_pairs_have_the_mean_of_the_roc_curve(self, rng):
        index = np.array([(i, j) for i, j in rng.integers(178, size=(300, 2)) if i != j])
        pairs = Pairs(index, Y[index[:, 0]] == Y[index[:, 1]])
        metric = Metric.identity(13)
        values = PAIR_AUC.function(HeldOutJudgements(metric, X, pairs))
        area = roc_auc_score(pairs.similar, -metric.pair_distances(X, index))
        for kind in (True, False):
            assert values[pairs.similar == kind].mean() == pytest.approx(area)

    def test_of_pairs_of_one_kind_are_none(self):
        pairs = Pairs([[0, 1], [1, 2]], [True, True])
        assert not PAIR_AUC.losses(HeldOutJudgements(Metric.identity(13), X, pairs)).any()


def test_trees_have_shares_of_features():
    forest = ForestMetric(n_trees=10).fit(X, Y)
    section = features_section(replace(wine_study(), metric=forest.metric_))
    assert section.title == "Which features matter"
    assert [type(block) for block in section.blocks] == [Text, Figures]
