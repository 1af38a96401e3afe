"""`AutoMetric`: the blend, what it reports, every kind of supervision, and its budget."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine, make_classification
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

import nearfar
from nearfar import NCA, AutoMetric, BoostMetric, DRMetric, MixtureNCA, RandomPairs, RandomTriplets
from nearfar.evidence.intervals import mean_interval
from nearfar.learners.scaling import Scaler
from nearfar.learners.selection import auto_problem as module
from nearfar.learners.selection import scale as scales
from nearfar.learners.selection.expectation import Fold, expect_judgements
from nearfar.learners.selection.held_out import mean_squared_distance
from nearfar.measures import knn_error
from nearfar.measures.neighbor_votes import NUMBERS
from nearfar.metrics.metric import Metric
from nearfar.runtime.progress import watching
from nearfar.supervision import Chunklets

X, Y = load_wine(return_X_y=True)
QUICK = ["DRMetric", "NCA"]


@pytest.fixture(scope="module")
def fitted():
    return AutoMetric(candidates=QUICK).fit(X, Y)


def test_weights_are_shares_of_the_mean_squared_distance(fitted):
    assert set(fitted.weights_) == {"Euclidean", *QUICK}
    assert sum(fitted.weights_.values()) == pytest.approx(1)
    assert min(fitted.weights_.values()) >= 0


def test_the_metric_is_the_blend_of_fits_to_all_rows(fitted):
    scaler = Scaler.fit(X, fitted.scale_)
    Z = scaler.transform(X)
    iterations = {entry["name"]: entry["n_iter"] for entry in fitted.leaderboard_}
    M = fitted.weights_["Euclidean"] * np.eye(13) / mean_squared_distance(Metric.identity(13), Z)
    for cls in (DRMetric, NCA):
        weight = fitted.weights_[cls.__name__]
        if weight == 0:
            continue
        learner = cls(scale="unit", validation_fraction=None, max_iter=iterations[cls.__name__])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            own = learner.fit(Z, Y).metric_
        M += weight * own.matrix / mean_squared_distance(own, Z)
    np.testing.assert_allclose(
        fitted.metric_.matrix * np.outer(scaler.scale, scaler.scale), M, rtol=1e-5, atol=1e-8
    )


def test_the_leaderboard_has_the_best_first(fitted):
    values = [entry["log_likelihood"] for entry in fitted.leaderboard_]
    assert values == sorted(values, reverse=True)
    assert {entry["name"] for entry in fitted.leaderboard_} == set(QUICK)
    for entry in fitted.leaderboard_:
        assert entry["weight"] == fitted.weights_[entry["name"]]
        assert entry["seconds"] > 0
        assert entry["note"] == ""


def test_what_to_expect(fitted):
    expected = fitted.expected_
    assert expected.measure == "error"
    assert 0 <= expected.low <= expected.value <= expected.high <= 1
    assert (expected.n, expected.rows) == (pytest.approx(len(X) / 2, abs=1), len(X))
    assert expected.baseline_low < expected.baseline < expected.baseline_high
    variance = 1.3 * expected.value * (1 - expected.value) / expected.n
    assert (expected.low, expected.high) == mean_interval(expected.value, variance, expected.n)
    assert str(expected).startswith(f"error {100 * expected.value:.1f} % among 178 rows (")


def test_the_same_seed_gives_the_same_metric(fitted):
    again = clone(fitted).fit(X, Y)
    np.testing.assert_array_equal(again.metric_.L, fitted.metric_.L)


def test_few_components_are_the_principal_axes(fitted):
    embedded = AutoMetric(candidates=QUICK, n_components=2).fit(X, Y).transform(X)
    axes = PCA(2).fit_transform(fitted.transform(X))
    np.testing.assert_allclose(pdist(embedded), pdist(axes), rtol=1e-6)


@pytest.mark.parametrize(
    ("strategy", "measure"),
    [(RandomTriplets(1500), "triplet error"), (RandomPairs(1500), "pair error")],
)
def test_constraints(strategy, measure):
    constraints = strategy(X, Y, np.random.RandomState(0))
    candidates = ["BoostMetric"] if measure == "triplet error" else ["MaxMarginMetric"]
    learner = AutoMetric(candidates=candidates).fit(X, constraints)
    assert learner.expected_.measure == measure
    assert learner.expected_.value < learner.expected_.baseline
    over = AutoMetric(candidates=candidates).fit(X, constraints.over(len(X)))
    np.testing.assert_array_equal(over.metric_.L, learner.metric_.L)


def test_unseen_classes():
    X, y = load_digits(return_X_y=True)
    learner = AutoMetric(candidates=["DRMetric"], validation="classes").fit(X[:600], y[:600])
    assert learner.expected_.measure == "MAP@R"
    assert learner.expected_.value > learner.expected_.baseline - 0.02
    ranking = AutoMetric(candidates=["DRMetric"], goal="ranking").fit(X[:600], y[:600])
    assert ranking.expected_.measure == "MAP@R"


def test_a_level_is_for_a_size():
    """Ten classes of twenty rows each: rows of held-out ones are ranked among all of them."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 20)
    points = rng.standard_normal((10, 4))[y] + 0.5 * rng.standard_normal((200, 4))
    classes = AutoMetric(candidates=["RCA"], validation="classes").fit(points, y).expected_
    assert (classes.rows, classes.classes, classes.n) == (200, 10, 120)
    assert "among 200 rows of 10 classes" in str(classes)
    ranking = AutoMetric(candidates=["RCA"], goal="ranking").fit(points, y).expected_
    assert (ranking.rows, ranking.classes, ranking.n) == (150, 10, 100)
    assert classes.low < ranking.value < classes.high


class TestExpectedFolds:
    def test_the_metric_does_not_depend_on_them(self, fitted):
        quick = AutoMetric(candidates=QUICK, expected_folds=1).fit(X, Y)
        assert quick.expected_.n == pytest.approx(len(X) / 4, abs=1)
        np.testing.assert_array_equal(quick.metric_.L, fitted.metric_.L)

    def test_nothing_is_put_aside(self):
        assert AutoMetric(candidates=["RCA"], expected_folds=0).fit(X, Y).expected_ is None

    def test_many_rows_are_enough_at_once(self, rng):
        y = np.arange(800) % 2
        points = y[:, None] + rng.standard_normal((800, 2))
        assert AutoMetric(candidates=["RCA"]).fit(points, y).expected_.n == 200

    def test_time_that_is_short_is_not_spent_on_them(self, monkeypatch):
        no_end = property(lambda _: 1e9, lambda *_: None)
        monkeypatch.setattr(module.AutoProblem, "seconds", no_end, raising=False)
        learner = AutoMetric(candidates=["RCA"]).fit(X, Y)
        assert learner.expected_.n == pytest.approx(len(X) / 4, abs=1)

    def test_fewer_rows_than_features(self, rng):
        y = np.arange(100) % 2
        points = np.pad(2.0 * y[:, None], ((0, 0), (0, 119))) + rng.standard_normal((100, 120))
        found = AutoMetric(candidates=["RCA"], n_components=2).fit(points, y)
        assert found.expected_.n == 50
        assert found.metric_.L.shape == (2, 120)

    def test_the_baseline_does_not_hang_on_one_quarter(self):
        """On a quarter of 300 rows, it ranges over twenty points from seed to seed."""
        points, y = make_classification(300, 10, n_informative=3, random_state=1)
        found = [
            AutoMetric(candidates=["RCA"], scale="standard", random_state=seed).fit(points, y)
            for seed in range(6)
        ]
        values = [learner.expected_.baseline for learner in found]
        assert max(values) - min(values) < 0.1
        low = max(learner.expected_.baseline_low for learner in found)
        assert low < min(learner.expected_.baseline_high for learner in found)


class TestRareClasses:
    """Three rows of the second class."""

    @staticmethod
    def rows(n, seed=0):
        random = np.random.RandomState(seed)
        return random.standard_normal((n, 8)), np.isin(np.arange(n), random.permutation(n)[:3])

    @pytest.mark.parametrize("seed", range(3))
    def test_every_class_survives_samples(self, seed, monkeypatch):
        monkeypatch.setattr(module, "_MAX_TRIAL_ROWS", 100)
        # There is no time for fits to more rows.
        monkeypatch.setattr(module, "_COST_EXPONENT", 1e9)
        points, y = self.rows(600, seed)
        learner = AutoMetric(candidates=["RCA", "LDA"], random_state=seed).fit(points, y)
        assert {entry["note"] for entry in learner.leaderboard_} == {""}

    def test_a_candidate_that_fails_drops_out(self, monkeypatch):
        learn = module.learn

        def failing(data, scale, method, *others):
            if type(method.learner).__name__ == "DRMetric":
                raise ValueError("It failed.")
            return learn(data, scale, method, *others)

        monkeypatch.setattr(module, "learn", failing)
        learner = AutoMetric(candidates=["RCA", "DRMetric"]).fit(X, Y)
        notes = {entry["name"]: entry["note"] for entry in learner.leaderboard_}
        assert notes == {"DRMetric": "It failed.", "RCA": ""}
        assert learner.weights_.get("DRMetric", 0) == 0
        assert sum(learner.weights_.values()) == pytest.approx(1)


def test_rows_that_are_all_equal_teach_nothing():
    with pytest.warns(ConvergenceWarning, match="All rows are equal"):
        AutoMetric(candidates=["RCA"]).fit(np.ones((60, 3)), np.arange(60) % 2)


def test_the_default_candidates_suit_the_supervision():
    names = {kind: set(AutoMetric()._learners(kind)) for kind in AutoMetric.supervision}
    assert {"BoostMetric", "NCA", "MaxMarginMetric"} <= names["labels"]
    assert {"NCA", "MaxMarginMetric"}.isdisjoint(names["triplets"])
    assert "NCA" not in names["pairs"]
    bent = {"ForestMetric", "PiecewiseMetric"}
    assert names.pop("numbers") == {"InverseCovariance", "MLKR", *bent}
    for found in names.values():
        assert {"AutoMetric", "MixtureNCA", "MLKR"}.isdisjoint(found)


def test_learners_with_parameters_of_ones_own():
    candidates = [BoostMetric(max_iter=5), BoostMetric(max_iter=20)]
    learner = AutoMetric(candidates=candidates).fit(X, Y)
    assert {entry["name"] for entry in learner.leaderboard_} == {"BoostMetric", "BoostMetric'"}
    assert all(entry["n_iter"] <= 20 for entry in learner.leaderboard_)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        (["nothing"], "There is no learner 'nothing'; choose from"),
        ([AutoMetric()], "cannot be its own candidate"),
        ([BoostMetric], "names or learners"),
    ],
)
def test_bad_candidates(candidates, message):
    with pytest.raises(ValueError, match=message):
        AutoMetric(candidates=candidates).fit(X, Y)


def test_candidates_that_cannot_learn_are_noted():
    triplets = RandomTriplets(300)(X, Y, np.random.RandomState(0))
    learner = AutoMetric(candidates=["NCA", "BoostMetric", MixtureNCA()]).fit(X, triplets)
    notes = {entry["name"]: entry["note"] for entry in learner.leaderboard_}
    assert "class labels" in notes["NCA"]
    assert "class labels" in notes["MixtureNCA"]
    assert notes["BoostMetric"] == ""
    labels = AutoMetric(candidates=[MixtureNCA(n_metrics=2), "DRMetric"]).fit(X, Y)
    notes = {entry["name"]: entry["note"] for entry in labels.leaderboard_}
    assert "gate" in notes["MixtureNCA"]


def test_no_time_is_no_learning():
    learner = AutoMetric(candidates=QUICK, budget=1e-3, scale="standard")
    with pytest.warns(ConvergenceWarning, match=f"{len(QUICK)} of {len(QUICK)} candidates"):
        learner.fit(X, Y)
    assert {entry["note"] for entry in learner.leaderboard_} == {"no time left"}
    assert learner.weights_["Euclidean"] == 1
    M = learner.metric_.matrix * np.outer(X.std(axis=0), X.std(axis=0))
    np.testing.assert_allclose(M, M[0, 0] * np.eye(13), atol=1e-12)


def test_fits_to_many_rows_may_use_a_sample(monkeypatch):
    monkeypatch.setattr(module, "_MAX_TRIAL_ROWS", 40)
    learner = AutoMetric(candidates=["DRMetric"])
    seen = []
    fit = module.learn

    def learn(data, *others):
        seen.append(len(data.X))
        return fit(data, *others)

    monkeypatch.setattr(module, "learn", learn)
    # Fits to more rows cost so much more that there is no time for any of them.
    monkeypatch.setattr(module, "_COST_EXPONENT", 1e9)
    learner.fit(X, Y)
    assert set(seen) == {40}


def test_too_few_rows_to_put_aside():
    learner = AutoMetric(candidates=["DRMetric"]).fit(X[::9], Y[::9])
    assert learner.expected_ is None
    assert np.isfinite(learner.metric_.L).all()


def test_the_distance_as_it_was_is_kept_where_nothing_can_be_learned(rng):
    y = np.arange(90) % 3
    points = 0.7 * rng.standard_normal((3, 30))[y] + rng.standard_normal((90, 30))
    learner = AutoMetric(candidates=["BoostMetric"], scale="unit").fit(points, y)
    assert learner.weights_["Euclidean"] > 0.3


def test_chunklets_hold_out_whole_ones():
    chunklets = Chunklets(np.where(np.arange(len(X)) % 2, Y * 30 + np.arange(len(X)) % 20, -1))
    learner = AutoMetric(candidates=["DRMetric"]).fit(X, chunklets)
    assert "what does not" in learner.leaderboard_[0]["note"]
    assert learner.weights_ == {"Euclidean": 1.0}


def test_pairs_of_equal_distance_count_half():
    points = np.array([[0.0], [1.0], [2.0], [3.0]])
    pairs = RandomPairs(4)(points, np.array([0, 0, 1, 1]), np.random.RandomState(0))
    flat = Metric([[0.0]])
    assert expect_judgements((flat, flat), points, pairs).value == pytest.approx(0.5)


def test_a_fit_that_is_stopped_early_has_the_best_blend_so_far():
    """Stopped after two of three candidates: not Euclidean distance, but what was learned."""

    def stop_after_two(iterations, fit):
        for number, iteration in enumerate(iterations, start=1):
            yield iteration
            if number == 2:
                return

    with watching(stop_after_two):
        learner = AutoMetric(candidates=[*QUICK, "RCA"], scale="standard").fit(X, Y)
    assert learner.n_iter_ == 2
    assert learner.expected_ is None
    assert set(learner.weights_) == {"Euclidean", *QUICK}
    assert sum(learner.weights_.values()) == pytest.approx(1.0)
    assert learner.weights_["Euclidean"] < 1
    Z = Scaler.fit(X, "standard").transform(X)
    M = learner.metric_.matrix * np.outer(X.std(axis=0), X.std(axis=0))
    assert not np.allclose(M, M[0, 0] * np.eye(13))
    size = mean_squared_distance(Metric.from_matrix(M), Z)
    assert size == pytest.approx(1.0, rel=1e-6)


def test_the_scale_is_chosen_without_what_is_expected_on(monkeypatch):
    """Labels of the outer part do not change the scale: it judges the result."""
    seen = []
    choose = scales.choose_scale

    def recorded(points, known, among):
        seen.append((points, known.names[known.codes]))
        return choose(points, known, among)

    monkeypatch.setattr(scales, "choose_scale", recorded)
    learner = AutoMetric(candidates=["RCA"]).fit(X, Y)
    assert learner.expected_.n == pytest.approx(len(X) / 2, abs=1)
    assert [len(points) for points, _ in seen] == [len(known) for _, known in seen]
    assert len(seen) == 2
    assert all(len(points) == pytest.approx(3 * len(X) / 4, abs=1) for points, _ in seen)


class TestGroups:
    """Eight noisy copies of each row, with classes at random: nothing can be learned."""

    @pytest.fixture
    def copies(self, rng):
        points, y = rng.standard_normal((60, 6)), rng.permutation(np.arange(60) % 2)
        X = np.repeat(points, 8, axis=0) + 0.01 * rng.standard_normal((480, 6))
        return X, np.repeat(y, 8), np.repeat(np.arange(60), 8)

    def test_groups_are_honest(self, copies):
        X, y, groups = copies
        learner = AutoMetric(candidates=["DRMetric", "RCA"])
        assert learner.fit(X, y).expected_.value < 0.01
        found = learner.fit(X, y, groups=groups).expected_
        assert found.low < 1 / 2 < found.high

    def test_triplets_too(self, copies):
        X, y, groups = copies
        triplets = RandomTriplets(40_000)(X, y, np.random.RandomState(0))
        learner = AutoMetric(candidates=["RCA", "DRMetric"]).fit(X, triplets, groups=groups)
        found = learner.expected_
        assert found.low < found.baseline < found.high
        assert 0 < learner.expected_.n < 2000


def ring(n, seed, noise=0.0):
    """Rows inside and outside of a ring, and columns that do not matter; some labels are wrong."""
    random = np.random.RandomState(seed)
    rows = random.normal(size=(n, 5))
    inside = np.hypot(rows[:, 0], rows[:, 1]) < 1.1
    return rows, (inside ^ (random.uniform(size=n) < noise)).astype(int)


BENDING = ("LDA", "ForestMetric", "PiecewiseMetric")


@pytest.fixture(scope="module")
def bent():
    return AutoMetric(candidates=BENDING).fit(*ring(500, 0))


class TestMetricsThatBend:
    """Trees and pieces in the blend, and the number of neighbours."""

    def test_it_bends_where_that_helps(self, bent):
        assert not bent.metric_.is_linear
        assert bent.weights_["ForestMetric"] + bent.weights_["PiecewiseMetric"] > 0.5
        X, y = ring(500, 0)
        linear = AutoMetric(candidates=["LDA", "RCA"]).fit(X, y)
        new = ring(400, 1)
        assert knn_error(bent.metric_, X, y, *new) < knn_error(linear.metric_, X, y, *new) - 0.03

    def test_the_metric_is_the_blend_of_fits_to_all_rows(self, bent):
        X, y = ring(500, 0)
        scaler = Scaler.fit(X, bent.scale_)
        Z = scaler.transform(X)
        squared, seed = np.zeros((20, 500)), np.random.RandomState(0).randint(2**31 - 1)
        for name, weight in bent.weights_.items():
            if weight == 0:
                continue
            own = Metric.identity(5)
            if name != "Euclidean":
                settings = {"scale": "unit"}
                entry = next(each for each in bent.leaderboard_ if each["name"] == name)
                if name == "ForestMetric":
                    settings["n_trees"] = 25 * entry["n_iter"]
                    settings["random_state"] = np.random.RandomState(seed)
                own = getattr(nearfar, name)(**settings).fit(Z, y).metric_
            squared += weight * own.distances(Z[:20], Z) ** 2 / mean_squared_distance(own, Z)
        np.testing.assert_allclose(bent.metric_.distances(X[:20], X) ** 2, squared, atol=1e-5)

    def test_there_is_no_matrix_unless_one_is_asked_for(self, bent):
        with pytest.raises(AttributeError, match='form="linear"'):
            bent.components_  # noqa: B018
        data = ring(300, 2)
        for settings in ({"form": "linear"}, {"n_components": 2}):
            linear = AutoMetric(candidates=BENDING, **settings).fit(*data)
            assert linear.metric_.is_linear
            assert set(linear.weights_) == {"Euclidean", "LDA"}

    def test_fewer_rows_than_features_have_no_trees(self):
        X = np.random.RandomState(0).normal(size=(60, 100))
        wide = AutoMetric(candidates=["RCA", "ForestMetric"]).fit(X, np.arange(60) % 2)
        assert set(wide.weights_) <= {"Euclidean", "RCA"}

    def test_wrong_labels_want_many_neighbours(self):
        few = AutoMetric(candidates=["LDA"]).fit(*ring(500, 3))
        many = AutoMetric(candidates=["LDA"]).fit(*ring(500, 3, noise=0.3))
        assert few.n_neighbors_ < many.n_neighbors_
        assert many.n_neighbors_ in NUMBERS

    @pytest.mark.slow
    def test_what_to_expect_is_for_that_number(self):
        X, y = ring(600, 4, noise=0.25)
        auto = AutoMetric(candidates=["LDA", "ForestMetric"]).fit(X, y)
        new = ring(2000, 5, noise=0.25)
        true = knn_error(auto.metric_, X, y, *new, n_neighbors=auto.n_neighbors_)
        assert auto.expected_.low - 0.03 < true < auto.expected_.high + 0.03
        assert true < knn_error(auto.metric_, X, y, *new, n_neighbors=1) - 0.02


class TestWhatIsWorseIsNotTheResult:
    """Trial fits are as usual; of all rows, the blend has learned a column of noise."""

    @pytest.fixture
    def noise_learned(self, monkeypatch):
        monkeypatch.setattr(
            module.AutoProblem,
            "_blend",
            lambda self, chosen, data, seconds: module.Blend(np.eye(data.X.shape[1])[-1:], []),
        )

    @pytest.fixture
    def rows(self):
        random = np.random.RandomState(0)
        y = np.repeat(np.arange(40), 12)
        X = random.normal(size=(480, 6))
        X[:, :2] = 3 * random.normal(size=(40, 2))[y] + 0.3 * X[:, :2]
        return X, y

    @pytest.mark.parametrize("kind", ["labels", "classes", "ranking", "numbers", "triplets"])
    def test_it_is_euclidean_distance(self, rows, noise_learned, kind):
        X, y = rows
        settings = {"classes": {"validation": "classes"}, "ranking": {"goal": "ranking"}}
        known = {
            "numbers": X[:, 0] + X[:, 1] / 3,
            "triplets": RandomTriplets(600)(X, y, np.random.RandomState(0)),
        }
        candidate = {"numbers": "MLKR", "triplets": "BoostMetric"}.get(kind, "RCA")
        auto = AutoMetric(candidates=[candidate], **settings.get(kind, {}))
        auto.fit(X, known.get(kind, y))
        assert auto.weights_ == {"Euclidean": 1.0, candidate: 0.0}
        euclidean = Scaler.fit(X, auto.scale_).euclidean
        ratio = pdist(auto.metric_.transform(X[:9])) / pdist(euclidean.transform(X[:9]))
        np.testing.assert_allclose(ratio, ratio[0])
        assert not auto.expected_.worse
        if kind in ("labels", "numbers"):
            # Soft votes are better than whole ones.
            assert auto.expected_.gain == 0
            held_out = auto.held_out_votes_
            assert auto.votes_.predict(held_out)[0].shape[0] == len(held_out.actual) == 240
        else:
            assert auto.expected_.value == auto.expected_.baseline

    def test_few_components_are_no_euclidean_distance(self, rows, noise_learned):
        auto = AutoMetric(candidates=["RCA"], n_components=1).fit(*rows)
        assert auto.expected_.worse

    def test_a_gain_is(self, rows):
        auto = AutoMetric(candidates=["RCA"], goal="ranking", validation="classes").fit(*rows)
        assert auto.weights_["RCA"] > 0
        assert not auto.expected_.worse


def test_new_classes_tell_whether_learning_makes_them_worse():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(24), 12)
    X = np.column_stack([rng.normal(size=24)[y] * 3, rng.normal(size=24 * 12)])
    X[:, 0] += 0.1 * rng.normal(size=len(X))
    known, unseen = np.flatnonzero(y < 12), np.flatnonzero(y >= 12)
    good, bad = Metric(np.diag([1.0, 0.01])), Metric(np.diag([0.01, 1.0]))
    for metrics, worse in (((bad, good), False), ((good, bad), True)):
        fold = Fold(metrics, X, y, known, unseen)
        assert module.expect_ranking([fold], whole_classes=True).worse is worse
