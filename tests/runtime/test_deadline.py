from __future__ import annotations

import contextvars
from concurrent.futures import ThreadPoolExecutor

import pytest
from sklearn.datasets import load_iris

from nearfar import BoostMetric, MixtureNCA
from nearfar.runtime.history import Iteration
from nearfar.runtime.progress import (
    FitInProgress,
    OutOfTimeError,
    WorkClock,
    check_time,
    deadline,
    early_stop,
    watched,
)
from problems import half_of


class Clock:
    """A clock that moves by `tick` whenever it is read."""

    def __init__(self, tick=0.0):
        self.now, self.tick = 0.0, tick

    def __call__(self):
        self.now += self.tick
        return self.now


def test_time_is_checked_against_the_clock():
    clock = Clock()
    check_time()
    with deadline(5.0, clock=clock):
        clock.now = 5.0
        check_time()
        clock.now = 5.1
        with pytest.raises(OutOfTimeError, match="Out of time"):
            check_time()
    check_time()


@pytest.mark.parametrize(("outer", "inner"), [(1.0, 9.0), (9.0, 1.0)])
def test_the_earlier_of_two_deadlines_counts(outer, inner):
    clock = Clock()
    with deadline(outer, clock=clock), deadline(inner, clock=clock):
        clock.now = 2.0
        with pytest.raises(OutOfTimeError):
            check_time()


def test_threads_see_it_only_in_a_copied_context():
    with deadline(-1.0), ThreadPoolExecutor(1) as pool:
        pool.submit(check_time).result()
        with pytest.raises(OutOfTimeError):
            pool.submit(contextvars.copy_context().run, check_time).result()


@pytest.mark.parametrize(
    "learner",
    [BoostMetric(scale="standard", tol=0.0), MixtureNCA(scale="standard", n_metrics=2)],
    ids=str,
)
def test_a_fit_ends_and_leaves_the_learner_as_it_was(learner):
    X, y, _ = half_of("wine")
    with deadline(5.5, clock=Clock(tick=1.0)), pytest.raises(OutOfTimeError):
        learner.fit(X, y)
    assert not hasattr(learner, "metric_")


class TestEarlyStop:
    FIT = FitInProgress("it", 9, lambda: None)

    @staticmethod
    def iterations(clock, checks=1):
        """Nine iterations of a second, with checks of the time in between."""
        for number in range(1, 10):
            for _ in range(checks):
                clock.now += 1 / checks
                check_time()
            yield Iteration(float(number))

    @pytest.mark.parametrize(
        ("seconds", "checks", "expected", "end"),
        [(-1, 1, 1, 1), (0.5, 1, 1, 1), (1.5, 1, 1, 2), (2.6, 4, 2, 2.75), (99, 1, 9, 9)],
    )
    def test_a_fit_ends_at_a_check_and_keeps_its_iterations(self, seconds, checks, expected, end):
        clock = Clock()
        with early_stop(seconds, clock=clock) as stop:
            seen = list(watched(self.iterations(clock, checks), self.FIT))
            # After the fit, checks are for deadlines only.
            check_time()
        assert len(seen) == expected
        assert clock.now == end
        assert stop.happened == (expected < 9)

    def test_without_an_iteration_there_is_nothing_to_keep(self):
        clock = Clock()
        iterations = watched(self.iterations(clock), self.FIT)
        out_of_time = pytest.raises(OutOfTimeError, match="Out of time")
        with early_stop(0.2, clock=clock), deadline(0.5, clock=clock), out_of_time:
            list(iterations)

    @pytest.mark.parametrize(
        "learner", [BoostMetric(scale="standard"), MixtureNCA(scale="standard", random_state=0)]
    )
    def test_the_metric_so_far_is_kept(self, learner):
        with early_stop(5, clock=Clock(tick=1.0)) as stop:
            learner.fit(*load_iris(return_X_y=True))
        assert stop.happened
        assert 1 <= learner.n_iter_ < 5
        assert learner.history_.stopped == "callback"
        assert learner.metric_.n_features == 4


class TestWorkClock:
    @pytest.mark.parametrize(
        ("passed", "used", "expected"),
        [(6, 6, 6), (6, 12, 6), (6, 3, 3), (6, 0.5, 2)],
        ids=["one core", "two cores", "half of a core", "a twelfth"],
    )
    def test_other_processes_do_not_count_up_to_a_limit(self, passed, used, expected):
        wall, processor = Clock(), Clock()
        wall.now, processor.now = 100.0, 7.0
        clock = WorkClock(wall, processor)
        assert clock() == 0
        wall.now, processor.now = 100.0 + passed, 7.0 + used
        assert clock() == expected
