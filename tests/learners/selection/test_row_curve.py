"""How many rows to learn from: nested samples, judged on rows that took no part."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from nearfar import LFDA, LMNN, MLKR, NCA, BoostMetric, MetricBoost, MixtureNCA, SparseNCA
from nearfar.learners import fitting
from nearfar.learners.nca import nca
from nearfar.learners.scaling import Scaler
from nearfar.learners.selection import choice as row_curve
from nearfar.learners.selection.choice import Selection, select_rows
from nearfar.supervision import RandomTriplets, Supervision

SIZE = 600


class Chosen(Selection):
    """What a trial fit chose, with given likelihoods."""

    terms = None

    def __init__(self, value, spread=0.0):
        super().__init__(n_iterations=round(-1000 * value), value=value)
        self.__dict__["terms"] = np.full(100, value) + spread * np.linspace(-1, 1, 100)

    @property
    def without_stages(self):
        return Selection(self.n_iterations)


@pytest.fixture
def small(monkeypatch):
    """Sizes at which tests are quick."""
    monkeypatch.setattr(fitting, "EXACT_ROWS", 200)
    monkeypatch.setattr(nca, "EXACT_ROWS", 200)
    monkeypatch.setattr(row_curve, "MAX_TRIAL_ROWS", 50)
    monkeypatch.setattr(row_curve, "LEAST_ROWS", 120)


@pytest.fixture(scope="module")
def points():
    random = np.random.RandomState(0)
    y = np.arange(SIZE) % 3
    X = random.standard_normal((SIZE, 5)) * [1, 1, 4, 4, 4]
    X[:, 0] += 2 * y
    return X, y


def values_of(*values):
    """Return a function from the number of rows to a choice, and the numbers it was called with."""
    asked = []

    def choose(size):
        asked.append(size)
        return Chosen(values[len(asked) - 1])

    return choose, asked


def test_rows_are_doubled_until_they_do_not_help():
    choose, asked = values_of(-0.5, -0.4, -0.35, -0.35, 0.0)
    selection = select_rows(1_000_000, choose)
    assert asked == [2000, 4000, 8000, 16_000]
    assert selection.n_rows == 16_000
    assert "all" not in selection.note
    assert [tried.n_rows for tried in selection.curve] == asked
    assert selection.curve[1].gain == pytest.approx(0.1)
    assert "16,000 of 1,000,000 rows" in selection.note


def test_a_larger_table_is_learned_from_a_least_number_of_rows():
    choose, asked = values_of(-0.5, -0.5)
    assert select_rows(60_000, choose).n_rows == 8000
    assert asked == [2000, 4000]


def test_the_better_choice_is_kept():
    choose, _ = values_of(-0.5, -0.6)
    assert select_rows(60_000, choose).n_iterations == 500


def test_rows_that_always_help_are_learned_from_up_to_a_limit():
    choose, asked = values_of(-0.5, -0.4, -0.3, -0.2)
    selection = select_rows(60_000, choose)
    assert selection.n_rows == 32_000
    assert asked == [2000, 4000, 8000, 16_000]
    assert selection.note.endswith('More rows may help: max_rows="all".')
    selection = select_rows(20_000, values_of(-0.5, -0.4, -0.3)[0])
    assert selection.n_rows is None
    assert "20,000 of 20,000" in selection.note
    assert "max_rows" not in selection.note


def test_where_all_rows_find_their_class_more_of_them_change_nothing():
    choose, _ = values_of(-0.0009, -0.0001)
    assert select_rows(60_000, choose).n_rows == 8000


def test_a_gain_within_noise_does_not_count():
    first, second = Chosen(-0.5, spread=-1.0), Chosen(-0.45, spread=1.0)
    choices = iter([first, second])
    selection = select_rows(60_000, lambda size: next(choices))
    assert selection.n_rows == 8000
    assert selection.curve[1].gain < selection.curve[1].noise


@pytest.mark.parametrize(
    "learner",
    [NCA(), LMNN(), LFDA(), BoostMetric(), MetricBoost(max_iter=20), SparseNCA(), MixtureNCA()],
    ids=lambda learner: type(learner).__name__,
)
@pytest.mark.usefixtures("small")
def test_learners_say_from_how_many_rows_they_learned(learner, points):
    X, y = points
    first = learner.set_params(**_seed(learner)).fit(X, y)
    curve, L = first.history_.row_curve, first.metric_.transform(X)
    assert [tried[0] for tried in curve[:2]] == [50, 100]
    assert any(f"of {SIZE} rows" in note for note in first.history_.notes)
    assert_array_equal(first.fit(X, y).metric_.transform(X), L)


def _seed(learner):
    return {"random_state": 0} if "random_state" in learner.get_params() else {}


@pytest.mark.usefixtures("small")
def test_numbers_have_a_curve_too(points):
    X, _ = points
    learner = MLKR().fit(X, X[:, 0] + 0.1 * X[:, 1])
    assert learner.history_.row_curve[0][0] == 50


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "parameters",
    [{"max_rows": "all"}, {"max_rows": None}, {"warm_start": True}, {"variant": "paper"}],
    ids=str,
)
def test_all_rows_if_asked_for(parameters, points):
    learner = BoostMetric(max_iter=3, **parameters).fit(*points)
    assert learner.history_.row_curve == ()
    assert learner._n_known == SIZE


@pytest.mark.usefixtures("small")
def test_constraints_that_are_drawn_need_no_search_through_all_rows(points):
    learner = BoostMetric(max_iter=3, constraints=RandomTriplets(500)).fit(*points)
    assert learner.history_.row_curve == ()


def test_a_number_of_rows_is_a_limit(points):
    X, y = points
    learner = LMNN(max_rows=90, validation_fraction=None).fit(X, y)
    assert learner._n_known == 90
    assert LMNN(max_rows=5000).fit(X, y)._n_known == SIZE
    with pytest.raises(ValueError, match="max_rows"):
        LMNN(max_rows="some").fit(X, y)


@pytest.mark.usefixtures("small")
def test_rows_that_judge_took_no_part(points, monkeypatch):
    """Trial fits never see the queries, and each sample contains the one before."""
    X, y = points
    seen, judged = [], []
    follow, select = fitting.follow, fitting.held_out_parts

    def recorded(method, data, *rest):
        seen.append({tuple(row) for row in data.X})
        return follow(method, data, *rest)

    def parts(*args, **options):
        for part in select(*args, **options):
            judged.extend(map(tuple, part.held_out.queries))
            yield part

    monkeypatch.setattr(fitting, "follow", recorded)
    monkeypatch.setattr(fitting, "held_out_parts", parts)
    NCA(max_iter=5).fit(X, y)
    assert len(seen) >= 2
    assert judged
    assert all(small < large for small, large in pairwise(seen))
    assert not any(rows & set(judged) for rows in seen)


@pytest.mark.usefixtures("small")
def test_nothing_to_learn_takes_no_more_than_the_least_number_of_rows(points):
    """Labels at random: of ten seeds, most end after the first doubling."""
    X, _ = points
    learned = [
        LFDA().fit(X, np.random.RandomState(seed).permutation(SIZE) % 3)._n_known
        for seed in range(10)
    ]
    assert np.median(learned) <= 200


@pytest.mark.usefixtures("small")
def test_some_anchors_estimate_the_objective_without_a_bias(points):
    X, y = points
    scaler = Scaler.fit(X, "standard")
    values = []
    for seed in range(60):
        state = np.random.RandomState(seed)
        data = fitting.FitInput(scaler.transform(X), scaler, Supervision.of(y, SIZE), state)
        problem = NCA()._build_problem(data)
        values.append(problem.value(problem.points, problem.start)[0])
        assert problem.points.counted.sum() == 200
    exact = NCA(max_rows="all")._build_problem(data)
    assert exact.points.counted.all()
    error = np.mean(values) - exact.value(exact.points, exact.start)[0]
    assert abs(error) < 4 * np.std(values) / np.sqrt(len(values))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("learner", [NCA, BoostMetric, MetricBoost, SparseNCA])
def test_rows_without_anything_to_learn_end_as_a_fit_to_all_of_them(learner):
    """Trial fits that fail are no reason for a fit to fail."""
    X, y = np.zeros((SIZE, 3)), np.arange(SIZE) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        auto = learner(random_state=0).fit(X, y)
        every = learner(random_state=0, max_rows="all").fit(X, y)
    assert auto.history_.row_curve == ()
    assert_array_equal(auto.metric_.transform(X), every.metric_.transform(X))
