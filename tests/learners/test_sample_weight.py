"""`sample_weight`: a row counts as often as its weight says.

In scatter matrices a row of weight w is w equal rows. Elsewhere the neighbours of a row are found
without weights, and its weight multiplies the terms of the objective that it is the anchor of.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.datasets import load_diabetes, load_iris
from sklearn.metrics import r2_score, roc_auc_score

from nearfar import (
    DCA,
    GMML,
    ITML,
    KISSME,
    LDA,
    LFDA,
    LMNN,
    LSML,
    MLKR,
    MMC,
    NCA,
    PLDA,
    RCA,
    XQDA,
    AllTriplets,
    AutoMetric,
    BoostMetric,
    Chunklets,
    DRMetric,
    FarTargetTriplets,
    ForestMetric,
    FrobMetric,
    InverseCovariance,
    MaxMarginMetric,
    MetricBoost,
    MetricNeighborsClassifier,
    MetricNeighborsRegressor,
    MixtureNCA,
    NearestTriplets,
    Pairs,
    PiecewiseMetric,
    PSDBoost,
    RandomPairs,
    RandomTriplets,
    SparseNCA,
    Triplets,
)
from nearfar.learners.base import known_learners
from nearfar.learners.boosting.all_triplets_operator import AllTripletsOperator
from nearfar.learners.boosting.triplet_operator import TripletOperator
from nearfar.learners.classic import impostors, lmnn
from nearfar.learners.classic.mlkr import LeaveOneOutRegression
from nearfar.learners.nca.mixture_nca import Mixture, MixtureModel
from nearfar.learners.nca.soft_neighbors import SoftNeighbors
from nearfar.learners.scaling import Scaler
from nearfar.learners.selection.held_out import held_out_parts
from nearfar.learners.selection.scale import choose_scale
from nearfar.metrics.metric import Metric
from nearfar.supervision import Supervision

X, Y = (part[::3] for part in load_iris(return_X_y=True))
N = len(X)
NUMBERS = X[:, 0] + 0.3 * X[:, 1] ** 2
COUNTS = np.random.RandomState(0).randint(0, 4, N)
REPEATED = np.repeat(np.arange(N), COUNTS)
WEIGHT = np.random.RandomState(1).uniform(0.2, 3.0, N)

SCATTER = [DCA, GMML, InverseCovariance, KISSME, LDA, PLDA, RCA, XQDA]
"""Metrics of scatter matrices, in which rows that are repeated have no neighbours."""

OF_TRIPLETS = {
    BoostMetric: NearestTriplets(),
    DRMetric: FarTargetTriplets(3, keep=1.0),
    FrobMetric: NearestTriplets(2, 2),
    LSML: RandomTriplets(300),
    MetricBoost: RandomTriplets(300),
    PSDBoost: NearestTriplets(2, 2),
}
OF_PAIRS = [ITML, MaxMarginMetric, MMC]


def made(cls, **parameters):
    fixed = {"scale": "standard", "random_state": 0, "validation_fraction": None, "max_iter": 30}
    if cls is AutoMetric:
        fixed["candidates"] = ["LDA", "NCA"]
    return cls(**{k: v for k, v in fixed.items() if k in cls().get_params()} | parameters)


def target(cls):
    return Y if "labels" in cls.supervision else NUMBERS


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cls", known_learners().values(), ids=lambda cls: cls.__name__)
class TestAllLearners:
    def test_ones_change_no_bit(self, cls):
        plain = made(cls).fit(X, target(cls)).transform(X)
        ones = made(cls).fit(X, target(cls), sample_weight=np.ones(N)).transform(X)
        np.testing.assert_array_equal(ones, plain)

    def test_zeros_leave_rows_out(self, cls):
        kept = np.flatnonzero(np.arange(N) % 5)
        zeros = made(cls).fit(X, target(cls), sample_weight=np.minimum(np.arange(N) % 5, 1))
        without = made(cls).fit(X[kept], target(cls)[kept])
        np.testing.assert_array_equal(zeros.transform(X), without.transform(X))

    def test_weights_matter(self, cls):
        plain = made(cls).fit(X, target(cls)).metric_
        weighted = made(cls).fit(X, target(cls), sample_weight=WEIGHT**3).metric_
        pairs = RandomPairs(200)(X, Y, 0)
        d, e = (metric.pair_distances(X, pairs) for metric in (plain, weighted))
        assert not np.allclose(d / np.mean(d), e / np.mean(e), rtol=1e-3)


@pytest.mark.parametrize("shrinkage", ["auto", 0.1, 0.0])
@pytest.mark.parametrize("scale", ["standard", "unit", None])
@pytest.mark.parametrize("cls", SCATTER)
def test_weights_repeat_rows_in_scatter_matrices(cls, scale, shrinkage):
    learner = cls(scale=scale, shrinkage=shrinkage)
    weighted = learner.fit(X, Y, sample_weight=COUNTS).metric_.matrix
    repeated = learner.fit(X[REPEATED], Y[REPEATED]).metric_.matrix
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-9 * np.abs(repeated).max())


def test_weights_repeat_rows_of_chunklets():
    ids = np.where(np.arange(N) % 3, np.arange(N) // 7, -1)
    learner = RCA(scale="standard")
    weighted = learner.fit(X, Chunklets(ids), sample_weight=COUNTS).metric_.matrix
    repeated = learner.fit(X[REPEATED], Chunklets(ids[REPEATED])).metric_.matrix
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)


def test_weights_repeat_rows_in_fewer_dimensions_than_features():
    wide = np.hstack([X, X[:, :2], np.random.RandomState(0).standard_normal((N, 60))])
    learner = LDA(scale="standard")
    weighted = learner.fit(wide, Y, sample_weight=COUNTS + 1).metric_
    again = np.repeat(np.arange(N), COUNTS + 1)
    repeated = learner.fit(wide[again], Y[again]).metric_
    pairs = RandomPairs(100)(wide, Y, 0)
    distances = [metric.pair_distances(wide, pairs) for metric in (weighted, repeated)]
    np.testing.assert_allclose(*distances, rtol=1e-6)


def test_too_little_weight_is_refused():
    with pytest.raises(ValueError, match="no class counts more than one row"):
        LDA().fit(X, Y, sample_weight=np.full(N, 1 / N))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
class TestFromLabels:
    """Constraints that a strategy makes have the weight of their first row."""

    @pytest.mark.parametrize("cls", [*OF_TRIPLETS, *OF_PAIRS])
    def test_they_are_weighted_constraints(self, cls):
        strategy = OF_TRIPLETS.get(cls, RandomPairs(300))
        learner = made(cls, scale="unit", constraints=strategy)
        labelled = learner.fit(X, Y, sample_weight=WEIGHT).metric_
        Z = Scaler.fit(X, "unit", WEIGHT).transform(X)
        drawn = strategy(Z, Y, np.random.RandomState(0))
        given = replace(drawn, weight=WEIGHT[drawn.index[:, 0]])
        weighted = made(cls, scale="unit").fit(X, given).metric_
        index = RandomPairs(100)(X, Y, 0).index
        distances = [metric.pair_distances(X, index) for metric in (labelled, weighted)]
        np.testing.assert_allclose(*distances, rtol=1e-6)

    def test_a_strategy_may_have_weights_of_its_own(self):
        def strategy(points, y, random_state):
            return Triplets([[0, 1, N - 1], [1, 0, N - 2]], weight=[3.0, 5.0])

        known = Supervision.of(Y, N, sample_weight=WEIGHT)
        triplets = known.triplets(X, strategy, np.random.RandomState(0))
        np.testing.assert_allclose(triplets.weight, [3 * WEIGHT[0], 5 * WEIGHT[1]])


class TestAllTriplets:
    """All triplets, listed or not, have the weights of their anchors."""

    def operators(self):
        listed = AllTriplets()(X, Y)
        weighted = Triplets(listed.index, weight=WEIGHT[listed.index[:, 0]])
        return TripletOperator(X, weighted), AllTripletsOperator(X, Y, row_weight=WEIGHT)

    def test_loss_matrix_and_lines(self):
        listed, tiled = self.operators()
        assert tiled.unit == pytest.approx(listed.unit, rel=1e-9)
        assert tiled.satisfied == pytest.approx(listed.satisfied)
        L = np.random.RandomState(2).standard_normal((2, 4))
        (first, u), (second, w) = (each.loss_and_weights(each.state(L)) for each in (listed, tiled))
        # The loss of listed triplets is that of their sum, as of the others.
        start = [each.loss_and_weights(each.start())[0] for each in (listed, tiled)]
        assert first - start[0] == pytest.approx(second - start[1])
        np.testing.assert_allclose(tiled.matrix(w), listed.matrix(u), rtol=1e-7, atol=1e-9)
        loss, _, A = tiled.evaluate(L)
        assert loss == pytest.approx(second)
        np.testing.assert_allclose(A, listed.matrix(u), rtol=1e-7, atol=1e-9)
        v = np.ones(4) / 2
        for step in (0.0, 0.3):
            slopes = [each.line(each.state(L), v).slope(step) for each in (listed, tiled)]
            np.testing.assert_allclose(*slopes, rtol=1e-6)

    @pytest.mark.parametrize("response", ["real", "normalized", "binary"])
    def test_metricboost(self, response):
        learner = made(MetricBoost, response=response, scale=None, block_size=1, max_iter=10)
        implicit = learner.fit(X, Y, sample_weight=WEIGHT).transform(X)
        index = AllTriplets()(X, Y).index
        listed = learner.fit(X, Triplets(index, weight=WEIGHT[index[:, 0]])).transform(X)
        distances = [cdist(Z, Z) for Z in (implicit, listed)]
        np.testing.assert_allclose(*distances, rtol=1e-5, atol=1e-6)


def brute_force_log_p(L):
    """Return log p of each row, by loops over no tiles."""
    H = cdist(X @ L.T, X @ L.T, "sqeuclidean")
    np.fill_diagonal(H, np.inf)
    near = np.where(Y[:, None] == Y, -H, -np.inf)
    return logsumexp(near, axis=1) - logsumexp(-H, axis=1)


def slope(value, L, eps=1e-6):
    """Return the gradient by central differences."""
    gradient = np.zeros_like(L)
    for place in np.ndindex(L.shape):
        step = np.zeros_like(L)
        step[place] = eps
        gradient[place] = (value(L + step) - value(L - step)) / (2 * eps)
    return gradient


class TestSumsOverPoints:
    L = np.random.RandomState(3).standard_normal((3, 4)) / 2

    @pytest.mark.parametrize("transform", [np.exp, lambda log_p: log_p])
    def test_soft_neighbours(self, transform):
        points = SoftNeighbors(X, Y, weight=WEIGHT)

        def gain(rows, log_p):
            return transform(log_p), np.exp(log_p) if transform is np.exp else np.ones_like(log_p)

        def value(L):
            return float(WEIGHT @ transform(brute_force_log_p(L)))

        found = points.evaluate([self.L], gain)
        assert points.total == pytest.approx(WEIGHT.sum())
        assert found.value == pytest.approx(value(self.L))
        np.testing.assert_allclose(found.by_map[0], slope(value, self.L), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("cls", [NCA, SparseNCA, MixtureNCA])
    def test_constant_weights_change_nothing(self, cls):
        settings = {"tol": 1e-9} | ({"n_metrics": 1} if cls is MixtureNCA else {})
        learner = made(cls, **settings)
        plain = learner.fit(X, Y).history_.objective
        twice = learner.fit(X, Y, sample_weight=np.full(N, 2.0)).history_.objective
        np.testing.assert_allclose(twice[:10], plain[:10], rtol=1e-6)

    def test_batches(self):
        learner = made(NCA, batch_size=N - 1, max_iter=3, scale=None)
        plain, weighted, twice = (
            learner.fit(X, Y, sample_weight=weight).history_.objective
            for weight in (None, WEIGHT, np.full(N, 2.0))
        )
        np.testing.assert_allclose(twice, plain)
        assert not np.allclose(weighted, plain)

    def test_mixtures(self):
        random = np.random.RandomState(4)
        model = MixtureModel(
            random.standard_normal((2, 3, 4)) / 2,
            random.standard_normal((2, 4)),
            random.standard_normal(2),
        )
        mixture = Mixture(SoftNeighbors(X, Y, weight=WEIGHT), 2, 0.02, 0.05)

        def value(V):
            gate = X @ V.T + model.b
            log_gate = gate - logsumexp(gate, axis=1, keepdims=True)
            log_p = np.column_stack([brute_force_log_p(L) for L in model.L])
            mean = WEIGHT @ logsumexp(log_gate + log_p, axis=1) / WEIGHT.sum()
            return -float(mean) + 0.02 * float((model.L**2).sum())

        found, by = mixture.value(model)
        assert found == pytest.approx(value(model.V))
        np.testing.assert_allclose(by.V, slope(value, model.V), rtol=1e-5, atol=1e-7)

    def test_regression(self):
        y = NUMBERS - NUMBERS.mean()

        def value(L):
            k = np.exp(-cdist(X @ L.T, X @ L.T, "sqeuclidean"))
            np.fill_diagonal(k, 0)
            return float(WEIGHT @ (k @ y / k.sum(axis=1) - y) ** 2)

        error, gradient = LeaveOneOutRegression(X, y, WEIGHT).evaluate(self.L)
        assert error == pytest.approx(value(self.L))
        np.testing.assert_allclose(gradient, slope(value, self.L), rtol=1e-5, atol=1e-6)

    def test_regression_is_relative_to_the_weighted_variance(self):
        y = NUMBERS
        learner = MLKR(scale="standard")
        first = learner.fit(X, y, sample_weight=COUNTS + 1).history_.objective
        shifted = learner.fit(X, 7 * y + 100, sample_weight=COUNTS + 1).history_.objective
        np.testing.assert_allclose(first, shifted)


class TestLMNN:
    def test_labels_are_the_triplets_of_their_anchors(self):
        targets = impostors.Impostors.nearest(X, Y, 3, WEIGHT)
        anchor = np.repeat(np.arange(N), 3)
        near = targets.targets.ravel()
        far = [np.flatnonzero(Y[i] != Y) for i in anchor]
        index = np.concatenate(
            [np.column_stack([np.full((len(f), 2), (i, j)), f])
             for i, j, f in zip(anchor, near, far, strict=True)]
        )  # fmt: skip
        given = impostors.GivenTriplets(X, Triplets(index, weight=WEIGHT[index[:, 0]]))
        L = np.random.RandomState(5).standard_normal((3, 4)) / 3
        values = []
        for source in (targets, given):
            objective = lmnn.Objective(X, source, 0.5)
            values.append(objective.value(L, source.around(X @ L.T)))
        np.testing.assert_allclose(values[0][0], values[1][0])
        np.testing.assert_allclose(values[0][1], values[1][1])
        implied = lmnn.Objective(X, targets, 0.5).value(L, targets.implied)
        np.testing.assert_allclose(implied[0], values[1][0])
        np.testing.assert_allclose(implied[1], values[1][1])
        samples = [source.sample(X) for source in (targets, given)]
        np.testing.assert_allclose(samples[0].pull, samples[1].pull)
        order = [np.lexsort((each.weight, each.margins)) for each in samples]
        pairs = zip(samples, order, strict=True)
        weights = [each.weight[rows] for each, rows in pairs]
        np.testing.assert_allclose(np.sort(weights[0]), np.sort(weights[1]))

    def test_a_fit(self):
        learner = made(LMNN, update_targets=1, max_iter=100)
        plain = learner.fit(X, Y).history_.objective
        twice = learner.fit(X, Y, sample_weight=np.full(N, 2.0)).history_.objective
        np.testing.assert_allclose(twice[-1], plain[-1], rtol=1e-3)


def test_lfda_has_products_of_weights():
    """Where the farthest row of the class sets the scale, copies do not change it."""
    learner = LFDA(scale="standard", n_neighbors=1000)
    weights = COUNTS + 1
    again = np.repeat(np.arange(N), weights)
    weighted = learner.fit(X, Y, sample_weight=weights).metric_.matrix
    repeated = learner.fit(X[again], Y[again]).metric_.matrix
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6)


def test_forests_weigh_splits():
    seen = X[::2], Y[::2]
    forest = ForestMetric(n_trees=25).fit(*seen, sample_weight=WEIGHT[::2])
    again = ForestMetric(n_trees=25).fit(*seen, sample_weight=8 * WEIGHT[::2])
    np.testing.assert_array_equal(forest.transform(X), again.transform(X))


class TestValidation:
    """Held-out rows count by their weights."""

    def parts(self, y, weight, numbers=False):
        known = Supervision.of(y, N, sample_weight=weight, numbers=numbers)
        random = np.random.RandomState(0)
        return list(held_out_parts(X, known, fraction=0.3, validation="rows", random_state=random))

    @pytest.mark.parametrize("numbers", [False, True])
    def test_the_value_is_a_weighted_mean_of_the_terms(self, numbers):
        y = NUMBERS if numbers else Y
        metrics = [Metric(np.eye(4)), Metric(np.diag([3.0, 1.0, 0.0, 2.0]))]
        w = np.array([0.7, 1.1])
        for plain, weighted in zip(
            self.parts(y, None, numbers), self.parts(y, WEIGHT, numbers), strict=True
        ):
            tables = np.stack([plain.held_out.table(metric) for metric in metrics])
            terms = plain.held_out.terms(w, tables)[0]
            rows = [np.flatnonzero((row == X).all(axis=1))[0] for row in plain.held_out.queries]
            mean = np.average(terms, weights=WEIGHT[rows])
            value, gradient = weighted.held_out.value(w, tables)
            assert value / len(weighted.held_out) == pytest.approx(mean, rel=1e-5)
            ahead, behind = (
                [weighted.held_out.value(w + step, tables)[0] for step in sign * 1e-2 * np.eye(2)]
                for sign in (1, -1)
            )
            differences = np.subtract(ahead, behind) / 2e-2
            np.testing.assert_allclose(gradient, differences, rtol=2e-2, atol=1e-3)

    def halves(self):
        """Return rows, classes, and which half of the rows the short column tells apart."""
        random = np.random.RandomState(0)
        y, first = np.arange(200) % 2, np.arange(200) < 100
        short = np.where(first, y + 0.1 * random.standard_normal(200), random.uniform(0, 1, 200))
        long = np.where(first, random.uniform(0, 1, 200), y + 0.1 * random.uniform(0, 1, 200))
        return np.column_stack([short, 100 * long]), y, first

    def test_metrics_are_judged_by_what_counts(self):
        points, y, first = self.halves()
        metrics = [Metric([[100.0, 0.0]]), Metric([[0.0, 1.0]])]
        for rows, best in ((first, 0), (~first, 1)):
            known = Supervision.of(y, 200, sample_weight=np.where(rows, 1.0, 1e-3))
            random = np.random.RandomState(0)
            for part in held_out_parts(
                points, known, fraction=0.2, validation="rows", random_state=random
            ):
                tables = [part.held_out.table(metric)[None] for metric in metrics]
                values = [part.held_out.value(np.array([0.01]), table)[0] for table in tables]
                assert np.argmax(values) == best

    def test_the_scale_is_chosen_by_what_counts(self):
        points, y, first = self.halves()
        for rows, scale in ((first, "standard"), (~first, "unit")):
            known = Supervision.of(y, 200, sample_weight=np.where(rows, 1.0, 1e-3))
            assert choose_scale(points, known, ("unit", "standard")) == scale

    @pytest.mark.parametrize("cls", [BoostMetric, AutoMetric])
    def test_a_validated_fit(self, cls):
        settings = {"validation_fraction": "auto"} if cls is BoostMetric else {}
        learner = made(cls, scale="auto", **settings)
        weighted = learner.fit(X, Y, sample_weight=WEIGHT).metric_
        assert weighted.matrix.shape == (4, 4)
        assert not np.allclose(weighted.matrix, learner.fit(X, Y).metric_.matrix)


class TestScore:
    def test_labels(self):
        learner = RCA().fit(X, Y)
        Z = Scaler.fit(X, "standard").transform(X)
        index = NearestTriplets()(Z, Y).index
        right = learner.metric_.prefers(X, index)
        expected = np.average(right, weights=WEIGHT[index[:, 0]])
        assert learner.score(X, Y, sample_weight=WEIGHT) == pytest.approx(expected)
        assert learner.score(X, Y, sample_weight=np.ones(N)) == learner.score(X, Y)

    def test_numbers(self):
        data, y = (part[:100] for part in load_diabetes(return_X_y=True))
        learner = MLKR().fit(data, y)
        weight = np.random.RandomState(0).uniform(0, 1, 100)
        d = cdist(learner.transform(data), learner.transform(data))
        np.fill_diagonal(d, np.inf)
        predicted = y[np.argsort(d, axis=1)[:, :5]].mean(axis=1)
        expected = r2_score(y, predicted, sample_weight=weight)
        assert learner.score(data, y, sample_weight=weight) == pytest.approx(expected)


class TestRefused:
    @pytest.mark.parametrize(
        "weight", [np.ones(N - 1), np.ones((N, 2)), -np.ones(N), np.full(N, np.nan), np.zeros(N)]
    )
    @pytest.mark.parametrize("estimator", [RCA(), MetricNeighborsClassifier(RCA())])
    def test_weights_that_make_no_sense(self, estimator, weight):
        with pytest.raises(ValueError, match="eight"):
            estimator.fit(X, Y, sample_weight=weight)

    def test_constraints_have_their_own(self):
        with pytest.raises(ValueError, match="triplets have weights of their own"):
            BoostMetric().fit(X, Triplets([[0, 1, 40]]), sample_weight=np.ones(N))
        pairs = Pairs([[0, 1], [1, 40]], [True, False])
        with pytest.raises(ValueError, match=r"Pairs\(\.\.\., weight=\.\.\.\)"):
            ITML().fit(X, pairs.over(N), sample_weight=np.ones(N))

    def test_rows_on_disk(self, tmp_path):
        np.save(tmp_path / "rows.npy", X)
        with pytest.raises(ValueError, match="rows in memory"):
            RCA().fit(tmp_path / "rows.npy", Y, sample_weight=WEIGHT)


class TestNeighbours:
    def test_the_learner_gets_the_weights(self):
        classifier = MetricNeighborsClassifier(RCA(), n_neighbors=3).fit(X, Y, sample_weight=COUNTS)
        kept = np.flatnonzero(COUNTS)
        alone = RCA().fit(X, Y, sample_weight=COUNTS).metric_.matrix
        np.testing.assert_array_equal(classifier.metric_.matrix, alone)
        assert len(classifier.gallery_) == len(kept)
        assert classifier.score(X, Y, sample_weight=WEIGHT) > 0.9

    def test_of_numbers(self):
        regressor = MetricNeighborsRegressor(MLKR(), votes="whole")
        regressor.fit(X, NUMBERS, sample_weight=COUNTS)
        alone = MLKR().fit(X, NUMBERS, sample_weight=COUNTS).metric_.matrix
        np.testing.assert_array_equal(regressor.metric_.matrix, alone)
        assert len(regressor.predictor_.y) == np.count_nonzero(COUNTS)


def test_pieces_pass_weights_on():
    piecewise = PiecewiseMetric(learner=LDA()).fit(X, Y, sample_weight=COUNTS + 1)
    assert roc_auc_score(Y == 0, -np.abs(piecewise.transform(X)[:, 0])) != 0.5
