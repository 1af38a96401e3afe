"""Every learner on strange data: a finite metric, or an error in a sentence."""

from __future__ import annotations

import time
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.inputs import LEARNERS, cases, check_message, imbalanced, learners, problems
from nearfar import LDA, LFDA, LMNN, NCA, RCA, AutoMetric, BoostMetric, DRMetric
from nearfar.learners.selection import auto_problem
from nearfar.metrics.variants import SignedForm

CPU_SECONDS = 60.0
BYTES = 200e6


@pytest.mark.slow
@pytest.mark.parametrize("cls", [cls for _, cls in LEARNERS])
@cases
@given(data=st.data())
def test_learner(cls, data):
    learner = data.draw(learners(cls), label="learner")
    X, y = data.draw(problems(cls.supervision), label="problem").make()
    tracemalloc.start()
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner.fit(X, y)
    except ValueError as error:
        check_message(str(error))
    else:
        check_metric(learner, X)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert time.process_time() - start < CPU_SECONDS
    assert peak < BYTES


def check_metric(learner, X):
    """A metric has finite distances, and is positive semidefinite unless it was asked not to be."""
    metric = learner.metric_
    if isinstance(metric, SignedForm):
        assert np.isfinite(metric.matrix).all()
        return
    assert np.isfinite(metric.distances(X[:5], X[:5])).all()
    assert np.isfinite(learner.transform(X[:5])).all()
    for part in metric.parts:
        M = part.matrix
        assert np.isfinite(M).all()
        assert np.linalg.eigvalsh(M)[0] >= -1e-9 * np.abs(M).max()


@pytest.mark.parametrize(
    "learner",
    [
        AutoMetric(budget=0.1, random_state=0),
        LDA(),
        RCA(),
        LFDA(),
        NCA(max_iter=2, random_state=0),
        LMNN(max_iter=2),
        BoostMetric(max_iter=2, random_state=0),
        DRMetric(max_iter=2),
    ],
    ids=lambda learner: type(learner).__name__,
)
@cases
@given(classes=imbalanced)
def test_imbalanced_classes(learner, classes):
    X, y = classes.make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_metric(learner.fit(X, y), X)


@cases
@given(classes=imbalanced)
def test_every_class_survives_samples(classes):
    """Trials of AutoMetric see at most 20 rows, and fits to more seem to take too long."""
    X, y = classes.make()
    learner = AutoMetric(candidates=["RCA", "LDA"], random_state=classes.seed)
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patched.setattr(auto_problem, "_MAX_TRIAL_ROWS", 20)
        patched.setattr(auto_problem, "_COST_EXPONENT", 1e9)
        check_metric(learner.fit(X, y), X)
    # Of fewer than three rows of a class, none may be left where some are held out.
    if sorted(classes.sizes)[-2] > 2:
        assert {entry["note"] for entry in learner.leaderboard_} == {""}
