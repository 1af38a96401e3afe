"""Comparisons by triplets and pairs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from comparison.helpers import FakeClock, Fixed
from nearfar import LSML, RCA, Chunklets, Metric, Pairs, RandomPairs, Triplets, compare
from nearfar.comparison import Category
from nearfar.comparison.tasks import judgement_folds
from nearfar.evidence.intervals import judgement_shares
from nearfar.learners.scaling import Scaler
from nearfar.measures.judgements import misplaced

X, Y = load_wine(return_X_y=True)
Z = Scaler.fit(X, "standard").transform(X)


def draw_triplets(number=1200, seed=0, flipped=0.1):
    """Triplets of wines by their first two features, standardised, some of them wrong."""
    rng = np.random.default_rng(seed)
    index = np.array([rng.choice(len(X), 3, replace=False) for _ in range(number)])
    to_near, to_far = (((Z[index[:, 0]] - Z[index[:, k]])[:, :2] ** 2).sum(axis=1) for k in (1, 2))
    right = (to_near < to_far) ^ (rng.random(number) < flipped)
    return Triplets(np.where(right[:, None], index, index[:, [0, 2, 1]]))


def draw_pairs(number=1500, seed=0):
    return RandomPairs(number)(X, Y, np.random.RandomState(seed))


TRIPLETS, PAIRS = draw_triplets(), draw_pairs()


@pytest.fixture(scope="module")
def by_triplets():
    return compare(X, TRIPLETS, ["LSML"], cv=4)


@pytest.fixture(scope="module")
def by_pairs():
    return compare(X, PAIRS, ["RCA"])


class TestTriplets:
    @pytest.fixture
    def found(self, by_triplets):
        return by_triplets

    def test_methods(self, found):
        names = ["Euclidean (unscaled)", "Euclidean (standardised)", "cosine", "L1", "chi-square"]
        assert list(found) == [*names, "inverse covariance", "LSML"]

    def test_accuracies_are_those_of_held_out_anchors(self, found):
        folds = judgement_folds(TRIPLETS, 4, None, 0)
        metrics = {"Euclidean (standardised)": Scaler.fit(X, "standard").euclidean, "cosine": None}
        metrics["cosine"] = Metric(np.eye(13), unit_rows=True)
        for number, (train, test) in enumerate(folds):
            seen, unseen = TRIPLETS.take(train), TRIPLETS.take(test)
            assert not set(seen.index[:, 0]) & set(unseen.index[:, 0])
            metrics["LSML"] = LSML(random_state=0).fit(X, seen).metric_
            for name, metric in metrics.items():
                expected = metric.prefers(X, unseen).mean()
                assert 1 - found[name].errors[number] == pytest.approx(expected)
        assert sorted(np.concatenate([test for _, test in folds])) == list(range(len(TRIPLETS)))

    def test_other_distances(self, found):
        a, near, far = TRIPLETS.index.T
        manhattan = [np.abs(Z[a] - Z[other]).sum(axis=1) for other in (near, far)]
        assert found["L1"].error == pytest.approx(np.mean(manhattan[0] > manhattan[1]), abs=0.01)
        chi = [((X[a] - X[o]) ** 2 / (X[a] + X[o])).sum(axis=1) for o in (near, far)]
        right = np.where(chi[0] < chi[1], 0.0, 1.0)
        np.testing.assert_array_equal(found["chi-square"].wrong, right)

    def test_the_verdict(self, found):
        verdict = found.by_goal("triplets").verdict
        assert (verdict.method, verdict.category) == ("LSML", Category.CLEARLY_BETTER)
        assert 0 < verdict.low < verdict.gain < verdict.high
        assert found.verdict.startswith("Use LSML: triplet accuracy ")
        assert "Expected gain" in found.verdict
        assert " points (" in found.verdict
        assert found.by_goal("triplets").mark(found["LSML"]) == "+"
        text = str(found)
        assert text.startswith("accuracy of held-out triplets ± std over 4 folds, 1200 triplets of")
        assert "error" not in text

    def test_as_data(self, found):
        document = found.to_dict()
        assert document["n_triplets"] == 1200
        assert document["triplets"]["method"] == "LSML"
        row = next(row for row in document["methods"] if row["name"] == "LSML")
        assert row["triplet_accuracy"] == pytest.approx(1 - found["LSML"].error)
        verdict = found.by_goal("triplets").verdict
        assert row["triplet_accuracy_gain_probability"] == verdict.probability
        assert "triplet accuracy: the share that is wrong" in found._repr_html_()
        with pytest.raises(ValueError, match="compared by triplets, not by ranking"):
            found.ranking  # noqa: B018


def test_random_triplets_have_no_verdict():
    """Judgements by chance; the rows are few, so that judgements share them."""
    rng = np.random.default_rng(0)
    index = np.array([rng.choice(40, 3, replace=False) for _ in range(2000)])
    found = compare(X[:40], Triplets(index), ["LSML", "BoostMetric"])
    assert not found.by_goal("triplets").verdict.helps


def test_weights_count_as_copies():
    heavy = np.arange(len(TRIPLETS)) % 3
    copies = TRIPLETS.take(np.repeat(np.arange(len(TRIPLETS)), heavy))
    weighted = Triplets(TRIPLETS.index, heavy)

    def halves(triplets):
        odd = triplets.index[:, 0] % 2 == 1
        return [(np.flatnonzero(odd), np.flatnonzero(~odd))]

    one = compare(X, weighted, [], cv=halves(TRIPLETS.take(heavy > 0)))
    two = compare(X, copies, [], cv=halves(copies))
    for name in one:
        np.testing.assert_allclose(one[name].errors, two[name].errors)


class TestPairs:
    @pytest.fixture
    def found(self, by_pairs):
        return by_pairs

    def test_areas_are_those_of_held_out_pairs(self, found):
        folds = judgement_folds(PAIRS, 5, None, 0)
        for number, (train, test) in enumerate(folds):
            unseen = PAIRS.take(test)
            # Rows of held-out pairs alone are not seen.
            rows = np.unique(PAIRS.index[train])
            metric = RCA().fit(X[rows], PAIRS.take(train).restrict(rows)).metric_
            expected = roc_auc_score(unseen.similar, -metric.pair_distances(X, unseen))
            assert 1 - found["RCA"].errors[number] == pytest.approx(expected)

    def test_no_pair_is_in_both_parts(self):
        both_ways = Pairs(np.vstack([PAIRS.index, PAIRS.index[:, ::-1]]), np.tile(PAIRS.similar, 2))
        for train, test in judgement_folds(both_ways, 5, None, 0):
            seen, unseen = (
                {tuple(sorted(pair)) for pair in both_ways.index[part].tolist()}
                for part in (train, test)
            )
            assert not seen & unseen

    def test_components_stay_together(self):
        index = np.column_stack([np.arange(0, 120, 2), np.arange(1, 120, 2)])
        index = np.vstack([index, index[:, ::-1]])
        pairs = Pairs(index, np.tile(np.arange(60) % 2 == 0, 2))
        for train, test in judgement_folds(pairs, 5, None, 0):
            assert not set(index[train].ravel()) & set(index[test].ravel())

    def test_the_verdict(self, found):
        assert found.verdict.startswith("Use RCA: AUC 0.")
        assert "AUC of held-out pairs ± std over 5 folds, 1500 pairs of 178 rows" in str(found)
        row = next(row for row in found.to_dict()["methods"] if row["name"] == "RCA")
        assert row["auc"] == pytest.approx(1 - found["RCA"].error)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_of_misplaced_pairs_is_the_area_above_the_curve(rng, weighted):
    index = np.array([rng.choice(30, 2, replace=False) for _ in range(80)])
    pairs = Pairs(index, rng.random(80) < 0.3, rng.integers(1, 4, 80) if weighted else None)
    distances = rng.integers(0, 9, 80).astype(float)
    area = roc_auc_score(pairs.similar, -distances, sample_weight=pairs.weight)
    wrong = misplaced(distances, pairs.similar, pairs.weight)
    assert (wrong * judgement_shares(pairs)).mean() == pytest.approx(1 - area)


def test_pipelines_and_given_metrics():
    pipeline = make_pipeline(StandardScaler(), LSML(random_state=0))
    learners = {"pipeline": pipeline, "given": Fixed(Metric(np.eye(13)[:2]))}
    found = compare(X, TRIPLETS, learners, cv=3)
    assert not found.left_out
    expected = Metric(np.eye(13)[:2]).prefers(Z, TRIPLETS).mean()
    assert 1 - np.nanmean(found["given"].wrong) == pytest.approx(expected)
    assert found["pipeline"].error < found["Euclidean (standardised)"].error


def test_a_budget_uses_samples_of_judgements():
    found = compare(X, draw_triplets(6000), ["LSML"], budget=0)
    assert len(found.sample) == 100
    assert "100 of 6000 triplets" in found.verdicts[0]
    for result in found.results:
        assert np.isin(np.flatnonzero(~np.isnan(result.wrong)), found.sample).all()


def test_many_groups():
    """Pairs of 12,000 rows, all apart: too many groups to balance."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(12_000, 2))
    index = np.arange(12_000).reshape(-1, 2)
    near = np.abs(points[::2, 0] - points[1::2, 0]) < 0.7
    found = compare(points, Pairs(index, near), {"first": Fixed(Metric([[1.0, 0.0]]))})
    assert found["first"].error == 0
    assert found.by_goal("pairs").verdict.method == "first"


def test_a_checkpoint(tmp_path):
    path = tmp_path / "kept"
    one = compare(X, PAIRS, ["RCA"], checkpoint=path)
    assert str(compare(X, PAIRS, ["RCA"], checkpoint=path)) == str(one)
    with pytest.raises(ValueError, match="another comparison"):
        compare(X, draw_pairs(seed=1), ["RCA"], checkpoint=path)


def test_constraints_over_samples_and_splitters():
    clock = FakeClock()
    over = compare(X, TRIPLETS.over(len(X)), [], cv=3, clock=clock)
    assert str(over) == str(compare(X, TRIPLETS, [], cv=3, clock=clock))
    assert compare(X, TRIPLETS, [], cv=KFold(3)).n_folds == 3


@pytest.mark.parametrize(
    ("judgements", "options", "message"),
    [
        (Triplets([[0, 1, 999]]), {}, "refer to row 999"),
        (Pairs([[0, 1], [1, 2]], [True, False]), {}, "nothing to hold out"),
        (Pairs(PAIRS.index, np.ones(len(PAIRS), bool)), {}, "of both kinds"),
        (TRIPLETS, {"groups": [1, 2]}, "one value per row \\(178\\)"),
        (TRIPLETS, {"learners": ["NCA"]}, "NCA does not learn from triplets, but from labels"),
        (TRIPLETS, {"learners": ["RCA"]}, "RCA does not learn from triplets"),
        (Chunklets(Y), {}, "Chunklets cannot be held out"),
        (TRIPLETS, {"cv": [(np.arange(9), np.arange(5))]}, "the same triplets to learn from"),
    ],
)
def test_errors(judgements, options, message):
    with pytest.raises(ValueError, match=message):
        compare(X, judgements, **options)


def test_values_that_overflow():
    with pytest.raises(ValueError, match="squares overflow"):
        compare(X * 1e160, TRIPLETS)


def test_people_are_held_out():
    """Everybody judges by a feature of their own: other people's answers say nothing."""
    rng = np.random.default_rng(0)
    index = np.array([rng.choice(len(X), 3, replace=False) for _ in range(900)])
    person = np.arange(900) % 6
    own = Z[index, person[:, None]]
    nearer = np.abs(own[:, 0] - own[:, 1]) < np.abs(own[:, 0] - own[:, 2])
    index = np.where(nearer[:, None], index, index[:, [0, 2, 1]])
    known = Triplets(index, raters=person)
    for train, test in judgement_folds(known, 3, None, 0):
        assert not set(person[train]) & set(person[test])
    found = compare(X, known, [LSML()], cv=3, random_state=0)
    assert "No person of 6 is both learned from and tested on." in str(found)
    anchors = compare(X, Triplets(index), [LSML()], cv=3, random_state=0)
    assert "No person" not in str(anchors)
    assert found["LSML"].error > anchors["LSML"].error + 0.02
    assert len(judgement_folds(known, 7, None, 0)) == 6


def test_groups_without_judgements_are_not_dealt_into_folds():
    """Eight groups have pairs, and a hundred have none."""
    groups = np.r_[np.repeat(np.arange(8), 5), np.arange(8, 108)]
    within = [(5 * g + a, 5 * g + b) for g in range(8) for a in range(5) for b in range(a)]
    pairs = Pairs(np.array(within), np.arange(len(within)) % 2 == 0)
    for seed in range(5):
        folds = judgement_folds(pairs, 4, groups, seed)
        held_out = [np.unique(groups[pairs.index[test]]) for _, test in folds]
        assert [len(own) for own in held_out] == [2] * 4
        assert sorted(np.concatenate(held_out)) == list(range(8))
    assert len(judgement_folds(pairs, 9, groups, 0)) == 8
    X = np.random.default_rng(0).standard_normal((140, 3))
    assert compare(X, pairs, ["RCA"], cv=4, groups=groups).n_groups == 8
