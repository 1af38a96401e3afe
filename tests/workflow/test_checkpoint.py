"""Interrupted commands continue where they stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from cli.conftest import LABELS, NAMES, NCA_ONLY
from nearfar import LMNN, NCA, RCA, BoostMetric, Metric
from nearfar.learners.base import known_learners
from nearfar.metrics.file_format import read_metadata
from nearfar.runtime.progress import watching
from nearfar.tables import checkpoint
from nearfar.tables.checkpoint import FitCheckpoint, can_continue

LEARN = ["learn", "iris.csv", *LABELS, "--out", "done", "--checkpoint", "kept"]
FIT = [*LEARN, "--no-comparison", "--method", "nca"]
COMPARE = ["compare", "iris.csv", *LABELS, "--folds", 2, "--checkpoint", "kept", "--neighbors", 3]
COMPARE += ["--method", "boost", "--method", "nca"]
CALIBRATIONS = 5
"""Fits without a fold, for probabilities of votes."""


@pytest.fixture(autouse=True)
def every_iteration_is_kept(monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_WRITES", 0.0)


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
    result = interrupted(run, FIT, 1, 3)
    assert "interrupted. The work so far is in kept; run the same command again" in result.stderr
    assert not (folder / "done").exists()
    with pytest.warns(ConvergenceWarning):
        expected = NCA(max_iter=3, random_state=0, validation_fraction=None).fit(*iris).metric_
    kept = Metric.load("kept")
    np.testing.assert_allclose(kept.matrix, expected.matrix, rtol=1e-10)
    assert kept.feature_names == tuple(NAMES)
    seen = Interruption()
    with watching(seen):
        found = document(*FIT)
    assert not list(folder.glob("kept*"))
    never_stopped = NCA(random_state=0).fit(*iris)
    assert found["iterations"] == never_stopped.n_iter_ == 3 + seen.fits[0]
    assert likeness(Metric.load("done"), never_stopped.metric_, iris[0]) > 0.999


def test_an_interrupted_closed_form_starts_again(run, document, iris):
    command = [*LEARN, "--no-comparison", "--method", "rca"]
    interrupted(run, command, 1, 1)
    assert document(*command)["iterations"] == 1
    np.testing.assert_array_equal(Metric.load("done").L, RCA().fit(*iris).components_)


def test_iterations_are_counted_over_all_runs(run, document):
    nine = [*FIT, "--max-iter", 9, "--set", "validation_fraction=None", "--set", "tol=0"]
    for after in (4, 2):
        interrupted(run, nine, 1, after)
    seen = Interruption()
    with watching(seen):
        found = document(*nine)
    assert seen.fits[0] == 3
    assert len(seen.fits) == 1 + CALIBRATIONS
    assert found["iterations"] == 9


def test_the_metric_is_saved_now_and_then(run, monkeypatch):
    seen, ticks, save = [], iter(range(0, 1000, 2)), Metric.save
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_WRITES", 5.0)
    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    monkeypatch.setattr(Metric, "save", lambda self, *a, **k: (seen.append(k), save(self, *a, **k)))
    run(*FIT, "--max-iter", 9, "--set", "validation_fraction=None", "--set", "tol=0")
    kept = [k["metadata"]["checkpoint"] for k in seen if "checkpoint" in k["metadata"]]
    assert [json.loads(text)["iterations"] for text in kept] == [1, 4, 7]


@pytest.mark.parametrize("change", [["--method", "boost"], ["--set", "tol=0.5"], ["--drop", "a"]])
def test_another_fit_is_refused(run, folder, change):
    interrupted(run, FIT, 1, 2)
    before = (folder / "kept").read_bytes()
    assert "checkpoint of another fit" in run(*FIT, *change, code=2).stderr
    assert (folder / "kept").read_bytes() == before
    assert not (folder / "done").exists()


def test_other_constraints_are_refused(run, fail):
    rows = ["learn", "rows.npy", "--no-comparison", "--method", "maxmargin", "--checkpoint", "kept"]
    interrupted(run, [*rows, "--pairs", "pairs.csv"], 1, 2)
    pl.read_csv("pairs.csv")[1:].write_csv("fewer.csv")
    assert "checkpoint of another fit" in fail(*rows, "--pairs", "fewer.csv")
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
    command = [*LEARN, "--method", "nca", "--folds", 2, "--neighbors", 3]
    result = interrupted(run, command, 3, 4)
    assert "in kept and kept.comparison;" in result.stderr
    assert json.loads(read_metadata("kept")["checkpoint"])["iterations"] == 4
    seen = Interruption()
    with watching(seen):
        run(*command)
    assert len(seen.fits) == 1 + CALIBRATIONS
    assert not list(folder.glob("kept*"))


@pytest.mark.usefixtures("few_learners")
def test_best_keeps_the_comparison(run, folder):
    command = [*LEARN, "--method", "best", "--folds", 2, "--only-if-significant"]
    command += ["--neighbors", 3]
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
    command += ["--checkpoint", "kept", "--neighbors", 3]
    interrupted(run, command, 3, 2)
    assert (folder / "kept").exists()
    seen = Interruption()
    with watching(seen):
        run(*command)
    # All rows, and the rows that the report does not hold out.
    assert len(seen.fits) == 2 + CALIBRATIONS
    assert not list(folder.glob("kept*"))


def test_an_interruption_before_the_fit_keeps_nothing(run, folder, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("nearfar.tables.learn.fit_method", stop)
    assert "Nothing was kept; run the same" in run(*FIT, code=130).stderr
    assert not list(folder.glob("kept*"))


AT_ONCE = {"DRMetric", "FrobMetric", "MLKR", "MMC", "MetricBoost"}
"""Learners that are where they end after one iteration, or that take another way."""


def difference(one, other, X):
    """Largest difference of distances between rows, in units of their mean."""
    one, other = (metric.distances(X) for metric in (one, other))
    return np.abs(one / one.mean() - other / other.mean()).max()


def likeness(one, other, X):
    """Correlation of the distances between rows."""
    return np.corrcoef(one.distances(X).ravel(), other.distances(X).ravel())[0, 1]


def continued(learner, X, y, path, iterations):
    """Interrupt a fit, and continue; return the learner, and the number of iterations."""
    seen = Interruption(1, iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.raises(KeyboardInterrupt), FitCheckpoint(path) as kept, watching(seen):
            kept.fit(clone(learner), X, y)
        with FitCheckpoint(path) as kept:
            total = kept.fit(learner := clone(learner), X, y)
    return learner, total


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [n for n, c in known_learners().items() if can_continue(c())])
def test_every_learner_starts_from_its_checkpoint(name, iris, tmp_path):
    X, y = iris
    if name == "MLKR":
        y = X[:, 0] + 0.5 * y
    learner = known_learners()[name](max_iter=6)
    fixed = {"random_state": 0, "validation_fraction": None}
    learner.set_params(**{key: fixed[key] for key in fixed.keys() & learner.get_params()})
    expected = clone(learner).fit(X, y)
    done = min(5, expected.n_iter_ - 1)
    found, total = continued(learner, X, y, tmp_path / "kept", done)
    assert total == done + found.n_iter_
    if name != "MixtureNCA":  # of several starts, only the current one continues
        assert total <= 6
    if name not in AT_ONCE:
        alone = clone(learner).set_params(max_iter=1).fit(X, y)
        near, far = (difference(each.metric_, expected.metric_, X) for each in (found, alone))
        assert near < far / 2


def test_a_fit_that_continues_is_validated(iris, tmp_path):
    expected = LMNN().fit(*iris)
    assert 0 < expected.prior_share_ < 1
    found, total = continued(LMNN(), *iris, tmp_path / "kept", 2)
    assert found.prior_share_ == expected.prior_share_
    assert total == expected.n_iter_
    assert found.history_.stopped == expected.history_.stopped == "validation"
    assert likeness(found.metric_, expected.metric_, iris[0]) > 0.999


@pytest.mark.parametrize("kind", ["npy", "parquet", "dask"])
def test_rows_that_are_not_in_memory_continue(kind, tmp_path):
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
    expected = clone(learner).fit(source, y)
    found, total = continued(learner, source, y, tmp_path / "kept", 2)
    assert total == 2 + found.n_iter_ <= 12
    assert likeness(found.metric_, expected.metric_, X) > 0.99
    kept = FitCheckpoint(tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt), kept, watching(Interruption(1, 2)):
        kept.fit(clone(learner), source, y)
    other = tmp_path / "other.npy"
    np.save(other, X + 1)
    with pytest.raises(ValueError, match="checkpoint of another fit"):
        kept.fit(clone(learner), other, y)


START = """
from nearfar.cli import main
from nearfar.tables import checkpoint
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
