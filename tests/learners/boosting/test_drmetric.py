"""DRMetric against a brute-force version, generic solvers and its optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

from nearfar import DRMetric, FarTargetTriplets, Metric, NearestTriplets, Triplets
from nearfar.learners.boosting.drmetric import soft_margin_of
from nearfar.learners.boosting.triplet_operator import TripletOperator
from nearfar.measures import knn_error
from problems import half_of
from references import drmetric as reference

LOADERS = {"iris": load_iris, "wine": load_wine}


def scaled(name):
    X, y = LOADERS[name](return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"independence": 0.02, "cap": 3.0, "margin_tol": 0.3},
        {"weighted": True},
        {"strategy": FarTargetTriplets(2, keep=0.5)},
    ],
    ids=["default", "other", "weighted", "far"],
)
def test_ten_iterations_equal_brute_force(name, parameters):
    X, y, _ = half_of(name)
    settings = dict(parameters)
    strategy = settings.pop("strategy", NearestTriplets(3, 2))
    triplets = strategy(X, y, np.random.RandomState(0))
    weight = None
    if settings.pop("weighted", False):
        weight = np.random.default_rng(0).uniform(0.5, 2.0, len(triplets))
        triplets = Triplets(triplets.index, weight)
    unit = TripletOperator(X, triplets, unit="long").unit
    learner = DRMetric(max_iter=10, record_weights=True, tol=0.0, scale="unit", **settings)
    learner.fit(X, triplets)
    assert_equal_iterations(learner, X, triplets, unit=unit, weight=weight, **settings)


def assert_equal_iterations(learner, X, triplets, **settings):
    expected = reference.run(X, triplets.index, n_rounds=learner.n_iter_, **settings)
    assert learner.n_iter_ >= 3
    for ours, theirs in zip(learner.history_, expected, strict=True):
        new = ours.payload
        sign = np.sign(new.directions[0] @ theirs.direction)
        np.testing.assert_allclose(sign * new.directions[0], theirs.direction, atol=1e-8)
        np.testing.assert_allclose(new.constraint_weights, theirs.d, atol=1e-8)
        assert -ours.objective == pytest.approx(theirs.value, abs=1e-9)
        assert ours.eigenvalue == pytest.approx(theirs.eigenvalue, abs=1e-9)
        M = np.einsum(
            "l,li,lj",
            new.all_weights,
            *[[r.payload.directions[0] for r in learner.history_][: len(new.all_weights)]] * 2,
        )
        np.testing.assert_allclose(M, theirs.M, atol=1e-8)
        np.testing.assert_allclose(new.all_weights, theirs.w, atol=1e-8)


@pytest.mark.filterwarnings("ignore:The soft margin")
@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("solver", ["entropy", "lp"])
def test_the_paper_variant_equals_brute_force(name, solver):
    X, _, triplets = half_of(name)
    learner = DRMetric(
        max_iter=6, solver=solver, variant="paper", record_weights=True, scale="unit"
    ).fit(X, triplets)
    assert learner.n_iter_ == 6
    expected = reference.run(
        X, triplets.index, n_rounds=6, weights=solver, as_printed=True, independence=0.1
    )
    for ours, theirs in zip(learner.history_, expected, strict=True):
        assert -ours.objective == pytest.approx(theirs.value, abs=1e-9)
        np.testing.assert_allclose(ours.payload.constraint_weights, theirs.d, atol=1e-7)
        assert ours.eigenvalue == pytest.approx(theirs.eigenvalue, abs=1e-7)
    assert learner.triplet_weights_[-1].sum() < 1 - 1e-3


class TestFit:
    @pytest.mark.parametrize("name", LOADERS)
    @pytest.mark.parametrize("solver", ["entropy", "lp"])
    def test_weights_stay_in_the_capped_simplex(self, name, solver):
        X, y = LOADERS[name](return_X_y=True)
        learner = DRMetric(scale="standard", solver=solver, record_weights=True, cap=3.0).fit(X, y)
        d = learner.triplet_weights_
        assert d.shape == (learner.n_iter_, len(learner.triplets_))
        np.testing.assert_allclose(d.sum(axis=1), 1.0, atol=1e-12)
        assert d.min() >= 0
        assert d.max() <= 3.0 / d.shape[1] + 1e-12
        assert (d == 3.0 / d.shape[1]).any()

    @pytest.mark.parametrize("solver", ["entropy", "lp"])
    def test_trace_one_and_psd(self, solver):
        X, y = scaled("wine")
        learner = DRMetric(scale=None, solver=solver).fit(X, y)
        M = learner.metric_.matrix
        assert np.trace(M) == pytest.approx(1.0, abs=1e-12)
        assert np.linalg.eigvalsh(M).min() > -1e-12
        assert learner.weights_.sum() == pytest.approx(1.0, abs=1e-12)
        rebuilt = (learner.directions_.T * learner.weights_) @ learner.directions_
        np.testing.assert_allclose(rebuilt, M, atol=1e-12)

    def test_objective_falls_and_stages_lead_to_the_end(self):
        X, y = load_wine(return_X_y=True)
        learner = DRMetric(scale="standard").fit(X, y)
        assert (np.diff(learner.history_.objective) <= 1e-12).all()
        assert learner.margin_ == pytest.approx(-learner.history_.objective[-1], abs=1e-10)
        *_, last = learner.staged_metrics()
        np.testing.assert_allclose(last.matrix, learner.metric_.matrix, atol=1e-12)
        assert len(list(learner.staged_metrics())) == learner.n_iter_

    def test_overlap_falls_as_independence_grows(self):
        X, y = load_wine(return_X_y=True)
        overlaps = []
        for independence in (0.0, 0.1, 1.0):
            learner = DRMetric(
                independence=independence, scale="standard", max_iter=8, tol=0.0
            ).fit(X, y)
            U = np.array([r.payload.directions[0] for r in learner.history_][:5])
            assert len(U) == 5
            overlaps.append((np.triu(U @ U.T, 1) ** 2).sum())
        assert overlaps[0] > 1.5 * overlaps[1] > 3 * overlaps[2]

    def test_gap_bounds_the_best_of_all_metrics(self):
        X, y = scaled("iris")
        short = DRMetric(scale="standard", max_iter=2, independence=0.0).fit(X, y)
        long = DRMetric(scale="standard", max_iter=300, independence=0.0, tol=1e-12).fit(X, y)
        assert long.gap_ <= 1e-6
        assert short.margin_ <= long.margin_ + 1e-12
        assert long.margin_ <= short.margin_ + short.gap_ + 1e-12

    def test_a_doubled_weight_is_a_repeated_triplet(self):
        X, y = scaled("iris")
        triplets = NearestTriplets(2, 2)(X, y)
        weight = np.ones(len(triplets))
        weight[::7] = 2.0
        repeated = Triplets(np.concatenate([triplets.index, triplets.index[::7]]))
        once = DRMetric(scale="standard").fit(X, Triplets(triplets.index, weight))
        twice = DRMetric(scale="standard").fit(X, repeated)
        np.testing.assert_allclose(once.metric_.matrix, twice.metric_.matrix, atol=1e-9)

    @pytest.mark.parametrize("solver", ["entropy", "lp"])
    def test_directions_without_variance_are_left_out(self, solver):
        X, y = load_digits(return_X_y=True)
        X, y = X[:300], y[:300]
        assert (X.std(axis=0) == 0).any()
        constraints = FarTargetTriplets(3, keep=0.3)
        learner = DRMetric(solver=solver, constraints=constraints, scale="standard", max_iter=8)
        embedded = learner.set_params(random_state=0).fit(X, y).transform(X)
        still = X.std(axis=0) == 0
        assert embedded.std(axis=0).min() > 0
        assert np.abs(learner.directions_[:, still]).max() < 1e-8

    def test_contradictory_triplets_warn(self, rng):
        X = rng.standard_normal((12, 3))
        index = NearestTriplets()(X, np.arange(12) % 2).index
        both_ways = Triplets(np.concatenate([index, index[:, [0, 2, 1]]]))
        with pytest.warns(ConvergenceWarning, match="not positive"):
            DRMetric(scale="standard", solver="lp").fit(X, both_ways)
        assert np.isfinite(DRMetric(scale="standard").fit(X, both_ways).metric_.matrix).all()

    def test_prior(self):
        X, y = scaled("wine")
        learner = DRMetric(prior="identity", prior_weight=0.5, scale=None).fit(X, y)
        M = learner.metric_.matrix
        assert np.trace(M) == pytest.approx(1.5, abs=1e-10)
        terms = (learner.directions_.T * learner.weights_) @ learner.directions_
        np.testing.assert_allclose(M, 0.5 / 13 * np.eye(13) + terms, atol=1e-12)

    def test_the_prior_counts_in_the_margins(self):
        X, y = scaled("iris")
        triplets = NearestTriplets()(X, y)
        learner = DRMetric(prior="identity", prior_weight=2.0, scale=None, record_weights=True)
        learner.fit(X, triplets)
        operator = TripletOperator(X, triplets, unit=1.0)
        offset = operator.factor_margins(np.sqrt(2.0 / 4) * np.eye(4))
        soft = soft_margin_of(triplets, 4, cap=10.0, margin_tol=0.1)
        last = learner.history_[-1]
        V = np.array([operator.margins(r.payload.directions[0]) for r in learner.history_])
        value, d = soft.evaluate(offset + last.payload.all_weights @ V)
        assert learner.margin_ == pytest.approx(-value, rel=1e-9)
        np.testing.assert_allclose(d, last.payload.constraint_weights, atol=1e-12)
        edges = V @ d
        assert edges.max() - edges @ last.payload.all_weights < 1e-9 * np.abs(V).max()
        gap = np.linalg.eigvalsh(operator.matrix(d))[-1] - d @ (last.payload.all_weights @ V)
        assert learner.gap_ == pytest.approx(gap, rel=1e-6, abs=1e-12)

    def test_few_triplets_and_sharp_margins(self):
        for seed in range(12):
            rng = np.random.default_rng(seed)
            n, D = int(rng.integers(4, 12)), int(rng.integers(1, 8))
            X = rng.standard_normal((n, D))
            number = int(rng.integers(1, 12))
            triplets = Triplets([rng.permutation(n)[:3] for _ in range(number)])
            learner = DRMetric(scale="standard", margin_tol=1e-4).fit(X, triplets)
            assert (np.diff(learner.history_.objective) < 1e-9).all()
        learner = DRMetric(scale="standard", margin_tol=3e-6).fit(*load_wine(return_X_y=True))
        assert np.isfinite(learner.metric_.L).all()

    def test_weights_of_any_size(self):
        X, y = scaled("iris")
        triplets = NearestTriplets(1, 1)(X, y)
        weight = np.ones(len(triplets))
        weight[:3] = 1e-320, 1e100, 1e10
        assert np.isfinite(
            DRMetric(scale="standard").fit(X, Triplets(triplets.index, weight)).metric_.L
        ).all()

    def test_float32_keeps_thin_directions(self, rng):
        n = 20_000
        y = np.arange(n) % 2
        f = rng.standard_normal(n)
        thin = f + 0.04 * (2 * y - 1) + 0.005 * rng.standard_normal(n)
        X = np.column_stack([f, thin, rng.standard_normal(n)]).astype(np.float32)
        triplets = NearestTriplets(1, 1)(X[:4000], y[:4000])
        single = DRMetric(scale="standard").fit(X, triplets)
        double = DRMetric(scale="standard").fit(X.astype(np.float64), triplets)
        assert single.margin_ == pytest.approx(double.margin_, rel=1e-3)
        assert single.score(X, triplets) == pytest.approx(double.score(X, triplets), abs=1e-3)

    def test_linear_programmes_stop_when_a_direction_gets_no_weight(self):
        X, y = load_wine(return_X_y=True)
        learner = DRMetric(solver="lp", scale="standard").fit(X, y)
        assert learner.history_.stopped == "converged"
        assert np.isnan(learner.gap_)
        assert learner.margin_ == -learner.history_.objective[-1]
        assert learner.history_.step[-1] > 0

    def test_wide_points(self, rng):
        X = rng.standard_normal((30, 80))
        y = np.arange(30) % 3
        learner = DRMetric(scale="standard").fit(X, y)
        assert learner.n_iter_ <= 29
        rotation = np.linalg.qr(rng.standard_normal((80, 80)))[0]
        rotated = DRMetric(scale="unit").fit(X @ rotation, y)
        straight = DRMetric(scale="unit").fit(X, y)
        np.testing.assert_allclose(
            straight.metric_.distances(X), rotated.metric_.distances(X @ rotation), rtol=1e-5
        )

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"cap": 0.5}, "cap must be"),
            ({"margin_tol": 0.0}, "margin_tol"),
            ({"independence": -1}, "independence"),
            ({"solver": "svm"}, "solver must be"),
            ({"max_iter": 0}, "max_iter"),
        ],
    )
    def test_bad_parameters(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            DRMetric(**parameters).fit(*load_iris(return_X_y=True))

    def test_weights_are_kept_only_when_asked_for(self):
        learner = DRMetric(scale="standard").fit(*load_iris(return_X_y=True))
        assert not hasattr(learner, "triplet_weights_")
        assert all(r.payload.constraint_weights is None for r in learner.history_)


def test_one_triplet_and_a_cap_that_leaves_no_choice():
    X = np.array([[0.0, 0.0], [1.0, 0.1], [0.2, 2.0]])
    learner = DRMetric(scale="unit").fit(X, Triplets([[0, 1, 2]]))
    assert np.isfinite(learner.metric_.matrix).all()
    assert learner.score(X, Triplets([[0, 1, 2]])) == 1.0
    X, y = scaled("iris")
    fixed = DRMetric(scale="standard", cap=1.0, record_weights=True).fit(X, y)
    np.testing.assert_allclose(fixed.triplet_weights_, 1 / len(fixed.triplets_), rtol=1e-12)
    assert fixed.n_iter_ == 1


def test_c_of_uniform_weights():
    triplets = Triplets([[0, 1, 2], [1, 0, 2], [2, 1, 0]])
    soft = soft_margin_of(triplets, 4, cap=2.0, margin_tol=0.1)
    assert soft.sharpness == pytest.approx(2 * np.log(12) / 0.1, rel=1e-12)
    assert soft.cap == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", ["iris", "wine", "wdbc", "vehicle"])
def test_no_worse_than_euclidean_distance(name, data_folder):
    data = np.load(data_folder / f"{name}.npz", allow_pickle=False)
    X, y = data["X"], data["y"]
    rng = np.random.default_rng(0)
    excess = []
    for _ in range(3):
        order = rng.permutation(len(X))
        train, test = order[: int(0.7 * len(X))], order[int(0.7 * len(X)) :]
        learned = DRMetric(scale="standard").fit(X[train], y[train]).metric_
        plain = Metric(np.diag(1 / np.maximum(X[train].std(axis=0), 1e-9)))
        excess.append(
            knn_error(learned, X[train], y[train], X[test], y[test])
            - knn_error(plain, X[train], y[train], X[test], y[test])
        )
    assert np.mean(excess) <= 0.01
