from __future__ import annotations

import importlib.util
import io
import sys

import pytest

from nearfar import BoostMetric, MetricNeighborsClassifier, MixtureNCA
from nearfar.runtime import progress
from nearfar.runtime.history import Iteration
from nearfar.runtime.progress import FitInProgress, show, watched, watching
from problems import half_of

FIT = FitInProgress("Learner", 100, lambda: None)


class Watcher:
    """Takes notes of all fits."""

    def __init__(self, stop_after=None):
        self.fits, self.numbers, self.metrics, self.stop_after = [], [], [], stop_after

    def __call__(self, iterations, fit):
        self.fits.append(fit)
        self.numbers.append(0)
        for iteration in iterations:
            self.numbers[-1] += 1
            self.metrics.append(fit.metric())
            yield iteration
            if self.numbers[-1] == self.stop_after:
                return


def test_watchers_see_every_iteration_of_every_fit():
    X, y, _ = half_of("iris")
    watcher = Watcher()
    with watching(watcher):
        learner = BoostMetric(scale="standard", max_iter=4).fit(X, y)
        learner_of_three = BoostMetric(scale="standard", max_iter=3)
        MetricNeighborsClassifier(learner_of_three, 3, calibrate=False).fit(X, y)
    BoostMetric(scale="standard", max_iter=2).fit(X, y)
    assert watcher.numbers == [4, 3]
    assert [fit.max_iter for fit in watcher.fits] == [4, 3]
    assert {fit.name for fit in watcher.fits} == {"BoostMetric"}
    stages = [metric.matrix.tolist() for metric in learner.staged_metrics()]
    assert [metric.matrix.tolist() for metric in watcher.metrics[:4]] == stages


def test_several_watchers_see_the_same():
    first, second = Watcher(), Watcher()
    with watching(first), watching(second):
        list(watched([Iteration(1.0), Iteration(2.0)], FIT))
    assert first.numbers == second.numbers == [2]


def test_a_watcher_may_end_a_fit():
    X, y, _ = half_of("iris")
    with watching(Watcher(stop_after=3)):
        learner = BoostMetric(scale="standard", max_iter=10).fit(X, y)
    assert learner.n_iter_ == 3
    assert learner.history_.stopped == "callback"


def test_watchers_end_with_their_block_also_after_errors():
    watcher = Watcher()
    with pytest.raises(RuntimeError), watching(watcher):
        raise RuntimeError
    list(watched([Iteration(1.0)], FIT))
    assert watcher.numbers == []


def test_watchers_see_every_start():
    X, y, _ = half_of("iris")
    watcher = Watcher()
    with watching(watcher):
        learner = MixtureNCA(scale="standard", n_metrics=2, n_init=3, tol=1e-2, random_state=0).fit(
            X, y
        )
    assert watcher.numbers == [learner.n_iter_]
    assert {iteration.restart for iteration in learner.history_} == {0, 1, 2}
    assert learner.n_iter_ <= watcher.fits[0].max_iter


def test_progress_is_one_line_that_is_written_at_most_five_times_a_second(monkeypatch):
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    stream = io.StringIO()
    for _ in show((Iteration(0.5) for _ in range(10)), FIT, stream=stream):
        now += 0.11
    first, *others, last = stream.getvalue().split("\r")[1:]
    assert first.startswith(
        "Learner: iteration 3 of at most 100, objective 0.5000, at most 7 s left"
    )
    assert len(others) == 3
    assert last.rstrip(" ") == f"Learner: 10 iterations in 1.1 s{' ' * 40}\n"


def test_progress_of_no_iterations(capsys):
    assert list(show([], FIT)) == []
    assert "Learner: 0 iterations in" in capsys.readouterr().err


def test_older_scikit_learn_has_no_callbacks(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = importlib.util.spec_from_file_location("progress_without_callbacks", progress.__file__)
    old = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, old)
    spec.loader.exec_module(old)
    estimator = old.CallbackSupportMixin()
    assert estimator.set_callbacks() is estimator
    with pytest.raises(RuntimeError, match=r"scikit-learn 1\.9"):
        estimator.set_callbacks(object())
    iterations = old.observed([1, 2], FIT, estimator, None, None, attributes=dict, notes=None)
    assert list(iterations) == [1, 2]
    assert old.with_callbacks(len) is len
