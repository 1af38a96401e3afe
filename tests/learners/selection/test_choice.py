"""Iterations and shrinkage that are chosen on held-out data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from nearfar import (
    NCA,
    BoostMetric,
    DRMetric,
    GatedMetric,
    MaxMarginMetric,
    Metric,
    MetricBoost,
    MixtureNCA,
    RandomPairs,
    RandomTriplets,
    SparseNCA,
)
from nearfar.learners.selection.choice import Selection, Trial, best_choice
from nearfar.learners.selection.held_out import HeldOutRows, mean_squared_distance
from nearfar.runtime.history import History, Iteration

X, Y = (part[::2] for part in load_wine(return_X_y=True))
LEARNERS = [BoostMetric, DRMetric, MetricBoost, MaxMarginMetric, NCA, SparseNCA, MixtureNCA]


@pytest.fixture(params=LEARNERS, ids=lambda cls: cls.__name__)
def learner(request):
    cls = request.param
    return cls(random_state=0, **({} if cls is not MixtureNCA else {"n_metrics": 2}))


def test_none_fits_to_the_end(learner):
    learner.set_params(validation_fraction=None).fit(X, Y)
    assert learner.prior_share_ == 0
    assert learner.history_.stopped != "validation"


@pytest.fixture
def isotropic(rng):
    """Few rows of classes that differ in all features alike: Euclidean distance is right."""
    y = np.arange(90) % 3
    return 0.7 * rng.standard_normal((3, 30))[y] + rng.standard_normal((90, 30)), y


def test_what_cannot_be_learned_is_shrunk_away(learner, isotropic):
    learner.set_params(scale="unit", validation_fraction=0.2).fit(*isotropic)
    assert learner.prior_share_ > 0.3


@pytest.mark.filterwarnings("ignore:max_iter=")
def test_the_fit_is_that_of_so_many_iterations_shrunk_to_the_prior(learner):
    learner.set_params(scale="standard", validation_fraction=0.3).fit(X, Y)
    whole = clone(learner).set_params(validation_fraction=None)
    if learner.history_.stopped == "validation":
        per_iteration = len(learner.directions_) // learner.n_iter_ if cut_in_blocks(learner) else 1
        whole.set_params(max_iter=learner.n_iter_ * per_iteration)
    whole.fit(X, Y)
    assert whole.n_iter_ == learner.n_iter_
    prior = Metric(np.diag(1 / X.std(axis=0)))
    size = mean_squared_distance(whole.metric_, X) / mean_squared_distance(prior, X)
    t = learner.prior_share_
    for part, full in zip(learner.metric_.parts, whole.metric_.parts, strict=True):
        expected = t * size * prior.matrix + (1 - t) * full.matrix
        np.testing.assert_allclose(part.matrix, expected, rtol=1e-6, atol=1e-8 * size)


def cut_in_blocks(learner):
    return isinstance(learner, MetricBoost)


def test_stages_end_with_the_metric(isotropic):
    learner = BoostMetric(max_iter=30, random_state=0, validation_fraction=0.3).fit(*isotropic)
    *_, last = learner.staged_metrics()
    assert learner.prior_share_ > 0
    np.testing.assert_array_equal(last.L, learner.metric_.L)


@pytest.mark.parametrize("strategy", [RandomTriplets(600), RandomPairs(600)])
def test_constraints_are_validated_too(strategy, rng):
    noise, y = rng.standard_normal((60, 10)), rng.integers(0, 3, 60)
    constraints = strategy(noise, y, np.random.RandomState(0))
    cls = MaxMarginMetric if isinstance(strategy, RandomPairs) else BoostMetric
    learner = cls(random_state=0, validation_fraction=0.2).fit(noise, constraints)
    assert learner.prior_share_ > 0 or learner.history_.stopped == "validation"
    over = cls(random_state=0, validation_fraction=0.2).fit(noise, constraints.over(60))
    np.testing.assert_array_equal(learner.metric_.L, over.metric_.L)


def test_classes_are_held_out(rng):
    y = np.repeat(np.arange(12), 10)
    centers = rng.standard_normal((12, 6))
    points = np.hstack([centers[y], np.zeros((120, 6))]) + 0.7 * rng.standard_normal((120, 12))
    rows = BoostMetric(random_state=0).fit(points, y)
    classes = BoostMetric(random_state=0, validation="classes").fit(points, y)
    assert rows.prior_share_ != classes.prior_share_


def test_too_few_data_to_hold_out():
    learner = BoostMetric(max_iter=5).fit([[0.0], [1.0], [5.0]], [0, 0, 1])
    assert learner.prior_share_ == 0


@pytest.mark.parametrize(
    "parameters",
    [{"prior": None}, {"variant": "paper"}, {"scale": "standard"}],
    ids=lambda given: next(iter(given)),
)
def test_what_was_asked_for_is_not_validated(parameters):
    learner = BoostMetric(max_iter=20, **parameters).fit(X, Y)
    assert learner.prior_share_ == 0
    assert learner.n_iter_ == 20


def test_warm_starts_are_not_validated():
    learner = BoostMetric(max_iter=20, warm_start=True).fit(X, Y)
    learner.fit(X, Y)
    assert learner.prior_share_ == 0


def test_the_threshold_belongs_to_the_shrunk_metric(isotropic):
    points, y = isotropic
    learner = MaxMarginMetric(random_state=0, scale="unit", validation_fraction=0.2).fit(points, y)
    assert learner.prior_share_ > 0.1
    pairs = RandomPairs(1000)(points, y, np.random.RandomState(0))
    right = np.mean(learner.predict(points, pairs) == pairs.similar)
    distances = learner.metric_.pair_distances(points, pairs) ** 2
    best = max(np.mean((distances < b) == pairs.similar) for b in np.quantile(distances, Q))
    assert right > best - 0.05


Q = np.linspace(0, 1, 101)


def test_a_prior_of_ones_own_is_what_is_shrunk_to(isotropic):
    points, y = isotropic
    own = Metric(np.diag(np.linspace(1, 2, 30)))
    learner = BoostMetric(prior=own, prior_weight=0.0, validation_fraction=0.2, random_state=0)
    learner.fit(points, y)
    terms = (learner.directions_.T * learner.weights_) @ learner.directions_
    size = mean_squared_distance(Metric.from_matrix(terms), points)
    size /= mean_squared_distance(own, points)
    t = learner.prior_share_
    assert t > 0
    np.testing.assert_allclose(
        learner.metric_.matrix, t * size * own.matrix + (1 - t) * terms, rtol=1e-6, atol=1e-9
    )


def test_few_components_stay_few():
    for cls in (BoostMetric, NCA):
        learner = cls(n_components=2, validation_fraction=0.3, random_state=0).fit(X, Y)
        assert learner.metric_.n_components == 2
        assert np.linalg.matrix_rank(learner.transform(X)) == 2


class TestSelection:
    def test_a_limit_ends_a_solver(self):
        def solver():
            for number in range(10):
                yield Iteration(float(number))
            return "max_iter"

        for limit, expected in ((3, "validation"), (None, "max_iter"), (20, "max_iter")):
            history = History()
            assert len(list(history.record(solver(), limit))) <= 10
            assert history.stopped == expected
            assert len(history) == (3 if limit == 3 else 10)

    def test_all_shrinkage_is_the_prior_in_other_units(self):
        prior, learned = Metric.identity(13), Metric(np.diag(np.arange(1.0, 14)))
        shrunk = Selection(None, 1.0).shrinkage_to(prior, X, None, np.ones(13)).apply(learned)
        M = shrunk.matrix
        np.testing.assert_allclose(M, M[0, 0] * np.eye(13), atol=1e-9 * M[0, 0])
        assert mean_squared_distance(shrunk, X) == pytest.approx(mean_squared_distance(learned, X))

    def test_gated_metrics_keep_their_gate(self):
        gated = GatedMetric([Metric.identity(13)] * 2, V=np.eye(2, 13), b=[0, 1])
        shrunk = (
            Selection(None, 0.5)
            .shrinkage_to(Metric.identity(13), X, None, np.ones(13))
            .apply(gated)
        )
        np.testing.assert_array_equal(shrunk.assign(X), gated.assign(X))
        assert len(shrunk.parts) == 2


def test_kernels_are_validated_too(isotropic):
    points, y = isotropic
    learner = MaxMarginMetric(kernel="rbf", n_basis=40, random_state=0, validation_fraction=0.2)
    learner.fit(points, y)
    assert learner.prior_share_ > 0.1
    features = learner._learned_metric.feature_map
    assert learner.metric_.feature_map is features
    pairs = RandomPairs(1000)(points, y, np.random.RandomState(0))
    distances = learner.metric_.pair_distances(points, pairs) ** 2
    best = max(np.mean((distances < b) == pairs.similar) for b in np.quantile(distances, Q))
    assert np.mean(learner.predict(points, pairs) == pairs.similar) > best - 0.05


def test_a_fraction_that_cannot_be_held_out_is_said():
    with pytest.warns(ConvergenceWarning, match="no trial fit succeeded"):
        BoostMetric(validation_fraction=0.2).fit([[0.0], [1.0], [5.0]], [0, 0, 1])


def test_what_is_not_a_metric_is_not_validated():
    learner = MetricBoost(variant="paper", validation_fraction=0.2)
    with pytest.raises(ValueError, match="Only metrics can be validated"):
        learner.fit(X, Y)


def test_groups_are_not_on_both_sides(rng, monkeypatch):
    points, y = rng.standard_normal((320, 6)), np.repeat(rng.integers(0, 2, 40), 8)
    groups = np.repeat(np.arange(40), 8)
    of_row = {row.tobytes(): group for row, group in zip(points, groups, strict=True)}
    begin, seen = Trial.__init__, []

    def init(trial, X, held_out, prior, path):
        queries = {of_row[row.tobytes()] for row in held_out.queries}
        seen.append(({of_row[row.tobytes()] for row in X}, queries))
        begin(trial, X, held_out, prior, path)

    monkeypatch.setattr(Trial, "__init__", init)
    learner = BoostMetric(random_state=0, scale="unit", validation_fraction=0.2)
    learner.fit(points, y)
    assert any(known & held_out for known, held_out in seen)
    seen.clear()
    learner.fit(points, y, groups=groups)
    assert seen
    assert not any(known & held_out for known, held_out in seen)


def test_a_stage_that_is_no_better_does_not_end_trial_fits(rng):
    # DRMetric's first directions are often worse before they are better.
    labels = np.arange(90) % 3
    points = rng.standard_normal((90, 4))
    points[:, 0] += 3 * labels
    held_out = HeldOutRows.among(points, labels, np.arange(30), np.arange(30, 90), "neighbors")
    useless, useful = Metric(np.eye(4)[1:]), Metric(np.eye(4)[:1])
    path = iter([(4, Metric.identity(4)), (8, useless), (16, useful), (32, useful)])
    choice = best_choice([Trial(points[30:], held_out, Metric.identity(4), path)], patience=2)
    assert choice.n_iterations == 16
