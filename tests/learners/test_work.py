"""How much work a fit takes, counted and not timed."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from sklearn.datasets import make_classification

from nearfar.learners.base import known_learners
from nearfar.runtime.progress import deadline

X, Y = make_classification(
    1010, 24, n_informative=8, n_redundant=4, n_classes=3, class_sep=1.5, random_state=0
)
LEARNERS = [name for name in known_learners() if name != "AutoMetric"]


def work(learner, n_rows):
    """Return the iterations of a fit, and its checks of the time: one for each evaluation."""
    checks = count()
    y = X[:, 0] + X[:, 1] if learner.supervision == ("numbers",) else Y
    with deadline(1e9, clock=lambda: float(next(checks)) * 1e-9):
        learner.fit(X[:n_rows], y[:n_rows])
    return np.array([learner.n_iter_, next(checks)])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:max_iter=")
@pytest.mark.parametrize("name", LEARNERS)
def test_some_rows_more_are_about_as_much_work(name):
    """There is no number of rows at which a fit becomes another one."""
    known = known_learners()[name]().get_params()
    settings = {"random_state": 0, "scale": "standard", "validation_fraction": None}
    learner = known_learners()[name](**{k: v for k, v in settings.items() if k in known})
    if name == "PSDBoost":
        learner.set_params(max_iter=40)
    fewer, more = work(learner, 990), work(learner, 1010)
    assert (more <= 2.5 * fewer + 8).all()
    assert (fewer <= 2.5 * more + 8).all()
