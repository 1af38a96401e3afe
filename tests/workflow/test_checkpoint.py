"""Interrupted commands continue where they stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import warnings
from inspect import signature

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import nearfar
from cli.conftest import LABELS, NAMES, NCA_ONLY
from nearfar import NCA, RCA, BoostMetric, Metric, NearestTriplets
from nearfar.constraints import approximate_mining, mining
from nearfar.learners.base import known_learners
from nearfar.learners.boosting.triplet_operator import TripletOperator
from nearfar.learners.nca.soft_neighbors import SoftNeighbors
from nearfar.metrics.file_format import read_metadata
from nearfar.runtime.progress import watching
from nearfar.workflow import checkpoint
from nearfar.workflow.checkpoint import FitCheckpoint, can_continue

LEARN = ["learn", "iris.csv", *LABELS, "--out", "done", "--checkpoint", "kept"]
FIT = [*LEARN, "--no-comparison", "--method", "nca"]
COMPARE = ["compare", "iris.csv", *LABELS, "--folds", 2, "--checkpoint", "kept"]
COMPARE += ["--method", "boost", "--method", "nca"]
CALIBRATIONS = 5
"""Fits without a fold, for probabilities of votes."""


class Interruption:
    """Counts iterations of fits but those of plain methods, and interrupts one of them."""

    def __init__(self, fit=None, iteration=0):
        self.fit, self.iteration = fit, iteration
        self.fits = []

    def __call__(self, iterations, fit):
        if fit.name in ("InverseCovariance", "LDA"):
            yield from iterations
            return
        self.fits.append(0)
        source = iter(iterations)
        while True:
            if len(self.fits) == self.fit and self.fits[-1] == self.iteration:
                raise KeyboardInterrupt
            iteration = next(source, None)
            if iteration is None:
                return
            self.fits[-1] += 1
            yield iteration


def interrupted(run, command, fit, iteration):
    seen = Interruption(fit, iteration)
    with watching(seen):
        return run(*command, code=130)


def test_an_interrupted_fit_continues(run, document, folder, iris):
    result = interrupted(run, FIT, 1, 4)
    assert "in kept and kept.steps; run the same command again to continue." in result.stderr
    assert not (folder / "done").exists()
    with pytest.warns(ConvergenceWarning):
        expected = NCA(max_iter=4, random_state=0, validation_fraction=None).fit(*iris).metric_
    kept = Metric.load("kept")
    np.testing.assert_allclose(kept.matrix, expected.matrix, rtol=1e-10)
    assert kept.feature_names == tuple(NAMES)
    found = document(*FIT)
    assert not (folder / "kept").exists()
    assert not (folder / "kept.steps").exists()
    never_stopped = NCA(random_state=0).fit(*iris)
    assert found["iterations"] == never_stopped.n_iter_
    np.testing.assert_array_equal(Metric.load("done").L, never_stopped.metric_.L)


def test_an_interrupted_closed_form_starts_again(run, document, iris):
    command = [*LEARN, "--no-comparison", "--method", "rca"]
    interrupted(run, command, 1, 1)
    assert document(*command)["iterations"] == 1
    np.testing.assert_array_equal(Metric.load("done").L, RCA().fit(*iris).components_)


def test_iterations_are_counted_over_all_runs(run, document):
    nine = [*FIT, "--max-iter", 9, "--set", "validation_fraction=None"]
    interrupted(run, nine, 1, 4)
    seen = Interruption()
    with watching(seen):
        found = document(*nine)
    assert seen.fits[0] == 9
    assert len(seen.fits) == 1 + CALIBRATIONS
    assert found["iterations"] == 9


def test_the_metric_is_saved_now_and_then(run, monkeypatch):
    seen = []
    ticks = iter(range(0, 1000, 7))
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: next(ticks))
    save = Metric.save
    monkeypatch.setattr(Metric, "save", lambda self, *a, **k: (seen.append(k), save(self, *a, **k)))
    run(*FIT, "--max-iter", 9, "--set", "validation_fraction=None")
    kept = [k["metadata"]["checkpoint"] for k in seen if "checkpoint" in k["metadata"]]
    done = [json.loads(text)["iterations"] for text in kept]
    assert done == [1, 6]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--method", "boost"], "other method"),
        (["--set", "sparsity=0.5"], "other parameters"),
        (["--drop", "a"], "other data"),
    ],
)
def test_another_fit_is_refused(run, folder, change, message):
    interrupted(run, FIT, 1, 2)
    before = (folder / "kept").read_bytes()
    method = ["--method", "sparsenca"] if "--set" in change else []
    if method:
        (folder / "kept").unlink()
        assert "kept.steps is not of this fit" in run(*FIT, *method, code=2).stderr
        (folder / "kept.steps").unlink()
        interrupted(run, [*FIT, *method], 1, 2)
        before = (folder / "kept").read_bytes()
    assert message in run(*FIT, *method, *change, code=2).stderr
    assert (folder / "kept").read_bytes() == before
    assert not (folder / "done").exists()


def test_other_constraints_are_refused(run, fail):
    rows = ["learn", "rows.npy", "--no-comparison", "--method", "maxmargin", "--checkpoint", "kept"]
    interrupted(run, [*rows, "--pairs", "pairs.csv"], 1, 2)
    pl.read_csv("pairs.csv")[1:].write_csv("fewer.csv")
    assert "other data" in fail(*rows, "--pairs", "fewer.csv")
    run(*rows, "--pairs", "pairs.csv")


@pytest.mark.parametrize("content", [b"", b"text", None])
def test_what_is_not_a_checkpoint_is_refused(fail, folder, content):
    if content is None:
        Metric.identity(4).save("kept")
    else:
        (folder / "kept").write_bytes(content)
    before = (folder / "kept").read_bytes()
    assert "kept is not a checkpoint" in fail(*FIT)
    assert (folder / "kept").read_bytes() == before


def test_an_interrupted_comparison_continues(run, document, folder):
    result = interrupted(run, COMPARE, 4, 1)
    assert "in kept; run the same command again to continue." in result.stderr
    assert (folder / "kept").exists()
    seen = Interruption()
    with watching(seen):
        found = document(*COMPARE)
    assert len(seen.fits) == 1
    assert not (folder / "kept").exists()
    expected = document(*COMPARE)
    for one, other in zip(found["methods"], expected["methods"], strict=True):
        assert one | {"fit_seconds": 0} == other | {"fit_seconds": 0}


def test_learn_keeps_the_comparison_and_the_fit(run, folder):
    command = [*LEARN, "--method", "nca", "--folds", 2]
    result = interrupted(run, command, 3, 4)
    assert "in kept and kept.steps and kept.comparison;" in result.stderr
    assert json.loads(read_metadata("kept")["checkpoint"])["iterations"] == 4
    seen = Interruption()
    with watching(seen):
        run(*command)
    assert len(seen.fits) == 1 + CALIBRATIONS
    assert not list(folder.glob("kept*"))


@pytest.mark.usefixtures("few_learners")
def test_best_keeps_the_comparison(run, folder):
    command = [*LEARN, "--method", "best", "--folds", 2, "--only-if-significant"]
    interrupted(run, command, 2, 1)
    assert (folder / "kept.comparison").exists()
    seen = Interruption()
    with watching(seen):
        result = run(*command, code=3)
    assert len(seen.fits) == 1
    assert "Nothing was written" in result.stdout
    assert not list(folder.glob("kept*"))


def test_autometric_keeps_the_comparison(run, folder):
    command = [*LEARN, *NCA_ONLY, "--folds", 2, "--goal", "ranking"]
    result = interrupted(run, command, 2, 1)
    assert "in kept.comparison; run the same command again" in result.stderr
    assert not (folder / "kept").exists()
    seen = Interruption()
    with watching(seen):
        run(*command)
    assert len(seen.fits) == 1
    assert not list(folder.glob("kept*"))


def test_report_keeps_the_comparison(run, folder):
    command = ["report", "iris.csv", *LABELS, "--method", "boost", "--folds", 2]
    command += ["--checkpoint", "kept"]
    interrupted(run, command, 3, 2)
    assert (folder / "kept").exists()
    seen = Interruption()
    with watching(seen):
        run(*command)
    # All rows, and the rows that the report does not hold out.
    assert len(seen.fits) == 2 + CALIBRATIONS
    assert not list(folder.glob("kept*"))


WAITS = """
import signal
from nearfar.cli import main
from nearfar.runtime.progress import watching

def wait(iterations, fit):
    for number, iteration in enumerate(iterations, start=1):
        yield iteration
        if number == 5:
            signal.pause()

with watching(wait):
    main()
"""


@pytest.mark.posix
@pytest.mark.parametrize(
    ("method", "how"),
    [
        ("boost", signal.SIGINT),
        pytest.param("nca", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("boost", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("nca", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_killed_fit_that_continues_gives_the_same_bytes(run, folder, how, method):
    fit = [*LEARN, "--no-comparison", "--method", method]
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS, *fit], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not (folder / "kept").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(how)
    process.communicate()
    assert process.returncode == 128 + how
    assert 1 <= json.loads(read_metadata("kept")["checkpoint"])["iterations"] <= 5
    run(*fit)
    run(*fit[: fit.index("--checkpoint")], "--no-comparison", "--method", method, "--out", "other")
    assert (folder / "done").read_bytes() == (folder / "other").read_bytes()


def test_an_interruption_before_the_first_iteration_keeps_what_was_mined(run, folder, monkeypatch):
    fit = [*LEARN, "--no-comparison", "--method", "boost", "--set", "validation_fraction=None"]
    result = interrupted(run, fit, 1, 0)
    assert "before the first iteration was finished. The work so far is in kept.steps;" in (
        result.stderr
    )
    assert not (folder / "kept").exists()

    searches = []
    search = mining.class_neighbors
    monkeypatch.setattr(
        mining,
        "class_neighbors",
        lambda X, *a, **k: (searches.append(len(X)), search(X, *a, **k))[1],
    )
    kept = checkpoint.FitCheckpoint(folder / "kept")
    table = nearfar.read_table("iris.csv", label="species", drop=["name"])
    learner = BoostMetric(random_state=0, validation_fraction=None)
    with kept:
        kept.fit(learner, table.X, table.supervision, groups=table.groups)
    assert len(table.X) not in searches


def test_an_interruption_before_the_fit_keeps_nothing(run, folder, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("nearfar.workflow.learning.check_cost", stop)
    assert "finished. Nothing was kept; run the same" in run(*FIT, code=130).stderr
    assert not list(folder.glob("kept*"))


def never_stopped(learner, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(learner).fit(X, y)


def continued(learner, X, y, path, iterations):
    """Fit with a checkpoint, interrupted after some iterations; return the learner, and when."""
    seen = Interruption(1, iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.raises(KeyboardInterrupt), FitCheckpoint(path) as kept, watching(seen):
            kept.fit(clone(learner), X, y)
        learner = clone(learner)
        with FitCheckpoint(path) as kept:
            kept.fit(learner, X, y)
    return learner


@pytest.mark.parametrize("name", [n for n, c in known_learners().items() if can_continue(c())])
def test_every_learner_continues_with_the_same_bytes(name, iris, tmp_path):
    X, y = iris
    if name == "MLKR":
        y = X[:, 0] + 0.5 * y
    learner = known_learners()[name](max_iter=8, random_state=0)
    if "random_state" not in signature(known_learners()[name]).parameters:
        learner = known_learners()[name](max_iter=8)
    expected = never_stopped(learner, X, y)
    found = continued(learner, X, y, tmp_path / "kept", min(3, expected.n_iter_ - 1))
    assert found.n_iter_ == expected.n_iter_
    assert found.history_.objective.tobytes() == expected.history_.objective.tobytes()
    for one, other in zip(found.metric_.parts, expected.metric_.parts, strict=True):
        assert one.L.tobytes() == other.L.tobytes()


@pytest.mark.parametrize(
    ("learner", "kind", "step"),
    [(NCA(), SoftNeighbors, "evaluate"), (BoostMetric(), TripletOperator, "leading_eigenpair")],
)
def test_what_was_done_is_not_done_again(learner, kind, step, iris, tmp_path, monkeypatch):
    calls, method = [], getattr(kind, step)

    def counting(*arguments, **options):
        calls.append(step)
        return method(*arguments, **options)

    monkeypatch.setattr(kind, step, counting)
    learner.set_params(max_iter=8, random_state=0, validation_fraction=None)
    never_stopped(learner, *iris)
    whole = len(calls)
    calls.clear()
    with FitCheckpoint(tmp_path / "kept") as kept:
        with pytest.raises(KeyboardInterrupt), watching(Interruption(1, 6)):
            kept.fit(clone(learner), *iris)
        first = len(calls)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            kept.fit(clone(learner), *iris)
    # Two eigenpairs are about the problem and the result, not about an iteration.
    again = 0 if step == "evaluate" else 1
    assert len(calls) - first == whole - first + again < whole


def test_approximate_mining_continues_block_by_block(tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(approximate_mining, "_QUERIES", 100)
    X = np.random.default_rng(0).standard_normal((1000, 4))
    y = np.arange(1000) % 3
    learner = BoostMetric(
        max_iter=3,
        random_state=0,
        constraints=NearestTriplets(search="approximate"),
        validation_fraction=None,
    )
    expected = never_stopped(learner, X, y)
    searched, nearest = [], approximate_mining._Index._nearest

    def counting(self, place, *arguments):
        searched.append(len(place))
        if len(searched) == 20:
            raise KeyboardInterrupt
        return nearest(self, place, *arguments)

    monkeypatch.setattr(approximate_mining._Index, "_nearest", counting)
    with FitCheckpoint(tmp_path / "kept") as kept:
        with pytest.raises(KeyboardInterrupt):
            kept.fit(clone(learner), X, y)
        kept.fit(found := clone(learner), X, y)
    assert len(searched) < 2 * 20 + 10
    assert sum(searched) < 2 * 1000 + 2 * 20 * 100
    assert found.metric_.L.tobytes() == expected.metric_.L.tobytes()


@pytest.mark.parametrize("kind", ["npy", "parquet", "dask"])
def test_rows_that_are_not_in_memory_continue_with_the_same_bytes(kind, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    X = rng.standard_normal((600, 5)) + y[:, None]
    source = tmp_path / f"X.{kind}"
    if kind == "npy":
        np.save(source, X)
    elif kind == "parquet":
        pl.DataFrame(X).write_parquet(source)
    else:
        source = pytest.importorskip("dask.array").from_array(X, chunks=(200, 5))
    learner = BoostMetric(max_iter=12, random_state=0)
    expected = never_stopped(learner, source, y)
    found = continued(learner, source, y, tmp_path / "kept", 4)
    assert found.metric_.L.tobytes() == expected.metric_.L.tobytes()
    kept = FitCheckpoint(tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt), kept, watching(Interruption(1, 2)):
        kept.fit(clone(learner), source, y)
    other = tmp_path / "other.npy"
    np.save(other, X + 1)
    with pytest.raises(ValueError, match="other data"):
        kept.fit(clone(learner), other, y)


START = """
from nearfar.cli import main
from nearfar.workflow import checkpoint
checkpoint.SECONDS_BETWEEN_WRITES = 0
main()
"""


@pytest.mark.posix
@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_signals(folder, name):
    how = signal.Signals[name]
    endless = ["--method", "nca", "--max-iter", "1000000", "--set", "tol=0", "--no-comparison"]
    # Validation would end the fit after a few iterations.
    endless += ["--set", "validation_fraction=None"]
    command = [sys.executable, "-c", START, *LEARN, *endless]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (folder / "kept").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(how)
    _, messages = process.communicate()
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
    assert process.returncode == codes[how]
    assert "Traceback" not in messages
    assert (how == signal.SIGINT) == ("run the same command again" in messages)
    assert not (folder / "done").exists()
    done = json.loads(read_metadata("kept")["checkpoint"])["iterations"]
    endless[3] = str(done + 2)
    again = subprocess.run(
        [*command[:3], *LEARN, *endless, "--json"], capture_output=True, check=True
    )
    assert json.loads(again.stdout)["iterations"] == done + 2
    assert Metric.load("done").n_features == 4
    assert not (folder / "kept").exists()
