"""Estimators and a clock that tests control."""

from __future__ import annotations

from sklearn.base import BaseEstimator

from nearfar import Metric
from nearfar.runtime.deadline import check_time, should_stop


class FakeClock:
    """A clock that moves only when told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def __deepcopy__(self, memo):
        # scikit-learn's `clone` copies parameters; there must be one clock only.
        return self

    def __reduce__(self):
        return FakeClock, ()


class Timed(BaseEstimator):
    """Euclidean distance, after so many seconds of the clock."""

    def __init__(self, clock=None, seconds=1.0):
        self.clock = clock
        self.seconds = seconds

    def fit(self, X, y):
        self.clock.now += self.seconds
        check_time()
        self.metric_ = Metric.identity(X.shape[1])
        return self


class Gradual(BaseEstimator):
    """Euclidean distance, or nothing if it is bad, in ten steps that take longer with more rows.

    It takes so many seconds of the clock on 300 rows, and stops early when asked to.
    """

    def __init__(self, clock=None, seconds=1.0, power=1.0, good=True):
        self.clock = clock
        self.seconds = seconds
        self.power = power
        self.good = good

    def fit(self, X, y):
        for _ in range(10):
            self.clock.now += self.seconds * (len(X) / 300) ** self.power / 10
            check_time()
            if should_stop():
                break
        self.metric_ = Metric.identity(X.shape[1]) if self.good else Metric(0 * X[:1])
        return self


class Fixed(BaseEstimator):
    """A metric that is given."""

    def __init__(self, metric=None):
        self.metric = metric

    def fit(self, X, y):
        self.metric_ = self.metric
        return self

    def __sklearn_clone__(self):
        return Fixed(self.metric)


class Failing(BaseEstimator):
    def __init__(self, kind=ValueError):
        self.kind = kind

    def fit(self, X, y):
        raise self.kind("not with these rows.\nand a long story")
