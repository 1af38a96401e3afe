"""MetricBoost against the brute-force list of all triplets, its theorem, and its formulas."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from nearfar import (
    AllTriplets,
    BoostMetric,
    Metric,
    MetricBoost,
    NearestTriplets,
    Pairs,
    RandomTriplets,
    Triplets,
)
from nearfar.learners.boosting import all_triplets_operator, metricboost
from nearfar.learners.boosting.all_triplets_operator import AllTripletsOperator
from nearfar.measures import triplet_accuracy
from problems import half_of
from references import metricboost as reference

LETTER = {"prior": None, "scale": None, "tol": 0.0}
RESPONSES = ["real", "normalized", "binary"]


def problem(n_classes, step=4):
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)[::step, :6]
    y = y[::step]
    keep = y < n_classes
    return X[keep], y[keep]


def margins(learner, X, triplets):
    """Far minus near of H, recomputed from the fitted attributes."""
    p = X @ learner.directions_.T
    square = [(p[triplets[:, 0]] - p[triplets[:, j]]) ** 2 for j in (1, 2)]
    if learner.response == "binary":
        square = [(s >= learner.thresholds_) * 1.0 for s in square]
        return (square[1] - square[0]) @ learner.alphas_
    return (square[1] - square[0]) @ learner.weights_


@pytest.mark.parametrize("response", RESPONSES)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("constraints", [None, NearestTriplets(2, 3)])
def test_agrees_with_brute_force(response, n_classes, constraints):
    X, y = problem(n_classes)
    triplets = AllTriplets()(X, y) if constraints is None else constraints(X, y)
    brute = reference.boost(X, triplets.index, response=response, max_iter=12)
    learner = MetricBoost(**LETTER, response=response, max_iter=12, constraints=constraints)
    learner.fit(X, y)
    clear = int(np.sum(brute.eigenvalues > 1e-5 * brute.eigenvalues[0]))
    if response == "real":
        assert clear <= learner.n_iter_ <= len(brute.alphas)
    else:
        assert learner.n_iter_ == len(brute.alphas) == clear
    same = slice(0, clear)
    largest = np.abs(brute.alphas).max()
    np.testing.assert_allclose(learner.alphas_[same], brute.alphas[same], atol=1e-10 * largest)
    first = brute.eigenvalues[0]
    np.testing.assert_allclose(
        learner.history_.eigenvalue[same], brute.eigenvalues[same], atol=1e-10 * first
    )
    np.testing.assert_allclose(learner.history_.objective[same], brute.objectives[same], atol=1e-10)
    overlap = np.abs((learner.directions_ * brute.directions[: learner.n_iter_]).sum(axis=1))
    np.testing.assert_allclose(overlap[same], 1.0, atol=1e-10)
    M = learner.metric_.matrix
    np.testing.assert_allclose(M / np.trace(M), brute.M / np.trace(brute.M), atol=1e-10)
    ours = margins(learner, X, triplets.index)
    D = np.exp(-ours - np.max(-ours))
    np.testing.assert_allclose(D / D.sum(), brute.D, atol=1e-10)
    np.testing.assert_allclose(ours, brute.margins, atol=1e-9 * np.abs(brute.margins).max())
    if response == "binary":
        np.testing.assert_allclose(learner.thresholds_, brute.thresholds, rtol=1e-9)


MODELS = [(response, "gaussian") for response in RESPONSES] + [("binary", "exact")]


@pytest.mark.parametrize(("response", "threshold"), MODELS)
def test_signed_form_agrees_with_brute_force(response, threshold, monkeypatch):
    X, y = problem(3)
    triplets = AllTriplets()(X, y).index
    options = {"response": response, "threshold": threshold, "max_iter": 8}
    brute = reference.boost(X, triplets, **options, psd=False)
    settings = MetricBoost.paper_settings | {"threshold": threshold}
    monkeypatch.setattr(MetricBoost, "paper_settings", settings)
    learner = MetricBoost(**options, variant="paper", tol=0.0).fit(X, y)
    np.testing.assert_allclose(learner.alphas_, brute.alphas, rtol=1e-10)
    scale = np.abs(brute.M).max() / np.abs(learner.metric_.matrix).max()
    np.testing.assert_allclose(scale * learner.metric_.matrix, brute.M, atol=1e-10)
    preferred = learner.metric_.prefers(X, triplets)
    clear = np.abs(brute.margins) > 1e-9
    np.testing.assert_array_equal(preferred[clear], (brute.margins > 0)[clear])
    assert learner.score(X, Triplets(triplets)) == preferred.mean()


def test_gaussian_threshold_agrees_with_brute_force():
    X, y = problem(3)
    triplets = AllTriplets()(X, y).index
    options = {"response": "binary", "threshold": "gaussian", "max_iter": 10}
    brute = reference.boost(X, triplets, **options)
    learner = MetricBoost(**LETTER, **options).fit(X, y)
    np.testing.assert_allclose(learner.thresholds_, brute.thresholds, rtol=1e-10)
    np.testing.assert_allclose(learner.alphas_, brute.alphas, rtol=1e-10)


@pytest.mark.parametrize("response", RESPONSES)
def test_theorem_1(response):
    X, y = problem(3)
    triplets = AllTriplets()(X, y).index
    learner = MetricBoost(**LETTER, response=response, max_iter=20).fit(X, y)
    bound = np.exp(learner.history_.objective - np.log(len(triplets)))
    for number in range(1, learner.n_iter_ + 1):
        short = MetricBoost(**LETTER, response=response, max_iter=number).fit(X, y)
        error = np.mean(margins(short, X, triplets) <= 0)
        assert error <= bound[number - 1] + 1e-12
    assert (np.diff(bound) <= 1e-12).all()


def test_closed_forms():
    X, y = problem(2)
    normal = MetricBoost(**LETTER, response="normalized", max_iter=5).fit(X, y)
    C2 = ((X[:, None] - X[None]) ** 2).sum(-1).max()
    r = normal.history_.eigenvalue / C2
    np.testing.assert_allclose(normal.alphas_, np.log((1 + r) / (1 - r)) / 2, rtol=1e-12)


def test_real_on_listed_triplets_is_boostmetric_without_penalty():
    X, y = problem(3)
    triplets = NearestTriplets()(X, y)
    for prior in (None, "identity"):
        ours = MetricBoost(scale="standard", prior=prior, max_iter=25).fit(X, triplets)
        theirs = BoostMetric(scale="standard", prior=prior, penalty=0.0, max_iter=25).fit(
            X, triplets
        )
        np.testing.assert_allclose(ours.metric_.matrix, theirs.metric_.matrix, rtol=1e-7)


def test_all_triplets_from_a_prior_equal_the_list():
    X, y = problem(3)
    prior = Metric(np.diag(np.arange(1.0, 7.0)))
    tiled = MetricBoost(scale="standard", prior=prior, max_iter=15, block_size=1).fit(X, y)
    listed = MetricBoost(scale="standard", prior=prior, max_iter=15).fit(X, AllTriplets()(X, y))
    np.testing.assert_allclose(tiled.metric_.matrix, listed.metric_.matrix, rtol=1e-8)


class TestSignedForm:
    def test_refuses_what_needs_a_metric(self):
        X, y = problem(2)
        learner = MetricBoost(variant="paper", max_iter=10).fit(X, y)
        assert (learner.weights_ < 0).any()
        with pytest.raises(AttributeError, match="not a metric"):
            learner.transform(X)
        with pytest.raises(AttributeError, match="not a metric"):
            _ = learner.components_
        with pytest.raises(AttributeError, match="not a metric"):
            learner.metric_.save("form.safetensors")
        index = NearestTriplets()(StandardScaler().fit_transform(X), y).index
        assert learner.score(X, y) == learner.metric_.prefers(X, index).mean()
        with pytest.raises(AttributeError, match="not a metric"):
            learner.get_feature_names_out()
        with pytest.raises(ValueError, match="n_components"):
            MetricBoost(variant="paper", n_components=2).fit(X, y)

    def test_matrix_is_the_sum_of_terms(self):
        X, y = problem(2)
        learner = MetricBoost(variant="paper", max_iter=10).fit(X, y)
        total = (learner.directions_.T * learner.weights_) @ learner.directions_
        np.testing.assert_allclose(learner.metric_.matrix, total, atol=1e-10)


class TestGridData:
    @pytest.mark.parametrize("variant", ["default", "paper"])
    def test_the_votes_are_those_that_were_trained(self, variant, monkeypatch):
        monkeypatch.setattr(MetricBoost, "paper_settings", {})
        for seed in range(8):
            rng = np.random.default_rng(seed)
            X, y = rng.integers(0, 4, (40, 4)).astype(float), rng.integers(0, 3, 40)
            X[:, 0] += y == 1
            options = {"response": "binary", "prior": None, "max_iter": 6, "variant": variant}
            options["scale"] = "standard"
            tiled = MetricBoost(**options).fit(X, y)
            triplets = AllTriplets()(X, y)
            votes = tiled.metric_.votes
            a, near, far = triplets.index.T
            H = votes.count(X, a, far) - votes.count(X, a, near)
            assert np.log(np.exp(-H).sum()) == pytest.approx(tiled.history_.objective[-1], abs=1e-9)
            listed = MetricBoost(**options).fit(X, triplets)
            np.testing.assert_allclose(tiled.alphas_, listed.alphas_, rtol=1e-8)


def test_gaussian_threshold_with_singletons_and_points():
    rng = np.random.default_rng(0)
    y = np.concatenate([np.repeat([0, 1], 10), np.arange(2, 12)])
    X = rng.standard_normal((30, 3)) + 0.5 * (y == 1)[:, None]
    options = {"response": "binary", "threshold": "gaussian", "prior": None, "scale": None}
    tiled = MetricBoost(**options, max_iter=3).fit(X, y)
    listed = MetricBoost(**options, max_iter=3).fit(X, AllTriplets()(X, y))
    np.testing.assert_allclose(tiled.thresholds_, listed.thresholds_, rtol=1e-9)
    X = np.repeat([[0.0, 0.0], [1.0, 3.0], [5.0, 1.0]], 4, axis=0)
    y = np.repeat([0, 1, 2], 4)
    assert MetricBoost(**options).fit(X, y).score(X, y) == 1.0


class TestVotes:
    def test_votes_order_triplets_and_survive_saving(self, tmp_path):
        X, y = problem(3)
        triplets = RandomTriplets(500)(X, y, np.random.RandomState(0))
        learner = MetricBoost(response="binary", prior=None, max_iter=15, scale="unit").fit(X, y)
        H = margins(learner, X, triplets.index)
        distances = learner.metric_.distances(X) ** 2
        a, near, far = triplets.index.T
        by_metric = distances[a, far] - distances[a, near]
        decided = np.abs(H) > 1e-9
        expected = np.where(decided, H > 0, by_metric > 0)
        np.testing.assert_array_equal(learner.metric_.prefers(X, triplets.index), expected)
        assert triplet_accuracy(learner.metric_, X, triplets) == pytest.approx(expected.mean())
        learner.metric_.save(tmp_path / "votes.safetensors")
        loaded = Metric.load(tmp_path / "votes.safetensors")
        np.testing.assert_array_equal(loaded.prefers(X, triplets.index), expected)
        assert loaded.votes.thresholds.tobytes() == learner.metric_.votes.thresholds.tobytes()

    def test_a_direction_that_returns_ends_the_boosting(self):
        X = np.column_stack([np.arange(12.0) * 1000, np.arange(12.0) % 3])
        y = (np.arange(12) % 4 > 1).astype(int)
        learner = MetricBoost(**LETTER, response="binary", max_iter=50)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner.fit(X, y)
        assert learner.n_iter_ < 50
        overlap = np.abs((learner.directions_[1:] * learner.directions_[:-1]).sum(axis=1))
        assert (overlap <= 1 - 1e-6).all()


@pytest.mark.parametrize("response", RESPONSES)
class TestDegenerate:
    def fit(self, response, X, y, **parameters):
        learner = MetricBoost(response=response, max_iter=10, **parameters).fit(X, y)
        assert np.isfinite(learner.metric_.L).all()
        assert np.isfinite(learner.history_.objective).all()
        return learner

    def test_a_class_of_one(self, response, rng):
        self.fit(response, rng.standard_normal((20, 3)), np.repeat([0, 1, 2], [1, 9, 10]))

    def test_identical_points(self, response, rng):
        X = rng.standard_normal((20, 3))
        X[::2] = X[0]
        self.fit(response, X, np.arange(20) % 2)
        self.fit(response, np.ones((8, 2)), np.arange(8) % 2)

    def test_separable(self, response, rng):
        y = np.arange(40) % 2
        X = rng.standard_normal((40, 3)) + 50 * y[:, None]
        learner = self.fit(response, X, y)
        assert learner.score(X, y) == 1.0

    def test_a_hundred_classes(self, response, rng):
        y = np.arange(300) % 100
        X = 3 * rng.standard_normal((100, 5))[y] + rng.standard_normal((300, 5))
        triplets = AllTriplets()(X, y)
        learner = self.fit(response, X, y, prior=None)
        bound = np.exp(learner.history_.objective[-1] - np.log(len(triplets)))
        assert 1 - learner.score(X, triplets) <= bound < 1

    def test_float32(self, response):
        X, y = load_iris(return_X_y=True)
        double = self.fit(response, X, y)
        single = self.fit(response, X.astype(np.float32), y)
        assert single.history_.objective[-1] == pytest.approx(
            double.history_.objective[-1], rel=1e-4
        )

    def test_pairs(self, response, rng):
        X = rng.standard_normal((20, 3))
        pairs = Pairs([[0, 1], [0, 2], [3, 4], [4, 5]], [True, False, False, True])
        self.fit(response, X, pairs)


class TestBlocks:
    """Several directions per iteration, on half of a standardised wine set."""

    X, y, _ = half_of("wine")

    def fit(self, **parameters):
        given = {"tol": 0.0, "block_size": 5, "scale": "standard"} | parameters
        return MetricBoost(**given).fit(self.X, self.y)

    def start(self, prior):
        """Loss before the first iteration."""
        operator = AllTripletsOperator(self.X, self.y)
        if prior is None:
            return operator.loss_and_weights(operator.start())[0]
        return operator.loss_and_weights(operator.prior_state(None, 0.3)[0])[0]

    @pytest.mark.parametrize("prior", [None, "identity"])
    def test_as_good_as_single_directions(self, prior):
        """The decrease is at least 90 % of theirs after 20 directions, and 99.5 % after 60."""
        start = self.start(prior)
        for number, share in ((20, 0.9), (60, 0.995)):
            single = self.fit(prior=prior, block_size=1, max_iter=number)
            blocks = self.fit(prior=prior, max_iter=number)
            assert blocks.n_iter_ <= number / 5
            losses = np.append(start, blocks.history_.objective)
            assert (np.diff(losses) < 0).all()
            decrease = start - single.history_.objective[-1]
            assert start - losses[-1] >= share * decrease

    def test_terms_add_up_to_the_metric(self):
        learner = self.fit(prior=None, scale=None, max_iter=15)
        assert learner.directions_.shape == (15, 13)
        np.testing.assert_allclose(np.linalg.norm(learner.directions_, axis=1), 1.0)
        assert (learner.weights_ >= 0).all()
        M = (learner.directions_.T * learner.weights_) @ learner.directions_
        np.testing.assert_allclose(learner.metric_.matrix, M, atol=1e-12)
        np.testing.assert_allclose(learner.alphas_, learner.weights_)
        assert np.linalg.eigvalsh(M).min() > -1e-12
        H = margins(learner, self.X, AllTriplets()(self.X, self.y).index)
        loss = np.log(np.exp(-H).sum())
        assert learner.history_.objective[-1] == pytest.approx(loss, rel=1e-10)

    def test_terms_are_added_to_the_prior(self):
        X = self.X * np.linspace(0.1, 10, 13)
        learner = MetricBoost(tol=0.0, block_size=5, max_iter=10, scale="standard")
        learner.fit(X, self.y)
        terms = (learner.directions_.T * learner.weights_) @ learner.directions_
        rest = (learner.metric_.matrix - terms) * np.outer(X.std(axis=0), X.std(axis=0))
        np.testing.assert_allclose(rest, rest[0, 0] * np.eye(13), atol=1e-10)
        assert rest[0, 0] > 0
        assert np.linalg.eigvalsh(learner.metric_.matrix).min() > 0

    def test_stages(self):
        learner = self.fit(max_iter=20)
        stages = list(learner.staged_metrics())
        assert len(stages) == learner.n_iter_ == 4
        for number, stage in enumerate(stages, start=1):
            short = self.fit(max_iter=5 * number).metric_
            np.testing.assert_allclose(stage.matrix, short.matrix, rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("prior", [None, "identity"])
    def test_warm_start_continues(self, prior):
        whole = self.fit(prior=prior, max_iter=20)
        learner = MetricBoost(
            scale="standard", prior=prior, tol=0.0, block_size=5, max_iter=10, warm_start=True
        )
        first = len(learner.fit(self.X, self.y).directions_)
        learner.fit(self.X, self.y)
        assert learner.history_.objective[-1] == pytest.approx(whole.history_.objective[-1])
        np.testing.assert_allclose(learner.metric_.matrix, whole.metric_.matrix, rtol=1e-6)
        assert first + len(learner.directions_) == len(whole.directions_)
        single = learner.set_params(block_size=1).fit(self.X, self.y)
        assert len(single.directions_) == 10
        assert single.history_.objective[0] < whole.history_.objective[-1]

    def test_blocks_are_for_real_responses_and_a_prior(self):
        blocks = self.fit(block_size=10, max_iter=20)
        auto = self.fit(block_size="auto", max_iter=20)
        assert auto.n_iter_ == 2
        assert auto.metric_.L.tobytes() == blocks.metric_.L.tobytes()
        from_zero = self.fit(block_size="auto", prior=None, max_iter=20)
        single = self.fit(block_size=1, prior=None, max_iter=20)
        assert from_zero.metric_.L.tobytes() == single.metric_.L.tobytes()
        for response in ("normalized", "binary"):
            assert self.fit(block_size="auto", response=response, max_iter=3).n_iter_ == 3

    def test_many_points_are_summed_in_single_precision(self, monkeypatch):
        single = self.fit(block_size=1, max_iter=8).history_.objective
        monkeypatch.setattr(metricboost, "_EXACT_ROWS", len(self.X) - 1)
        again = self.fit(block_size=1, max_iter=8).history_.objective
        assert (again != single).any()
        np.testing.assert_allclose(again, single, rtol=1e-5)

    def test_separable_points_in_single_precision(self, monkeypatch):
        """The loss falls by hundreds in one iteration, and is still that of all triplets."""
        monkeypatch.setattr(metricboost, "_EXACT_ROWS", 10)
        y = np.arange(60) % 3
        X = np.random.default_rng(0).standard_normal((60, 4)) + 30 * np.eye(4)[y]
        learner = MetricBoost(prior=None, scale=None, block_size=10).fit(X, y)
        assert learner.history_.stopped == "separated"
        H = margins(learner, X, AllTriplets()(X, y).index)
        loss = np.max(-H) + np.log(np.exp(-H - np.max(-H)).sum())
        assert loss < -200
        assert learner.history_.objective[-1] == pytest.approx(loss, rel=1e-3)

    def test_only_all_triplets_of_labels_have_blocks(self):
        triplets = NearestTriplets()(self.X, self.y)
        for y, parameters in (
            (triplets, {}),
            (self.y, {"constraints": NearestTriplets()}),
            (self.y, {"response": "binary"}),
            (self.y, {"variant": "paper"}),
        ):
            with pytest.raises(ValueError, match='block_size must be "auto" or 1'):
                MetricBoost(block_size=2, **parameters).fit(self.X, y)
            assert MetricBoost(block_size=1, max_iter=2, **parameters).fit(self.X, y).n_iter_ == 2


def test_bad_parameters():
    X, y = problem(2)
    for parameters in (
        {"response": "logistic"},
        {"threshold": "best"},
        {"variant": "printed"},
        {"max_iter": 0},
        {"block_size": 0},
        {"block_size": "large"},
    ):
        (name,) = parameters
        with pytest.raises(ValueError, match=f"{name} must be"):
            MetricBoost(**parameters).fit(X, y)


@pytest.mark.filterwarnings("ignore:max_iter")
def test_spare_rows_of_the_map_change_nothing(monkeypatch):
    X, y = load_wine(return_X_y=True)
    learner = MetricBoost(max_iter=5, scale="standard", random_state=0)
    matrix = learner.fit(X, y).metric_.matrix
    monkeypatch.setattr(all_triplets_operator, "_MANY_FEATURES", 1)
    np.testing.assert_allclose(learner.fit(X, y).metric_.matrix, matrix, rtol=1e-8, atol=1e-10)
