from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import polars as pl
import pytest

from nearfar import (
    NCA,
    RCA,
    AutoMetric,
    BoostMetric,
    Chunklets,
    DRMetric,
    MaxMarginMetric,
    RandomPairs,
    RandomTriplets,
    open_rows,
)
from nearfar.constraints import Supervision
from nearfar.learners import estimate
from nearfar.learners.estimate import Estimate, Measured, estimate_fit, extrapolate, grown
from nearfar.learners.fitting import Data
from problems import labelled


def fits(sizes, *, rows=None, validation=0.0, preparation=0.0, iteration=0.0, number=10):
    """Fits whose phases are functions of the size."""

    def at(value, n):
        return value(n) if callable(value) else value

    return [
        Measured(
            n,
            n if rows is None else rows(n),
            at(validation, n),
            at(preparation, n),
            at(iteration, n),
            at(number, n),
            100,
        )
        for n in sizes
    ]


SIZES = (250, 500, 1000, 2000)


class TestExtrapolation:
    @pytest.mark.parametrize(
        "cost",
        [lambda n: 3.0, lambda n: 2.0 + 0.01 * n, lambda n: 1 + 1e-3 * n + 1e-5 * n**2],
    )
    def test_phases_are_polynomials(self, cost):
        found, _ = extrapolate(fits(SIZES, preparation=cost), 50_000, 50_000)
        assert found == pytest.approx(cost(50_000), rel=1e-6)

    def test_iterations_times_their_cost(self):
        found, number = extrapolate(fits(SIZES, iteration=lambda n: 1e-4 * n), 10_000, 10_000)
        assert (found, number) == pytest.approx((10.0, 10.0))

    def test_iterations_grow_up_to_max_iter(self):
        grows = fits((1000, 4000), iteration=1.0, number=lambda n: round((n / 10) ** 0.5))
        assert extrapolate(grows, 16_000, 16_000)[1] == pytest.approx(40)
        assert extrapolate(grows, 10**7, 10**7)[1] == 100

    def test_validation_is_bounded(self):
        measured = fits(SIZES[:3], validation=lambda n: 0.001 * n)
        assert extrapolate(measured, 10**6, 10**6)[0] == pytest.approx(2.0)
        left_out = [*measured, Measured(2000, 2000, np.nan, 0.0, 0.0, 10, 100)]
        assert extrapolate(left_out, 10**6, 10**6)[0] == pytest.approx(2.0)

    def test_constraints_and_rows_count_apart(self):
        """Few constraints touch three rows each, many touch all of them."""
        measured = fits(
            (250, 1000, 4000, 8000),
            rows=lambda m: min(3 * m, 6000),
            preparation=lambda m: 1e-3 * min(3 * m, 6000) + 1e-5 * m,
        )
        assert extrapolate(measured, 10**6, 6000)[0] == pytest.approx(16.0, rel=1e-6)

    def test_what_was_measured_whole(self):
        measured = fits((250, 300), preparation=lambda n: n, validation=0.5, iteration=0.1)
        assert extrapolate(measured, 300, 300) == (pytest.approx(301.5), 10)

    def test_nothing_takes_no_time(self):
        assert grown([(1, 1), (2, 2)], [0.0, 0.0], (9, 9)) == 0.0


def test_the_clock_is_the_only_source_of_seconds():
    """Each look at the clock takes a second."""
    X, y, _ = labelled(n=3000)
    ticks = iter(range(10**6))
    learner = RCA()
    data = learner._checked(X, y)
    found = estimate_fit(learner._method(), data, budget=1e9, clock=lambda: float(next(ticks)))
    assert found.seconds == 4.0
    assert found.iterations == 1


def settings():
    X, y, _ = labelled(n=6000, n_features=16)
    random = np.random.RandomState(0)
    quick = {"n_jobs": 1, "max_iter": 5}
    return {
        "closed form": (RCA(), X, y),
        "chunklets": (RCA(), X, Chunklets(np.arange(6000) // 4)),
        "boosting": (BoostMetric(**quick), X, y),
        "triplets": (BoostMetric(**quick), X, RandomTriplets(30_000)(X, y, random)),
        "pairs": (MaxMarginMetric(n_jobs=1), X, RandomPairs(12_000)(X, y, random)),
        "NCA": (NCA(**quick), X, y),
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", list(settings()))
def test_memory_within_a_factor_of_two(name):
    learner, X, y = settings()[name]
    found = learner.estimate(X, y, budget=0.3)
    tracemalloc.start()
    learner.fit(X, y)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken / 2 < found.bytes < 2 * taken
    assert found.bytes == pytest.approx(sum(found.memory.values()))


def test_estimates_change_nothing():
    X, y, _ = labelled(n=400)
    learner = DRMetric(random_state=np.random.RandomState(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = learner.estimate(X, y, budget=0.1)
    assert isinstance(found, Estimate)
    assert set(vars(learner)) == set(DRMetric().__dict__)
    assert learner.random_state.randint(100) == np.random.RandomState(0).randint(100)
    assert not tracemalloc.is_tracing()


def test_a_budget_of_its_own():
    X, y, _ = labelled(n=300)
    learner = AutoMetric(budget=30.0, candidates=["RCA"])
    assert learner.estimate(X, y, budget=0.1).seconds == 30.0


@pytest.mark.parametrize("n_classes", [3, 1500])
def test_samples_have_pairs_of_a_class(n_classes):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6000, 2)), np.arange(6000) % n_classes
    part = estimate._sample(Data(X, Supervision.of(y, len(X))), 300)
    labels = part.supervision.codes
    assert part.X.shape == (300, 2)
    assert np.median(np.bincount(labels)[np.unique(labels)]) >= 4
    assert RCA().estimate(X, y, budget=0.05).bytes > X.nbytes / 2


def test_samples_of_constraints():
    X, y, _ = labelled(n=500)
    triplets = RandomTriplets(400)(X, y, np.random.RandomState(0))
    data = Data(X, Supervision.of(triplets, len(X)))
    part = estimate._sample(data, 100)
    few = part.supervision.given
    assert len(few) == 100
    few.check(len(part.X))
    given = {tuple(X[index].ravel()) for index in triplets.index}
    assert all(tuple(part.X[index].ravel()) in given for index in few.index)
    assert estimate._sample(data, 400) is data


def test_bad_input():
    X, y, _ = labelled()
    with pytest.raises(ValueError, match="at least two classes"):
        RCA().estimate(X, np.zeros(60))
    with pytest.raises(ValueError, match="shrinkage"):
        RCA(shrinkage=2.0).estimate(X, y)


def test_one_sentence():
    memory = {"scaled rows": 1e9, "the rest": 5e8}
    found = Estimate("NCA", (10_000, 64), 30.0, 1.5e9, 200.0, memory)
    assert str(found) == (
        "NCA on 10,000 rows x 64 features: about 30 s and 1.5 GB beyond X, mostly scaled rows."
    )


@pytest.mark.parametrize("kind", ["npy", "parquet", "dask", "rows"])
def test_of_rows_that_are_not_in_memory_samples_are_read(kind, tmp_path, monkeypatch):
    X, y = labelled(0, 3000, 6)[:2]
    source = tmp_path / f"X.{'npy' if kind == 'rows' else kind}"
    if kind == "parquet":
        pl.DataFrame(X).write_parquet(source)
    elif kind == "dask":
        source = pytest.importorskip("dask.array").from_array(X, chunks=(1000, 6))
    else:
        np.save(source, X)
    rows = open_rows(source)
    read, take = [], type(rows).__getitem__
    monkeypatch.setattr(
        type(rows),
        "__getitem__",
        lambda self, index: (read.append(len(index)), take(self, index))[1],
    )
    found = BoostMetric(max_iter=3).estimate(rows if kind == "rows" else source, y, budget=1e-3)
    assert found.shape == (3000, 6)
    assert found.seconds > 0
    assert found.bytes > 0
    assert found.memory["scaled rows"] == 0
    assert 0 < max(read) < 3000


def test_learners_that_need_rows_in_memory_say_so(tmp_path):
    X, y = labelled(0, 300, 6)[:2]
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match="not in memory"):
        NCA().estimate(tmp_path / "X.npy", y)
