from __future__ import annotations

import importlib.util
import io
import sys

import pytest

import nearfar
from nearfar import BoostMetric, MetricNeighborsClassifier, MixtureNCA
from nearfar.runtime import progress
from nearfar.runtime.history import Iteration
from nearfar.runtime.progress import (
    FitInProgress,
    Lines,
    displayed,
    observed,
    stage,
    tracked,
    watched,
    watching,
)
from nearfar.runtime.threads import ThreadExecutor
from problems import half_of

FIT = FitInProgress("Learner", 100, lambda: None)
BEFORE = ["checking the rows", "choosing the scale", "trial fits on held-out data"]
STAGES = [
    ("BoostMetric", [*BEFORE, "scaling the rows", "mining triplets", "BoostMetric, iterations"]),
    ("NCA", [*BEFORE, "scaling the rows", "NCA, iterations", "building the metric"]),
]
"""Stages of fits, in their order."""


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
        MetricNeighborsClassifier(learner_of_three, 3, votes="whole").fit(X, y)
    BoostMetric(scale="standard", max_iter=2).fit(X, y)
    assert watcher.numbers == [4, 3]
    assert [fit.max_iter for fit in watcher.fits] == [4, 3]
    assert {fit.name for fit in watcher.fits} == {"BoostMetric"}
    stages = [metric.matrix.tolist() for metric in learner.staged_metrics()]
    assert [metric.matrix.tolist() for metric in watcher.metrics[:4]] == stages


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


@pytest.mark.parametrize("number", [10, 0])
def test_notes_and_the_number_of_iterations(monkeypatch, capsys, number):
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    done = [Iteration(0.5)] * number
    for _ in observed(done, FIT, None, None, None, attributes=dict, notes=["a note"]):
        now += 0.11
    first, last, _ = capsys.readouterr().err.split("\n")
    assert first == "Learner: a note"
    assert last.strip() == f"Learner: {number} iterations in {0.11 * number:.1f} s"


def seen_by(lines, written):
    """Return what a display writes about what is being done now."""
    lines._next = 0.0
    lines.look()
    return written.getvalue().splitlines()[-1]


def test_stages_and_loops_tell_how_far_they_are(monkeypatch):
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    written = io.StringIO()
    lines = Lines(written, clock=lambda: now)
    lines.update(0, 1, "NCA on all rows")
    with displayed(lines):
        with stage("mining triplets"):
            assert seen_by(lines, written) == "Progress: NCA on all rows, mining triplets"
            for band in tracked(range(2), 2):
                for block in tracked(range(10), 10):
                    if (band, block) == (1, 5):
                        now = 30.0
                        assert seen_by(lines, written) == (
                            "Progress: NCA on all rows, mining triplets, 75 % done, about 10 s left"
                        )
        for _ in watched([Iteration(0.5)] * 4, FIT):
            now += 5.0
        assert seen_by(lines, written) == "Progress: NCA on all rows"


def test_iterations_tell_their_objective_and_the_time_left(monkeypatch):
    now, written = 0.0, io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    lines, found = Lines(written, clock=lambda: now), []

    def solver():
        # Before the first iteration, the blocks of a pass over the rows are a sign of life.
        blocks = tracked(range(3), 3)
        assert [next(blocks) for _ in range(3)] == [0, 1, 2]
        found.append(seen_by(lines, written))
        assert list(blocks) == []
        for _ in range(4):
            yield Iteration(0.5)

    with displayed(lines):
        for _ in watched(solver(), FIT):
            now += 5.0
            found.append(seen_by(lines, written))
    assert found[0] == "Progress: Learner, iterations, 0 of at most 100 done, block 2 of 3"
    assert found[2] == (
        "Progress: Learner, iterations, 2 of at most 100 done, objective 0.5000, at most 8 min left"
    )


def test_a_line_is_written_over_in_notebooks(monkeypatch):
    written = io.StringIO()
    lines = Lines(written, clock=lambda: 0.0, rewrite=True)
    for label in ("a long label", "short"):
        lines.update(0, 1, label)
        lines.look()
    assert written.getvalue() == "\ra long label\rshort       "


def test_stages_do_nothing_if_nobody_looks():
    with stage("mining triplets"):
        assert list(tracked("abc", 3)) == list("abc")
        assert progress.current_levels.get() is None


def test_work_on_threads_is_counted_by_the_loop_that_collects_it():
    written = io.StringIO()
    with displayed(Lines(written)):
        levels = ThreadExecutor().map(progress.current_levels.get, [()] * 8)
        assert list(levels) == [None] * 8


def test_a_closed_stream_ends_the_display_and_not_the_work():
    written = io.StringIO()
    lines = Lines(written, rewrite=True)
    lines.update(0, 1, "work")
    with displayed(lines):
        written.close()
        with pytest.raises(ValueError, match="closed"):
            lines.look()


@pytest.mark.parametrize(("name", "stages"), STAGES)
def test_fits_pass_through_their_stages(monkeypatch, name, stages):
    seen = []

    class Seen(list):
        def append(self, level):
            seen.append(level.name)
            super().append(level)

    lines = Lines(io.StringIO())
    lines.levels = Seen(lines.levels)
    X, y, _ = half_of("iris")
    with displayed(lines):
        getattr(nearfar, name)().fit(X, y)
    found = iter(seen)
    assert all(each in found for each in stages)
    assert len(lines.levels) == 1


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
    two = [Iteration(1.0), Iteration(2.0)]
    iterations = old.observed(two, FIT, estimator, None, None, attributes=dict, notes=None)
    assert list(iterations) == two
    assert old.with_callbacks(len) is len
