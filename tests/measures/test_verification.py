"""Verification measures against loops over thresholds, scikit-learn's AUC, and worked examples."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from nearfar import measures
from nearfar.metrics.metric import Metric
from nearfar.supervision import Pairs

LINE = Metric.identity(1)


def line_pairs(similar, dissimilar, weight=None):
    """Rows and pairs (0, i) whose distances are those given."""
    X = np.concatenate([[0.0], similar, dissimilar])[:, None]
    index = [[0, i] for i in range(1, len(X))]
    return X, Pairs(index, np.arange(len(index)) < len(similar), weight)


class TestVerification:
    def test_curve_is_the_rule_at_each_threshold(self):
        rng = np.random.default_rng(0)
        near, far = rng.integers(1, 12, size=20), rng.integers(4, 15, size=30)
        weight = rng.random(50)
        X, pairs = line_pairs(near, far, weight)
        curve = measures.verification_curve(LINE, X, pairs)
        for fpr, tpr, threshold in zip(
            curve.false_positive_rate, curve.true_positive_rate, curve.thresholds, strict=True
        ):
            assert tpr == pytest.approx(np.average(near <= threshold, weights=weight[:20]))
            assert fpr == pytest.approx(np.average(far <= threshold, weights=weight[20:]))
        assert curve.thresholds[1:].tolist() == sorted({*near.tolist(), *far.tolist()})
        assert curve.thresholds[0] == -np.inf

    @pytest.mark.parametrize("weighted", [False, True])
    def test_numbers_against_loops_over_thresholds(self, weighted):
        rng = np.random.default_rng(1)
        near, far = rng.integers(1, 12, size=20), rng.integers(4, 15, size=30)
        weight = rng.random(50) if weighted else np.ones(50)
        X, pairs = line_pairs(near, far, weight if weighted else None)
        result = measures.verification(LINE, X, pairs)
        distances, similar = np.concatenate([near, far]), pairs.similar
        assert result.auc == pytest.approx(roc_auc_score(similar, -distances, sample_weight=weight))
        accuracies = {
            threshold: np.average((distances <= threshold) == similar, weights=weight)
            for threshold in [-np.inf, *distances.tolist()]
        }
        assert result.accuracy == pytest.approx(max(accuracies.values()))
        assert accuracies[result.accuracy_threshold] == pytest.approx(result.accuracy)
        gaps = {
            threshold: abs(
                np.average(far <= threshold, weights=weight[20:])
                - np.average(near > threshold, weights=weight[:20])
            )
            for threshold in distances.tolist()
        }
        assert gaps[result.eer_threshold] == pytest.approx(min(gaps.values()))

    def test_curve_keeps_every_distance(self):
        curve = measures.verification_curve(LINE, *line_pairs([1, 2, 3], [4, 5, 5]))
        assert curve.thresholds.tolist() == [-np.inf, 1, 2, 3, 4, 5]

    def test_equal_error_rate_between_two_thresholds(self):
        # (fpr, fnr) steps from (0, 1/2) at distance 1 to (1/3, 1/2) at 2 and (1/3, 0) at 3.
        result = measures.verification(LINE, *line_pairs([1, 3], [2, 4, 5]))
        assert result.eer == pytest.approx(1 / 3)
        assert result.eer_threshold == 2
        # From (0, 2/3) at distance 1 straight to (1/2, 0) at 2, where x = 2/3 - 4/3 x.
        result = measures.verification(LINE, *line_pairs([1, 2, 2], [2, 3]))
        assert result.eer == pytest.approx(2 / 7)
        assert result.eer_threshold == 2

    def test_a_perfect_and_a_reversed_metric(self):
        perfect = measures.verification(LINE, *line_pairs([1, 2], [3, 4]))
        assert perfect == measures.Verification(1.0, 0.0, 2.0, 1.0, 2.0)
        wrong = measures.verification(LINE, *line_pairs([3, 4], [1, 2]))
        assert (wrong.auc, wrong.eer) == (0.0, 1.0)
        assert (wrong.accuracy, wrong.accuracy_threshold) == (0.5, -np.inf)

    def test_a_metric_that_sees_nothing(self):
        X, pairs = line_pairs([1, 2], [3, 4])
        result = measures.verification(Metric([[0.0]]), X, pairs)
        assert (result.auc, result.eer, result.accuracy) == (0.5, 0.5, 0.5)
        assert result.eer_threshold == 0.0

    def test_a_weight_counts_as_so_many_pairs(self):
        weighted = line_pairs([1, 4], [2, 5, 3], [3.0, 1.0, 2.0, 1.0, 0.0])
        repeated = line_pairs([1, 1, 1, 4], [2, 2, 5])
        first, second = (measures.verification(LINE, *data) for data in (weighted, repeated))
        assert vars(first) == pytest.approx(vars(second))

    @pytest.mark.parametrize(
        ("similar", "dissimilar", "weight"),
        [([1, 2], [], None), ([], [1, 2], None), ([1], [2], [1.0, 0.0])],
    )
    def test_one_kind_of_pairs_is_not_enough(self, similar, dissimilar, weight):
        X, pairs = line_pairs(similar, dissimilar, weight)
        for measure in (measures.verification, measures.verification_curve):
            with pytest.raises(ValueError, match="similar and dissimilar"):
                measure(LINE, X, pairs)
