"""Estimators and a clock that tests control."""

from __future__ import annotations

from sklearn.base import BaseEstimator

from nearfar import Metric


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
        self.metric_ = Metric.identity(X.shape[1])
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
