"""Comparisons within a budget, with a clock that only the fits of `Gradual` learners move."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from comparison.helpers import Failing, FakeClock, Gradual
from nearfar import Metric, compare
from nearfar.comparison import Category, default_methods
from nearfar.learners.base import MetricLearner
from nearfar.runtime.deadline import check_time, early_stop

IRIS = load_iris(return_X_y=True)
# 1,200 training rows in a fold: the stages are 300 of them, all of them, and the other folds.
BLOBS = make_blobs(1500, 4, centers=5, cluster_std=4.0, random_state=0)
BASELINES = ["Euclidean (unscaled)", "Euclidean (standardised)"]
PLAIN = ["cosine", "L1", "inverse covariance", "LDA"]
SAMPLE = "1 of 5 folds, 300 of 1200 training rows"


class Clocked:
    """Runs comparisons, and keeps the time and what ran."""

    def __init__(self):
        self.clock = FakeClock()
        self.start = self.clock.now
        self.ran = []

    def __call__(self, learners, budget=None, data=BLOBS, **options):
        def note(done, total, label):
            assert 0 <= done < total
            self.ran.append(tuple(label.split(", fold ")))

        options = {"classifiers": False, "clock": self.clock} | options
        return compare(*data, learners, budget=budget, progress=note, **options)

    def learner(self, seconds, **parameters):
        return Gradual(self.clock, seconds, **parameters)

    @property
    def elapsed(self):
        return self.clock.now - self.start


@pytest.fixture
def clocked():
    return Clocked()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_every_method_has_a_result_before_any_gets_its_last_fold(clocked, seed):
    rng = np.random.default_rng(seed)
    seconds = np.exp(rng.uniform(-2, 3, size=6))
    power = rng.uniform(0, 2, size=6)
    learners = {str(i): clocked.learner(s, power=power[i]) for i, s in enumerate(seconds)}
    budget = float(np.exp(rng.uniform(1, 6)))
    found = clocked(learners, budget)
    assert set(found) == {*BASELINES, *PLAIN, *learners}
    last = [i for i, (_, fold) in enumerate(clocked.ran) if fold.startswith("5 of 5")]
    first = {name: i for i, (name, _) in reversed(list(enumerate(clocked.ran)))}
    assert max(first.values()) < min(last, default=len(clocked.ran))
    # A fit ends with the step in which the time runs out.
    assert clocked.elapsed <= budget + (seconds * 4.0**power).max() / 10
    assert found.verdicts[0].startswith("Only partly tried") == found.incomplete


@pytest.mark.slow
def test_a_long_budget_changes_nothing(clocked):
    free = clocked({"a": clocked.learner(1.0), "b": clocked.learner(8.0, good=False)})
    bound = clocked({"a": clocked.learner(1.0), "b": clocked.learner(8.0, good=False)}, 1000)
    assert not bound.incomplete
    assert str(bound) == str(free)
    for row, expected in zip(bound.rows(), free.rows(), strict=True):
        assert row.pop("fit_seconds") == pytest.approx(expected.pop("fit_seconds"))
        assert row == expected


@pytest.mark.slow
def test_learners_with_a_long_budget():
    data = load_wine(return_X_y=True)
    learners = ["BoostMetric", "NCA", NeighborhoodComponentsAnalysis(random_state=0)]
    free, bound = compare(*data, learners), compare(*data, learners, budget=600)
    assert bound.verdicts == free.verdicts
    for name, result in free.items():
        for measure, losses in result.losses.items():
            np.testing.assert_array_equal(bound[name].losses[measure], losses)


@pytest.mark.parametrize("data", [IRIS, BLOBS])
def test_without_time_there_is_euclidean_distance(clocked, data):
    found = clocked({"it": clocked.learner(1.0)}, 0, data=data)
    assert list(found) == BASELINES
    assert found.incomplete
    assert clocked.elapsed == 0
    assert found.verdicts[0].startswith("Not tried for lack of time: cosine, L1, ")
    assert found.classification.verdict.category == Category.NOTHING
    assert found.classification.winner is None


def test_with_little_time_fits_are_stopped_early(clocked):
    found = clocked({"quick": clocked.learner(0.1), "slow": clocked.learner(20.0)}, 10)
    slow = found["slow"]
    assert slow.stopped_early
    assert not slow.complete
    assert slow.partial == SAMPLE
    assert "slow" not in found.classification.p_values
    assert found.classification.mark(slow) == found.ranking.mark(slow) == ""
    row = next(row for row in found.rows() if row["name"] == "slow")
    assert row["stopped_early"]
    assert row["error_p_value"] is row["map_at_r_p_value"] is None
    assert "\nslow * " in str(found)
    assert "\n* fit stopped early, not tested." in str(found)
    assert found.verdicts[0] == f"Only partly tried for lack of time: slow ({SAMPLE})."
    assert found["quick"].complete
    assert 4 < clocked.elapsed <= 10


def test_a_first_iteration_that_takes_long_is_tried_again(clocked):
    """A step of 3 s is more than three shares of 0.8 s, but less than half of the time left."""
    learners = {"slow": clocked.learner(30.0)} | {str(i): clocked.learner(0.1) for i in range(9)}
    found = clocked(learners, 16)
    assert found["slow"].stopped_early
    assert [name for name, _ in clocked.ran].count("slow") == 2
    assert clocked.elapsed <= 16


def test_scikit_learn_stops_early():
    X, y = load_wine(return_X_y=True)
    method = default_methods([NeighborhoodComponentsAnalysis(random_state=0)])[-1]
    one = NeighborhoodComponentsAnalysis(max_iter=1, random_state=0)
    with early_stop(-1) as stop:
        metric = method.fit(X, y)
    assert stop.happened
    np.testing.assert_allclose(metric.L, one.fit(X, y).components_)


def test_the_better_half_goes_on(clocked):
    learners = {name: clocked.learner(1.0, good=name < "c") for name in "dcba"}
    found = clocked(learners, 40)
    assert found.partly_tried == dict.fromkeys("dca", "1 of 5 folds")
    ran = [(name, fold[0]) for name, fold in clocked.ran if name in learners]
    expected = [*zip("dcbaba", "111111", strict=True), *zip("bbbb", "2345", strict=True)]
    assert ran == [*expected, ("d", "1"), ("c", "1")]


def test_the_cheaper_ones_go_first(clocked):
    seconds = {"a": 4.0, "b": 1.0, "c": 2.0, "d": 9.0, "e": 9.0}
    clocked({name: clocked.learner(s, good=s < 9) for name, s in seconds.items()}, 120)
    ran = [name for name, fold in clocked.ran if fold == "1 of 5, 1200 rows"]
    assert [name for name in ran if name in seconds][:3] == ["b", "c", "a"]


def test_part_of_the_folds(clocked):
    found = clocked({"it": clocked.learner(1.0)}, 20)
    assert found["it"].partial == "4 of 5 folds"
    assert [found[name].partial for name in BASELINES + PLAIN] == [""] * 6
    row = found.rows()[-1]
    assert (row["folds"], row["training_rows"]) == (4, 1200)
    reference = found.classification.reference
    assert row["reference"][0]["error"] == pytest.approx(reference.errors[:4].mean())
    assert reference.errors[:4].mean() != reference.error


def test_a_failure_on_the_way(clocked):
    found = clocked({"it": Failing()}, 20)
    assert found.notes[-1] == "Left out: it (failed: not with these rows)."
    assert not found.incomplete


def test_one_fold(clocked):
    rows = np.arange(1500)
    folds = [(rows[rows % 5 > 0], rows[rows % 5 == 0])]
    found = clocked({"it": clocked.learner(1.0)}, 3, cv=folds)
    assert found["it"].partial == "300 of 1200 training rows"
    assert clocked({"it": clocked.learner(1.0)}, 30, cv=folds)["it"].complete


class Planner(MetricLearner):
    """Euclidean distance, in all the time of its budget, or in as much as it needs."""

    def __init__(self, *, clock=None, budget=1000.0, needed=math.inf):
        self.clock, self.budget, self.needed = clock, budget, needed

    def _build_problem(self, data):
        raise NotImplementedError

    def fit(self, X, y):
        self.clock.now += min(self.budget, self.needed)
        check_time()
        self.metric_ = Metric.identity(X.shape[1])
        return self


def test_a_learner_that_plans_its_time_has_a_fair_share_for_each_fold(clocked):
    """With one learner, there are a sample and five folds."""
    found = clocked({"it": Planner(clock=clocked.clock)}, 60)
    assert found["it"].complete
    assert not found["it"].stopped_early
    seconds = found["it"].seconds
    assert 40 < clocked.elapsed <= 60
    assert seconds.max() < 2 * seconds.min()


@pytest.mark.slow
def test_a_learner_that_plans_its_time_has_what_others_do_not_need(clocked):
    learners = {"it": Planner(clock=clocked.clock), "quick": clocked.learner(0.1)}
    learners |= {str(i): clocked.learner(0.01) for i in range(6)}
    found = clocked(learners, 120)
    assert not found.incomplete
    assert found["it"].seconds.mean() > 10
    assert clocked.elapsed <= 120


def test_a_learner_that_plans_its_time_has_its_own_budget_without_a_limit(clocked):
    found = clocked({"it": Planner(clock=clocked.clock, budget=7.0)}, cv=3)
    np.testing.assert_allclose(found["it"].seconds, 7.0)
    enough = clocked({"it": Planner(clock=clocked.clock, needed=2.0)}, 1000, cv=3)
    np.testing.assert_allclose(enough["it"].seconds, 2.0)
