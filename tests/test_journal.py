"""Interrupted fits that are resumed from a journal: the same bytes, and nothing computed twice."""

from __future__ import annotations

import contextlib
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, cross_val_score

import nearfar
from nearfar import (
    NCA,
    BoostMetric,
    C_path,
    DRMetric,
    FarTargetTriplets,
    MaxMarginMetric,
    Metric,
    MetricBoost,
    MixtureNCA,
    NearestTriplets,
    Pairs,
    RandomPairs,
    RandomTriplets,
    SparseNCA,
    Triplets,
    boosting,
    cutting_plane,
    journal,
    mixture,
    scatter,
    soft_margin,
    strategies,
    tiled,
)
from nearfar.fingerprint import digest
from nearfar.journal import Journal
from nearfar.learner import MetricLearner
from nearfar.matching_pursuit import _choose
from nearfar.records import Records
from nearfar.trace import Trace

pytestmark = pytest.mark.filterwarnings(
    f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning"
)

X, Y = load_iris(return_X_y=True)
X, Y = np.hstack([X, X**2])[::2], Y[::2]

VARIANTS = {
    "boost": BoostMetric(max_rounds=6),
    "boost from zero": BoostMetric(max_rounds=6, prior=None, scale=None, n_components=2),
    "boost from a metric": BoostMetric(max_rounds=4, prior=Metric(np.eye(8)[:3])),
    "boost, corrective": BoostMetric(max_rounds=4, corrective=True, penalty=0.1),
    "boost, validated": BoostMetric(max_rounds=8, validation_fraction=0.3, patience=2),
    "boost, both": BoostMetric(
        max_rounds=4, corrective=True, penalty=0.1, validation_fraction=0.3, patience=2
    ),
    "boost, drawn": BoostMetric(max_rounds=4, constraints=FarTargetTriplets(2, keep=0.5)),
    "metricboost": MetricBoost(max_rounds=10),
    "metricboost, normalized": MetricBoost(max_rounds=5, response="normalized"),
    "metricboost, binary": MetricBoost(max_rounds=5, response="binary"),
    "metricboost, gaussian": MetricBoost(max_rounds=5, response="binary", threshold="gaussian"),
    "metricboost, signed": MetricBoost(max_rounds=5, psd=False),
    "metricboost, listed": MetricBoost(max_rounds=5, constraints=NearestTriplets()),
    "metricboost, listed binary": MetricBoost(
        max_rounds=5, constraints=RandomTriplets(300), response="binary"
    ),
    "drmetric": DRMetric(max_rounds=5),
    "drmetric, lp": DRMetric(max_rounds=4, weights="lp"),
    "drmetric, printed": DRMetric(max_rounds=4, as_printed=True, record_weights=True),
    "maxmargin, planes": MaxMarginMetric(solver="planes", tol=1e-5, max_rounds=20),
    "maxmargin, box": MaxMarginMetric(solver="box", constraints=RandomPairs(40), max_rounds=12),
    "maxmargin, kernel": MaxMarginMetric(kernel="rbf", n_basis=10, max_rounds=6),
    "nca": NCA(max_iter=8),
    "nca, likelihood": NCA(max_iter=5, objective="likelihood", n_components=2),
    "nca, batches": NCA(max_iter=5, batch_size=20),
    "sparse nca": SparseNCA(max_iter=8),
    "sparse nca, batches": SparseNCA(max_iter=4, batch_size=20),
    "mixture": MixtureNCA(n_metrics=2, max_iter=4),
    "mixture, starts": MixtureNCA(n_metrics=2, n_init=3, max_iter=3),
    "mixture, auto": MixtureNCA(n_metrics="auto", max_iter=2),
    "mixture, printed": MixtureNCA(n_metrics=2, normalize=True, max_iter=4),
}


def test_no_learner_is_missing():
    learners = {
        m for m in vars(nearfar).values() if isinstance(m, type) and issubclass(m, MetricLearner)
    }
    assert {type(learner) for learner in VARIANTS.values()} == learners


@pytest.fixture(params=VARIANTS, ids=lambda name: name.replace(", ", "-").replace(" ", "-"))
def learner(request):
    return clone(VARIANTS[request.param]).set_params(random_state=3)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.journal"


def outcome(fitted):
    """All numbers that a fit has found, as bytes."""
    metric, trace = fitted.metric_, fitted.trace_
    parts = getattr(metric, "metrics", [metric])
    maps = [part.matrix if hasattr(part, "matrix") else part.L for part in parts]
    gate = [metric.V, metric.b] if hasattr(metric, "V") else []
    extra = [getattr(fitted, name) for name in ("gap_", "margin_", "threshold_", "weights_")
             if hasattr(fitted, name)]  # fmt: skip
    steps = [trace.objective, trace.eigenvalue, trace.step]
    return (
        trace.stopped,
        fitted.n_iter_,
        [np.asarray(a).tobytes() for a in maps + gate + extra + steps],
    )


def resumed(learner, path, y=Y, X=X):
    with Journal(path):
        return clone(learner).fit(X, y)


def interrupt_after(monkeypatch, n_records):
    """Let a process get no further than so many new records."""
    append, left = Records.append, [n_records]

    def limited(self, *record):
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        append(self, *record)

    monkeypatch.setattr(Records, "append", limited)


def resumed_in_steps(learner, path, monkeypatch, n_records, **data):
    """Run again and again, each time as far as so many new records."""
    for runs in range(1, 500):
        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            interrupt_after(patch, n_records)
            return resumed(learner, path, **data), runs
    raise AssertionError("no progress")


def test_interrupted_between_any_two_records(learner, path, monkeypatch):
    expected = outcome(clone(learner).fit(X, Y))
    found, runs = resumed_in_steps(learner, path, monkeypatch, 1)
    assert outcome(found) == expected
    assert runs > 4


@pytest.mark.parametrize("k", [1, 2, 3])
def test_interrupted_by_whoever_watches(learner, path, monkeypatch, k):
    expected = outcome(clone(learner).fit(X, Y))
    assert expected[1] > 0
    record = Trace.record

    def limited(self, rounds):
        for number, round_ in enumerate(record(self, rounds), start=1):
            yield round_
            if number == k:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(Trace, "record", limited)
        resumed(learner, path)
        assert expected[1] < k
    assert outcome(resumed(learner, path)) == expected


def test_replay_computes_nothing_that_is_expensive(learner, path, monkeypatch):
    expected = outcome(resumed(learner, path))
    size = path.stat().st_size

    def refuse(*_, **__):
        raise AssertionError("computed again")

    for owner, name in [
        (scatter.Scatter, "_top"),
        (scatter, "best_cut"),
        (tiled.TiledScatter, "matrix"),
        (tiled.TiledScatter, "sums"),
        (tiled.TiledScatter, "_judge"),
        (tiled._TiledLine, "slope"),
        (strategies, "class_neighbors"),
        (boosting.boostmetric, "newton_step"),
        (boosting.boostmetric, "minimize"),
        (boosting.metricboost, "newton_step"),
        (boosting.metricboost, "largest_squared_distance"),
        (soft_margin.SoftMargin, "best_terms"),
        (boosting.drmetric, "best_terms_by_lp"),
        (cutting_plane.problem.PairProblem, "gram"),
        (cutting_plane.solvers.MaxMargin, "line_minimum"),
        (cutting_plane.solvers, "maximize"),
        (mixture.neighborhoods.Neighborhoods, "chances"),
        (mixture.neighborhoods.Neighborhoods, "matrix_gradient"),
        (mixture.problem, "KMeans"),
        (sys.modules[_choose.__module__], "_choose"),
        (Records, "append"),
    ]:
        monkeypatch.setattr(owner, name, refuse)
    assert outcome(resumed(learner, path)) == expected
    assert path.stat().st_size == size


def test_a_lanczos_run_is_resumed_with_its_counts(path, monkeypatch):
    rng = np.random.default_rng(0)
    points, labels = rng.standard_normal((600, 120)), rng.integers(3, size=600)
    monkeypatch.setattr(scatter, "_SECONDS", scatter._SECONDS | {"eigh": 1e-6})
    calls = []
    lanczos = scatter.Scatter._lanczos
    monkeypatch.setattr(scatter.Scatter, "_lanczos", lambda *a: calls.append(a) or lanczos(*a))
    learner = BoostMetric(max_rounds=8)
    expected = outcome(clone(learner).fit(points, labels))
    assert calls
    found, runs = resumed_in_steps(learner, path, monkeypatch, 3, X=points, y=labels)
    assert outcome(found) == expected
    assert runs > 4


SCRIPT = """
import sys
from sklearn.datasets import load_digits
from nearfar import NCA, BoostMetric, MaxMarginMetric, MetricBoost
from nearfar import records
from nearfar.journal import Journal
records._SECONDS_BETWEEN_FLUSHES = 0.02
with Journal(sys.argv[1]):
    {learner}.fit(*load_digits(return_X_y=True))
"""


@pytest.mark.parametrize(
    "learner",
    [
        BoostMetric(max_rounds=400),
        MetricBoost(max_rounds=12),
        NCA(max_iter=12),
        MaxMarginMetric(tol=1e-7, max_rounds=40, random_state=0),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_killed_process(learner, path, tmp_path):
    data = load_digits(return_X_y=True)
    with Journal(tmp_path / "whole"):
        expected = outcome(clone(learner).fit(*data))
    enough = (tmp_path / "whole").stat().st_size / 3
    process = subprocess.Popen([sys.executable, "-c", SCRIPT.format(learner=learner), str(path)])
    while not (path.exists() and path.stat().st_size > enough) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    size = path.stat().st_size
    with Journal(path):
        found = clone(learner).fit(*data)
    assert outcome(found) == expected
    assert path.stat().st_size > size


def test_fits_are_found_in_any_order(path):
    learners = [BoostMetric(max_rounds=k) for k in (3, 4, 5)]
    with Journal(path):
        first = [clone(learner).fit(X, Y) for learner in learners]
    size = path.stat().st_size
    with Journal(path):
        again = [clone(learner).fit(X, Y) for learner in reversed(learners)]
    assert [outcome(f) for f in first] == [outcome(f) for f in reversed(again)]
    assert path.stat().st_size == size


def test_equal_fits_have_records_of_their_own(path):
    learner = NCA(batch_size=20, max_iter=2)
    with Journal(path):
        first = [outcome(clone(learner).fit(X, Y)) for _ in range(3)]
    assert first[0] != first[1]
    with Journal(path):
        again = [outcome(clone(learner).fit(X, Y)) for _ in range(3)]
    assert again == first


def test_a_failed_fit_goes_on_in_the_same_block(path, monkeypatch):
    learner = BoostMetric(max_rounds=5)
    with Journal(path):
        with monkeypatch.context() as patch:
            interrupt_after(patch, 5)
            with pytest.raises(KeyboardInterrupt):
                clone(learner).fit(X, Y)
        found = clone(learner).fit(X, Y)
    with Journal(path), monkeypatch.context() as patch:
        interrupt_after(patch, 0)
        assert outcome(clone(learner).fit(X, Y)) == outcome(found)


def test_cross_validation_and_paths(path, monkeypatch):
    def run():
        scores = cross_val_score(
            BoostMetric(max_rounds=3), X, Y, cv=KFold(3, shuffle=True, random_state=0)
        )
        found = C_path(X, Y, [1, 100], cv=2, random_state=0)
        return scores.tolist(), found.scores.tolist(), [outcome(f) for f in found.learners]

    expected = run()
    with monkeypatch.context() as patch:
        interrupt_after(patch, 50)
        with Journal(path), pytest.raises(KeyboardInterrupt):
            run()
    with Journal(path):
        assert run() == expected


@pytest.mark.parametrize("seed", [None, np.random.RandomState(5)], ids=["none", "instance"])
def test_random_states_that_are_no_numbers(path, monkeypatch, seed):
    learner = NCA(batch_size=20, max_iter=4, random_state=seed)
    state = None if seed is None else seed.get_state()
    with Journal(path):
        expected = outcome(learner.fit(X, Y))
    if seed is not None:
        seed.set_state(state)
    interrupt_after(monkeypatch, 0)
    with Journal(path):
        assert outcome(learner.fit(X, Y)) == expected


def test_a_random_state_of_another_kind_is_refused(path):
    seed = np.random.RandomState(np.random.PCG64(0))
    with Journal(path), pytest.raises(ValueError, match="takes an int, None or a plain"):
        NCA(batch_size=20, random_state=seed).fit(X, Y)


def test_threads_that_share_a_journal(path):
    learners = [BoostMetric(max_rounds=k) for k in (3, 3, 4, 5)] + [NCA(max_iter=4)]
    expected = [outcome(clone(learner).fit(X, Y)) for learner in learners]

    def run():
        found = [None] * len(learners)

        def work(number):
            found[number] = outcome(clone(learners[number]).fit(X, Y))

        with Journal(path):
            threads = [
                threading.Thread(target=contextvars.copy_context().run, args=(work, number))
                for number in range(len(learners))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return found

    assert run() == expected
    size = path.stat().st_size
    assert run() == expected
    assert path.stat().st_size == size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_leaves_the_journal_alone(path):
    def work(value):
        with journal.section():
            journal.identify(lambda: value)
            journal.recall("value", lambda: (value,))

    with Journal(path):
        work(1)
        child = os.fork()
        if child == 0:
            try:
                work(2)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    size = path.stat().st_size
    with Journal(path):
        work(1)
    assert path.stat().st_size == size


def test_a_stale_record_is_refused(path, monkeypatch):
    monkeypatch.setattr(journal, "digest", lambda value: bytes(28))
    resumed(BoostMetric(max_rounds=3), path)
    with pytest.raises(ValueError, match=r"run\.journal: the record is not of this fit"):
        resumed(BoostMetric(max_rounds=3, prior_weight=0.5), path)
    with pytest.raises(ValueError, match="the record is not of this fit"):
        resumed(NCA(), path)


def test_one_journal_at_a_time(path):
    with Journal(path) as first:
        with pytest.raises(ValueError, match="in use by another process"), Journal(path):
            pass
        with pytest.raises(ValueError, match="open already"), first:
            pass
        first.close()
        with pytest.raises(ValueError, match="is closed"):
            BoostMetric(max_rounds=2).fit(X, Y)
    assert path.exists()
    first.discard()
    assert not path.exists()
    first.discard()


def test_what_a_fit_is_known_by():
    values = [
        None, 0, 0.0, False, "0", b"0", (0,), [0], [[0]], [0, 0], ([0], 0), {0: 0}, {0},
        np.zeros(1),
        np.zeros((1, 1)), np.zeros(1, "f4"), np.zeros((2, 2)), np.zeros((2, 2), order="F"),
        np.zeros((4, 4))[::2, ::2], np.array(0), np.array(["0", None], dtype=object), NCA, np.dot,
        BoostMetric(), BoostMetric(max_rounds=1), NearestTriplets(), NearestTriplets(2), np,
        Triplets([[0, 1, 2]]), Triplets([[0, 1, 2]], [1.0]), Pairs([[0, 1]], [True]),
        Pairs([[0, 1]], [False]), Metric(np.eye(2)), Metric(2 * np.eye(2)), lambda x: x,
        lambda x: -x, partial(max, 1), partial(max, 2), partial(min, 1), (lambda a: lambda x: a)(1),
        (lambda a: lambda x: a)(2), np.random.RandomState(0), np.random.RandomState(1),
    ]  # fmt: skip
    digests = [digest(value) for value in values]
    assert len(set(digests)) == len(values)
    assert digests == [digest(value) for value in values]
    assert digest(np.float64(0.5)) == digest(0.5)
    assert digest(np.arange(1 << 20)) == digest(np.arange(1 << 20))


def test_verbosity_does_not_matter_but_data_do(path, capsys):
    resumed(BoostMetric(max_rounds=3), path)
    size = path.stat().st_size
    resumed(BoostMetric(max_rounds=3, verbose=1), path)
    assert path.stat().st_size == size
    resumed(BoostMetric(max_rounds=3), path, X=X.astype(np.float32))
    assert path.stat().st_size > size


def test_without_a_journal_nothing_is_recorded(monkeypatch):
    monkeypatch.setattr(Records, "__init__", None)
    assert journal.recall("call", lambda: (1,)) == (1,)
    BoostMetric(max_rounds=2).fit(X, Y)
