from __future__ import annotations

import numpy as np
import pytest

from nearfar.numerics.optimizers import lbfgs


def test_lbfgs_can_be_stopped_and_fails_loudly():
    def sphere(x):
        return float(x @ x), 2 * x

    steps = lbfgs(sphere, np.full(3, 5.0), max_iter=50, tol=0.0)
    next(steps)
    steps.close()

    def broken(x):
        raise RuntimeError("no value here")

    with pytest.raises(RuntimeError, match="no value"):
        next(lbfgs(broken, np.ones(2), max_iter=5, tol=0.0))
    with pytest.raises(ValueError, match="not finite"):
        next(lbfgs(lambda x: (np.nan, x), np.ones(2), max_iter=5, tol=0.0))


def run(steps):
    """Return all values, the last point, and why it ended."""
    values = []
    while True:
        try:
            value, x = next(steps)
        except StopIteration as end:
            return values, x, end.value
        values.append(value)


@pytest.mark.parametrize("bounds", [None, [(0.0, 1.0)] * 3])
def test_quadratics_are_minimised(bounds):
    target = np.array([0.5, -2.0, 3.0])

    def f(x):
        return float((x - target) @ (x - target)), 2 * (x - target)

    values, x, reason = run(lbfgs(f, np.full(3, 0.9), max_iter=50, tol=0.0, bounds=bounds))
    assert reason == "converged"
    assert (np.diff(values) <= 0).all()
    expected = target if bounds is None else np.clip(target, 0.0, 1.0)
    np.testing.assert_allclose(x, expected, atol=1e-6)


def test_iterations_are_counted():
    def rosenbrock(x):
        gap = x[1] - x[0] ** 2
        slope = np.array([-400 * x[0] * gap - 2 * (1 - x[0]), 200 * gap])
        return float(100 * gap**2 + (1 - x[0]) ** 2), slope

    values, _, reason = run(lbfgs(rosenbrock, np.array([-1.0, 1.0]), max_iter=4, tol=0.0))
    assert (len(values), reason) == (4, "max_iter")
