"""Every learner on strange data: a finite metric, or an error in a sentence."""

from __future__ import annotations

import time
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.inputs import LEARNERS, cases, check_message, learners, problems
from nearfar.metrics.signed_form import SignedForm

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
